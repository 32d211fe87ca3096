"""What the readers of job logs have in common: one run, the tally of a log's rows, and the opened file."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from site_db.jobs.records import CLOCKS_AGREE_TO_S
from site_db.toml_file import InvalidFile

LATEST_UNIX_S = 253_402_300_799
"""The last second of the year 9999. A later time is a slip, which no calendar downstream could show."""

MOST_PROCESSORS = 2**31 - 1
"""As wide as an integer column of every database is. Slurm's own mark for "no value" is beyond it."""


@dataclass(frozen=True, slots=True)
class LoggedJob:
    """One whole run that a log tells of.

    Times are seconds since 1970-01-01 UTC, submitted <= started < ended, and the run time is ended - started.
    """

    number: str
    """The log's own id of the job, like "1234_7", "99+1" or "17"; a requeued job may have run twice."""
    user: str
    program: str
    """The executable or the job's name; the partition where the log knows no program."""
    partition: str
    """Empty where the log does not tell."""
    processors: int
    """1 or more."""
    nodes: tuple[str, ...]
    """Empty where the log does not tell."""
    submitted_unix_s: float
    started_unix_s: float
    ended_unix_s: float
    time_limit_s: float | None = None
    """How long the user asked for; None where that is unlimited, or the log does not tell."""


@dataclass(slots=True)
class Tally:
    """What became of a log's rows: used, repaired (by which rule, how many), refused (why, how many).

    A row is either used or refused. Repairs are counted of rows that were used, once for each rule, so that
    one row may stand under several rules. A tally may go from file to file, and is up to date at each job.
    """

    used: int = 0
    repaired: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    first_line: dict[str, int] = field(default_factory=dict, compare=False)
    """Where each rule of repair and each reason of refusal was first met."""

    @property
    def rows(self) -> int:
        return self.used + self.refused.total()

    def use(self) -> None:
        self.used += 1

    def repair(self, rule: str, line: int) -> None:
        self.repaired[rule] += 1
        self.first_line.setdefault(rule, line)

    def refuse(self, reason: str, line: int) -> None:
        self.refused[reason] += 1
        self.first_line.setdefault(reason, line)


def up_to_now(jobs: Iterable[LoggedJob], path: Path, now_unix_s: float) -> Iterator[LoggedJob]:
    """The jobs of a log. Raises InvalidFile for one that ended later than now."""
    for job in jobs:
        if job.ended_unix_s > now_unix_s + CLOCKS_AGREE_TO_S:
            ended = datetime.fromtimestamp(job.ended_unix_s, UTC)
            raise InvalidFile(
                f"{path}: job {job.number} ended at {ended:%Y-%m-%d %H:%M}, which is in the future; the log "
                f"comes from a machine with another clock or another unit of time"
            )
        yield job


@contextmanager
def open_log(path: Path) -> Iterator[Iterable[str]]:
    """The lines of a log, plain text or (where the name ends in .gz) gzip, read as they are asked for.

    Bytes that are not UTF-8 become replacement characters: one odd job name must not cost a year of jobs.
    Raises InvalidFile where the file cannot be opened and, as lines are taken, where it cannot be read on.
    """
    open_text = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        # Some editors begin a file with a byte order mark; "-sig" takes it off.
        file = open_text(path, "rt", encoding="utf-8-sig", errors="replace")
    except FileNotFoundError:
        raise InvalidFile(f"{path}: there is no such file") from None
    except OSError as error:
        raise _unreadable(path, error.strerror) from None
    with file:
        yield _lines(file, path)


def _lines(file: Iterable[str], path: Path) -> Iterator[str]:
    # The errors are caught here and not around the caller's block, whose own OSErrors are not the log's.
    try:
        yield from file
    except (gzip.BadGzipFile, zlib.error):
        raise _unreadable(path, "its name ends in .gz, but it is no gzip file or a damaged one") from None
    except EOFError:
        raise _unreadable(path, "it is a gzip file whose end is missing") from None
    except OSError as error:
        raise _unreadable(path, error.strerror) from None


def _unreadable(path: Path, reason: str | None) -> InvalidFile:
    return InvalidFile(f"{path}: the file cannot be read: {reason}")


def shown(line: str) -> str:
    """A line of a log, short enough to stand in a message."""
    line = line.strip()
    return f"'{line}'" if len(line) <= 60 else f"'{line[:57]}...'"
