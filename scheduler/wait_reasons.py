"""Why jobs wait, told without a look at each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from scheduler.model import Placement


class Reasons(dict[int, str]):
    """Why some jobs of a problem wait, in short; what there is to say in particular, `in_detail` tells."""

    def __init__(self, reasons: Mapping[int, str], in_detail: Callable[[int], str]) -> None:
        super().__init__(reasons)
        self.in_detail = in_detail


class AllOthers(Mapping[int, str]):
    """All jobs of a problem that are not placed wait, for the same reason.

    What there is to say of each in particular, `in_detail` tells; only before the schedule is carried out,
    since it looks at the problem.
    """

    __slots__ = ("_n_jobs", "_placements", "_reason", "in_detail")

    def __init__(
        self,
        n_jobs: int,
        placements: Sequence[Placement],
        reason: str,
        in_detail: Callable[[int], str] | None = None,
    ) -> None:
        self._n_jobs = n_jobs
        self._placements = placements
        self._reason = reason
        self.in_detail = in_detail

    def are_all_but(self, placements: Sequence[Placement], n_jobs: int) -> bool:
        """Whether these are, by the way they are made, all of so many jobs but those."""
        return self._placements is placements and self._n_jobs == n_jobs

    def __len__(self) -> int:
        return self._n_jobs - len(self._placements)

    def __iter__(self) -> Iterator[int]:
        placed = {placement.job for placement in self._placements}
        return (i for i in range(self._n_jobs) if i not in placed)

    def __getitem__(self, i: int) -> str:
        if i in self:
            return self._reason
        raise KeyError(i)

    def __contains__(self, i: object) -> bool:
        if not isinstance(i, int) or not 0 <= i < self._n_jobs:
            return False
        return all(placement.job != i for placement in self._placements)
