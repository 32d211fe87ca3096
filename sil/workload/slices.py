"""Slices of a log: jobs that follow each other in order of submission, replayed as logs of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from scheduler import counted
from sil.workload.job_log import JobLog, places
from site_db.files.given import InvalidFile

MOST_WARM_UP = 1_000
"""Jobs before a slice, by default."""


@dataclass(frozen=True)
class Slice:
    """Jobs `begin` to `end` - 1 of a log, counted from 0 in order of submission."""

    log: JobLog
    """These jobs, and those that are replayed before and after them, but not measured."""
    begin: int
    end: int
    warm_up_jobs: int = 0
    cool_down_jobs: int = 0

    @property
    def name(self) -> str:
        """As `--jobs` selects them."""
        return f"{self.begin}:{self.end}"


@dataclass(frozen=True)
class SlicedLog:
    """A log, and slices of it that do not overlap."""

    log: JobLog
    slices: tuple[Slice, ...]


def whole(log: JobLog) -> SlicedLog:
    """All jobs in one slice."""
    return equal_slices(log, 1)


def equal_slices(log: JobLog, n: int) -> SlicedLog:
    """All jobs in `n` slices, whose sizes differ by at most one job. Raises InvalidFile for more slices than
    jobs, or less than one."""
    n_jobs = len(log.jobs)
    if not 1 <= n <= n_jobs:
        raise InvalidFile(
            f"{log.name}: {counted(n_jobs, 'job')} cannot be cut into {n:,} slices; give a number from 1 to "
            f"{n_jobs:,}"
        )
    return SlicedLog(log, tuple(_slice(log, k * n_jobs // n, (k + 1) * n_jobs // n) for k in range(n)))


def slices_of_size(log: JobLog, size: int) -> SlicedLog:
    """Slices of `size` jobs, from the first job on; the jobs after the last whole slice are in none. Raises
    InvalidFile if there is none, or the size is less than one."""
    n_jobs = len(log.jobs)
    if not 1 <= size <= n_jobs:
        raise InvalidFile(
            f"{log.name}: {counted(n_jobs, 'job')} make no slice of {size:,}; give a number from 1 to "
            f"{n_jobs:,}"
        )
    begins = range(0, n_jobs - size + 1, size)
    return SlicedLog(log, tuple(_slice(log, begin, begin + size) for begin in begins))


def chosen_slices(log: JobLog, ranges: Sequence[str]) -> SlicedLog:
    """The slices `A:B`, in order of submission. Raises InvalidFile for an empty one, and for two that
    overlap, whose results would not be independent."""
    bounds = []
    for text in ranges:
        begin, end, _ = slice(*places(text)).indices(len(log.jobs))
        log.slice(*places(text))  # which says how many jobs there are
        bounds.append((begin, end))
    for (begin, end), (next_begin, next_end) in pairwise(sorted(bounds)):
        if next_begin < end:
            raise InvalidFile(
                f"{log.name}: slices {begin}:{end} and {next_begin}:{next_end} overlap; give slices without "
                "common jobs"
            )
    return SlicedLog(log, tuple(_slice(log, begin, end) for begin, end in sorted(bounds)))


def with_warm_up(sliced: SlicedLog, jobs: int | None = None) -> SlicedLog:
    """The same slices, each preceded by so many jobs of the log and followed by half as many, as far as there
    are any, which are replayed and not measured: a slice by itself begins with an empty machine and ends
    without new arrivals. By default as many as the slice has, at most MOST_WARM_UP."""
    log, slices = sliced.log, []
    for part in sliced.slices:
        before = min(part.end - part.begin, MOST_WARM_UP) if jobs is None else jobs
        slices.append(_slice(log, part.begin, part.end, before))
    return SlicedLog(log, tuple(slices))


def _slice(log: JobLog, begin: int, end: int, warm_up_jobs: int = 0) -> Slice:
    before, after = min(warm_up_jobs, begin), min(warm_up_jobs // 2, len(log.jobs) - end)
    part = log.slice(begin - before, end + after)
    here = log.cut.intersection(part.jobs["job"].to_list()) if log.cut else log.cut
    measured = frozenset(log.jobs["job"][begin:end].to_list()) if before or after else log.measured
    # Notes are of the whole log, and would go to every worker.
    return Slice(replace(part, cut=here, notes=(), measured=measured), begin, end, before, after)
