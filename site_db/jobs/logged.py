"""Jobs as logs have them, and the tally of a log's rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from site_db.files.input_errors import InvalidFile
from site_db.slurm.output import Tres

CLOCKS_AGREE_TO_S = 86_400.0
"""The tolerated difference of clocks, in seconds: only a later time is in the future."""

MAX_PROCESSORS = 2**31 - 1
"""The greatest integer of a column in every database. Slurm's mark for "no value" is greater."""

COMPLETED = "COMPLETED"


class Charged(NamedTuple):
    """Whom Slurm charges for a job, and its quality of service; empty where unknown."""

    account: str
    qos: str


@dataclass(slots=True)  # not frozen: a log has millions, and each then takes twice as long to make
class LoggedJob:
    """One run of a log.

    Times are seconds since 1970-01-01 UTC, submitted <= started < ended, and the run time is ended - started.
    Of a job that waits, start and end are infinite, and `submitted_unix_s`, too, while it is not eligible.
    """

    number: str
    """The log's own id of the job, like "1234_7", "99+1" or "17"; a requeued job may have run twice."""
    user: str
    program: str
    """The executable or the job's name; the partition if the log has neither."""
    partition: str
    """The partition; empty if the log does not say."""
    processors: int
    """1 or more."""
    nodes: tuple[str, ...]
    """The names of its nodes; empty if the log does not say."""
    submitted_unix_s: float
    started_unix_s: float
    ended_unix_s: float
    time_limit_s: float | None = None
    """The time limit that the user requested; None if there is none or the log does not say."""
    resources: Tres = field(default_factory=Tres)
    """What it requested, where the log says."""
    state: str = COMPLETED
    """COMPLETED, or what else ended the job: then it used its nodes, but says nothing about run times."""
    account: str = ""
    qos: str = ""
    constraints: str = ""
    """The features of nodes that it requested, as Slurm writes them."""
    queued_unix_s: float | None = None
    """When it was submitted, if it could not start before `submitted_unix_s` (dependencies, begin times)."""
    reservation: str = ""
    submit_line: str = ""
    """The command with which it was submitted; empty where columns of its row were repaired."""
    line: int = field(default=0, compare=False)
    """The line in the log."""


class Refused(Exception):
    """A row is not a completed run; the message is the reason."""


@dataclass(slots=True)
class Tally:
    """Counts of a log's rows: used, repaired by rule, refused by reason.

    A row is either used or refused. A used row counts once for each rule that repaired it. A tally may span
    several files and is up to date at each job.
    """

    used: int = 0
    repaired: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    first_line: dict[str, int] = field(default_factory=dict, compare=False)
    """The first line of each rule and reason."""
    remarked: dict[str, dict[str, None]] = field(default_factory=dict, compare=False)
    """What the log says about jobs that were used, and the model knows otherwise, with their numbers."""

    @property
    def rows(self) -> int:
        return self.used + self.refused.total()

    def repair(self, rule: str, line: int) -> None:
        self.repaired[rule] += 1
        self.first_line.setdefault(rule, line)

    def refuse(self, reason: str, line: int) -> None:
        self.refused[reason] += 1
        self.first_line.setdefault(reason, line)

    def remark(self, remark: str, number: str) -> None:
        self.remarked.setdefault(remark, {})[number] = None

    def remarks(self) -> Iterator[str]:
        """A sentence for each remark."""
        for remark, jobs in self.remarked.items():
            first = next(iter(jobs))
            yield (
                f"job {first} {remark}" if len(jobs) == 1 else f"{len(jobs):,} jobs (first: {first}) {remark}"
            )


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
