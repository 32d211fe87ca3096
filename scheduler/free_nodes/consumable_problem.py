"""The problem of rigid jobs on consumable nodes: which of them start now, and on which parts of the nodes?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from scheduler.free_nodes.consumable_nodes import ConsumableNodes
from scheduler.kinds import Kind
from scheduler.model import Job, RunId, Start
from scheduler.node_resources.room import site_lacks
from scheduler.node_resources.shares import mistake_in, rows_of
from scheduler.node_resources.trial import Trial
from scheduler.node_rules import first_violation
from scheduler.node_set import NodeSet
from scheduler.problem import Running, SchedulingProblem
from scheduler.rules import NODES_FREE, Violation


class ConsumableNodesProblem(SchedulingProblem):
    """Which of the jobs start now, and on which parts of `free_nodes`? The answer is a `NodeSchedule`.

    See `SchedulingProblem` for `now_s`, `jobs`, `n_jobs`, `running` and `n_places`.
    """

    kind = Kind.FREE_NODES

    def __init__(
        self, now_s: float, free_nodes: ConsumableNodes, running: Mapping[RunId, Running] | None = None
    ) -> None:
        super().__init__(now_s, free_nodes.waiting, running, free_nodes.n_nodes)
        self.free_nodes = free_nodes

    def arrays(self) -> Mapping[str, Any]:
        free = self.free_nodes
        table, waiting, releases = free.nodes.table, free.waiting, free.releases
        return {
            "capacity": table.capacity,
            "free": table.free,
            "gpu_free": table.gpu_free,
            "n_chunks": table.n_chunks,
            "site": table.site,
            "waiting": np.array([waiting.kinds, waiting.chunks, waiting.estimates_s]),
            "releases": releases.table[: releases.n],
        }

    def violation(self, answer: object) -> Violation | None:
        with Trial(self.free_nodes.nodes) as trial:
            return first_violation(self, answer, _Room(self.free_nodes, trial))


class _Room:
    """Takes what each start uses, if it is free."""

    def __init__(self, state: ConsumableNodes, trial: Trial) -> None:
        self._state = state
        self._trial = trial

    def use(self, i: int, job: Job, start: Start, nodes: NodeSet) -> Violation | None:
        state, kind = self._state.nodes, int(self._state.waiting.kinds[i])
        chunks = int(self._state.waiting.chunks[i])
        lacking = site_lacks(state, state.request_of(kind, chunks)) if state.site_resources else None
        if lacking is not None:
            return Violation(NODES_FREE, job.id, f"job {job.id} cannot start: {lacking}")
        if not start.shares:
            used = state.divided(kind, chunks, nodes)
            if used is None:
                return Violation(NODES_FREE, job.id, f"job {job.id} does not fit on nodes {nodes}")
        else:
            why = mistake_in(start.shares, len(state.all))
            used = rows_of(() if why else start.shares)
            why = why or state.why_not(kind, chunks, used)
            if why is None and {share.node for share in start.shares} != set(nodes):
                why = f"its shares are on other nodes than {nodes}"
            if why is not None:
                return Violation(NODES_FREE, job.id, f"job {job.id} cannot start on nodes {nodes}: {why}")
        self._trial.take(kind, used)
        return None

    def overbooked(self) -> Violation | None:
        return None  # every start was checked together with those before it
