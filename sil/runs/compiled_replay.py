"""The compiled engine for the replay of a log: for which schedulers, and in which chunks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from scheduler import UserError
from scheduler.free_nodes.conservative import Conservative
from scheduler.free_nodes.kernels.estimates import ACTUAL, HISTORY, USER
from scheduler.free_nodes.kernels.queues import CONSERVATIVE
from scheduler.free_nodes.queue_arrays import QueuePolicy
from scheduler.free_nodes.rigid import Rigid
from scheduler.managers.free_node_allocation import never_fits
from sil.runs.under_test import UnderTest
from sil.settings.estimates import Estimates
from sil.trace.recorder import CHUNK
from sil.workload.job_log import JOB_CLASS, QUEUE, JobLog
from sil.world.compiled_replay.engine import CompiledQueue, Jobs, run_compiled
from sil.world.compiled_replay.tables import JobNames, decisions_table, facts_table
from sil.world.events import Order

_CODES = {Estimates.USER: USER, Estimates.ACTUAL: ACTUAL, Estimates.HISTORY: HISTORY}


class NotCompiled(UserError):
    """The compiled engine cannot run a replay. The message is one sentence for the user."""


class Chunk(NamedTuple):
    """A part of a replay: its facts (FACT_SCHEMA), its decisions (MEASURED_SCHEMA), and how many jobs have
    arrived by its end."""

    facts: pl.DataFrame
    decisions: pl.DataFrame
    n_arrived: int


Prepared = tuple[Jobs, CompiledQueue[Any], JobNames]
"""The jobs that arrive, the queue in which they wait, and what a trace says of them."""


@dataclass(frozen=True)
class CompiledReplay:
    """A log of jobs for identical processors, or for nodes of which they use parts."""

    log: JobLog
    policy: QueuePolicy
    order: Order
    selection: str = "first_fit"
    """Of nodes that differ."""

    @classmethod
    def of(
        cls, log: JobLog, scheduler: UnderTest, estimates: Estimates, order: Order
    ) -> CompiledReplay | str:
        """The replay under a scheduler; or why it cannot be compiled."""
        if not scheduler.is_built_in or scheduler.has_own_queue:
            return "only built-in schedulers for free nodes are compiled"
        made, code = scheduler.spec.make(), _CODES[estimates]
        if isinstance(made, Rigid):
            if log.cluster is not None and not _is_compiled(made.selection):
                return f"node selection '{made.selection}' is not compiled"
            policy = QueuePolicy(made.ordering.code, made.backfilling.code, code, always_called=False)
            return cls(log, policy, order, made.selection)
        if log.cluster is None and isinstance(made, Conservative):
            return cls(log, QueuePolicy(0, CONSERVATIVE, code, always_called=True), order)
        return f"it is not compiled{'' if log.cluster is None else ' for jobs that request parts of nodes'}"

    def chunks(self, arriving: pl.DataFrame) -> Iterator[Chunk]:
        """The replay of the log's jobs, `arriving` at these times."""
        if self.log.cluster is None:
            jobs, compiled, names = self._on_processors(arriving)
        else:
            from sil.runs.compiled_on_nodes import on_nodes  # compiled code that processors do without

            jobs, compiled, names = on_nodes(self.log, arriving, self.policy, self.selection)
        began_s = perf_counter()
        for facts, n_arrived in run_compiled(jobs, compiled, self.order, CHUNK):
            wall_s = perf_counter() - began_s
            decisions = decisions_table(facts, compiled.n_nodes, wall_s)
            yield Chunk(facts_table(facts, names), decisions, n_arrived)
            began_s = perf_counter()

    def _on_processors(self, arriving: pl.DataFrame) -> Prepared:
        from sil.world.compiled_replay.rigid import on_identical_nodes  # compiled code, too

        n_nodes, n, refusals = self.log.processors, 0, dict[int, str]()
        for part in self.log.parts():
            number, size = part["job"].to_numpy(), part["processors"].to_numpy()
            for k in np.flatnonzero((size < 1) | (size > n_nodes)):
                refusals[n + int(k)] = str(never_fits(number[k], int(size[k]), n_nodes))
            n += len(part)
        jobs = Jobs.of(arriving)
        compiled = on_identical_nodes(n_nodes, self.policy, jobs.n_users)
        self.log.pages.forget()
        if refusals:
            jobs = jobs.refusing([*refusals])
        of_all = {"job_class": JOB_CLASS, "queue": QUEUE}
        return jobs, compiled, names_of(self.log, arriving, of_all, refusals)


def names_of(
    log: JobLog,
    arriving: pl.DataFrame,
    on_arrival: Mapping[str, str | pl.Series],
    refusals: Mapping[int, str],
) -> JobNames:
    """What a trace says of the jobs of a log."""
    return JobNames(
        arriving["job"].to_numpy(),
        arriving["user"],
        log.users,
        arriving["processors"].to_numpy(),
        on_arrival,
        refusals,
    )


def _is_compiled(selection: str) -> bool:
    from scheduler.node_resources.selections import selection_by_name

    return selection_by_name(selection).is_compiled  # which loads compiled code
