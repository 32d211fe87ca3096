"""Conservative backfilling: every job is promised a start when it arrives."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from scheduler.free_nodes.kernels.planning import carry_over, plan
from scheduler.free_nodes.kernels.queue_tree import ESTIMATE_S, JOB, SIZE
from scheduler.free_nodes.placer import Placer
from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.model import JobId, NodeSchedule

WAITS = "it has a reservation for later"


class Conservative:
    """Conservative backfilling: reserves for each job, delaying none before it.

    In every pass the reservations are moved, in the order of the queue, each to the earliest time that the
    others leave free; so none is ever moved to a later time, as long as no run outlives its estimate and no
    node fails. It asks to be asked again at the first of them. (Feitelson and Weil 1998; Mu'alem and
    Feitelson 2001, who move them when a run ends early; to do it always also takes what a move leaves free.)
    A pass costs O(n (n + r)) for n jobs that wait and r that run. Ties: earlier arrival, lower id; nodes of
    the lowest number.
    """

    def __init__(self) -> None:
        self._jobs = np.empty(0, dtype=np.int64)
        self._starts_s = np.empty(0)

    @property
    def reservations(self) -> Mapping[JobId, float]:
        """When each job that waits is to start, as of the last pass."""
        jobs, starts_s = self._jobs.tolist(), self._starts_s.tolist()
        return {JobId(job): start_s for job, start_s in zip(jobs, starts_s, strict=True)}

    def schedule(self, problem: FreeNodesProblem) -> NodeSchedule:
        nodes, now_s = problem.free_nodes, problem.now_s
        jobs, releases = nodes.waiting.table, nodes.releases
        starts_s = np.empty(len(jobs))
        carry_over(jobs, self._jobs, self._starts_s, starts_s)
        started = np.empty(len(jobs), dtype=np.int64)
        profile = np.empty((4 * len(jobs) + releases.n + 3, 2))
        n_started = plan(
            jobs,
            np.argsort(starts_s, kind="stable"),
            starts_s,
            releases.table,
            releases.n,
            nodes.free.n,
            now_s,
            profile,
            started,
        )
        placing, left = Placer(problem), np.ones(len(jobs), dtype=bool)
        for i in started[:n_started].tolist():
            placing.start_with(i, int(jobs[i, SIZE]), now_s + float(jobs[i, ESTIMATE_S]))
            left[i] = False
        self._jobs, self._starts_s = jobs[left, JOB].astype(np.int64), starts_s[left]
        first_s = float(self._starts_s.min(initial=np.inf))
        return placing.schedule(WAITS, lambda i: f"reserved for {starts_s[i]:.10g} s")._replace(
            ask_again_s=first_s if first_s < np.inf else None
        )
