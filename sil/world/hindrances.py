"""What makes runs take longer than usual, or fail: slow machines, and jobs that fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, log, log1p, prod

from scheduler.model import DispatchOrder, Job, JobId, RunId


@dataclass(frozen=True, slots=True)
class SlowMachines:
    """A run that starts from `from_s` on and before `to_s` takes `factor` times as long on these machines (by
    index)."""

    machines: frozenset[int]
    factor: float
    from_s: float = 0.0
    to_s: float = inf

    def factor_at(self, machine: int, now_s: float) -> float:
        return self.factor if self.from_s <= now_s < self.to_s and machine in self.machines else 1.0


@dataclass(frozen=True, slots=True)
class FailingRuns:
    """The first `n` runs of a job fail, after a share of the time that they would take."""

    n: float
    after: float


def failing_runs(probability: float, after: float, draw: float) -> FailingRuns:
    """Of a job of which each run fails with this probability; 1: all its runs.

    `draw` is uniform in [0, 1): one for each job, so that it fails as often under every scheduler, and no
    less often with a greater probability. At least n runs fail with probability ** n.
    """
    return FailingRuns(inf if probability == 1.0 else log1p(-draw) // log(probability), after)


class Hindrances:
    """Those of one run of the harness. `most_s` is the time limit of a job, at which its runs end.

    A run is as slow as the slowest of its machines when it starts. A run that is lost or preempted before it
    would fail does not count as one that has failed.
    """

    def __init__(
        self,
        slow: Sequence[SlowMachines] = (),
        failing: Mapping[JobId, FailingRuns] | None = None,
        most_s: Callable[[Job], float] = lambda job: inf,
    ) -> None:
        self._slow = slow
        self._failing = failing or {}
        self._most_s = most_s
        self._failed: Counter[JobId] = Counter()
        self._will_fail: set[RunId] = set()

    def run_s(self, order: DispatchOrder, usual_s: float, now_s: float) -> float:
        """Seconds until a run that starts now ends or fails; without hindrances, it would end after
        `usual_s`."""
        run_s = usual_s
        if self._slow:
            run_s = min(run_s * self._slowness(order.machines, now_s), max(usual_s, self._most_s(order.job)))
        fails = self._failing.get(order.job.id)
        if fails is not None and self._failed[order.job.id] < fails.n:
            self._will_fail.add(order.run)
            run_s *= fails.after
        return run_s

    def has_failed(self, run: RunId, job: JobId) -> bool:
        """Whether a run that has come to its end has failed."""
        if run not in self._will_fail:
            return False
        self._failed[job] += 1
        return True

    def _slowness(self, machines: Sequence[int], now_s: float) -> float:
        return max(prod(slow.factor_at(machine, now_s) for slow in self._slow) for machine in machines)
