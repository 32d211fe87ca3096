"""The parallel job scheduler of Collins and George: SJS with cluster extensions."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from scheduler.mapping.placement import mapped
from scheduler.mapping.sjs import duplex
from scheduler.model import Assignment, Assignments, Schedule
from scheduler.problem import ReadyTimes, SchedulingProblem


class Pjs:
    """PJS: run the jobs that profit most on whole clusters, the others by SJS around them.

    1. SJS alone is the baseline.
    2. The profitability of (job, cluster) is the job's best sequential completion, min_j(ready + ETC), less
       its completion on the cluster, cluster ready + parallel time. Ready times count what was ready before
       and the parallel jobs committed so far. Only positive profitability counts.
    3. The most profitable pair is committed: its cluster, which is ready when all members are, is in use for
       the expected duration, and sequential jobs go only after it on its members.
    4. SJS schedules the other jobs around it. If the sum of expected job times improved strictly, go on from
       2, else stop with the best schedule so far.

    By that sum it is never worse than SJS on one problem. A job that no single machine can run is infinitely
    profitable, and a schedule that runs more jobs is better than any that runs fewer. Ties go to the lowest
    job index, then the lowest cluster index. Costs one SJS per committed pair and one more.
    Source: Collins and George 2001, section 3, steps 1 to 5.
    """

    def schedule(self, problem: SchedulingProblem) -> Schedule:
        jobs = np.arange(problem.n_jobs)
        machine_etc_s, cluster_etc_s = problem.machine_etc_s, problem.cluster_etc_s
        committed = _Committed(problem.ready_times, problem.ready_times.machine_s)
        best = duplex(machine_etc_s, committed.machine_s)
        while len(jobs):
            pair = committed.most_profitable(jobs, machine_etc_s, cluster_etc_s)
            if pair is None:
                break
            committed = committed.with_job(*pair, cluster_etc_s[pair])
            jobs = jobs[jobs != pair[0]]
            trial = committed.around(jobs, machine_etc_s)
            if not _is_better(trial, best):
                break
            best = trial
        return mapped(problem, best)


def _is_better(trial: Assignments, best: Assignments) -> bool:
    """More jobs run, or as many in strictly less total time."""
    if len(trial) != len(best):
        return len(trial) > len(best)
    return bool(trial.completion_s.sum() < best.completion_s.sum())


@dataclass(frozen=True)
class _Committed:
    """The parallel jobs committed so far, and the machines' ready times after them."""

    ready_times: ReadyTimes
    machine_s: NDArray[np.float64]
    assignments: tuple[Assignment, ...] = field(default=())

    def most_profitable(
        self, jobs: NDArray[np.int64], machine_etc_s: NDArray[np.float64], cluster_etc_s: NDArray[np.float64]
    ) -> tuple[int, int] | None:
        """The (job, cluster) among `jobs` of highest positive profitability."""
        if not self.ready_times.members:
            return None
        best_machine_s = (self.machine_s + machine_etc_s[jobs]).min(axis=1, initial=np.inf)
        on_cluster_s = self._cluster_ready_s() + cluster_etc_s[jobs]
        gain_s = np.full_like(on_cluster_s, -np.inf)
        possible = np.isfinite(on_cluster_s)
        np.subtract(best_machine_s[:, None], on_cluster_s, out=gain_s, where=possible)
        row, c = np.unravel_index(gain_s.argmax(), gain_s.shape)
        return (int(jobs[row]), int(c)) if gain_s[row, c] > 0.0 else None

    def with_job(self, i: int, c: int, time_s: float) -> _Committed:
        """Commit job i to cluster c for `time_s`."""
        members = list(self.ready_times.members[c])
        start_s = float(self.machine_s[members].max())
        machine_s = self.machine_s.copy()
        machine_s[members] = start_s + time_s
        assignment = Assignment(i, self.ready_times.n_machines + c, start_s, start_s + time_s)
        return _Committed(self.ready_times, machine_s, (*self.assignments, assignment))

    def around(self, jobs: NDArray[np.int64], machine_etc_s: NDArray[np.float64]) -> Assignments:
        """The committed jobs, and `jobs` by SJS on single machines around them."""
        sequential = duplex(machine_etc_s[jobs], self.machine_s)
        sequential = Assignments(
            jobs[sequential.jobs], sequential.resources, sequential.start_s, sequential.completion_s
        )
        return Assignments.join([Assignments.of(self.assignments), sequential])

    def _cluster_ready_s(self) -> NDArray[np.float64]:
        return ReadyTimes(self.machine_s, self.ready_times.members).cluster_s
