"""Wait reasons of many jobs, computed on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from scheduler.model import Start


class Reasons(dict[int, str]):
    """A short reason for each job; `in_detail(i)` computes more about job i."""

    def __init__(self, reasons: Mapping[int, str], in_detail: Callable[[int], str]) -> None:
        super().__init__(reasons)
        self.in_detail = in_detail


class AllOthers(Mapping[int, str]):
    """One short reason for all jobs of a problem that do not start; `in_detail(i)` computes more about job i
    from the problem, before the schedule is carried out."""

    __slots__ = ("_n_jobs", "_starts", "in_detail", "reason")

    def __init__(
        self, n_jobs: int, starts: Sequence[Start], reason: str, in_detail: Callable[[int], str] | None = None
    ) -> None:
        self._n_jobs = n_jobs
        self._starts = starts
        self.reason = reason
        self.in_detail = in_detail

    def are_all_but(self, starts: Sequence[Start], n_jobs: int) -> bool:
        """Whether these are by construction the reasons of all of `n_jobs` jobs except `starts`. O(1)."""
        return self._starts is starts and self._n_jobs == n_jobs

    def __len__(self) -> int:
        return self._n_jobs - len(self._starts)

    @property
    def started(self) -> set[int]:
        """The jobs that start."""
        return {start.job for start in self._starts}

    def __iter__(self) -> Iterator[int]:
        started = self.started
        return (i for i in range(self._n_jobs) if i not in started)

    def __getitem__(self, i: int) -> str:
        if i in self:
            return self.reason
        raise KeyError(i)

    def __contains__(self, i: object) -> bool:
        if not isinstance(i, int) or not 0 <= i < self._n_jobs:
            return False
        return all(start.job != i for start in self._starts)


def all_in_detail(reasons: Mapping[int, str]) -> Iterator[tuple[int, str]]:
    """The most detailed reason for each job that waits."""
    of_all = getattr(getattr(reasons, "in_detail", None), "of_all", None)
    if of_all is None or not isinstance(reasons, AllOthers) or len(reasons) == 0:
        return ((i, in_detail(reasons, i)) for i in reasons)
    started = reasons.started
    return ((i, text) for i, text in enumerate(of_all()) if i not in started)


def in_detail(reasons: Mapping[int, str], i: int) -> str:
    """The most detailed reason for job i."""
    if isinstance(reasons, AllOthers | Reasons) and reasons.in_detail is not None:
        return reasons.in_detail(i)
    return reasons[i]
