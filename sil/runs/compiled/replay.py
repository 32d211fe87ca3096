"""The compiled engine for the replay of a log: for which schedulers, and in which chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import NamedTuple

import polars as pl
import pyarrow as pa

from scheduler.free_nodes.arrays import QueuePolicy
from scheduler.free_nodes.conservative import Conservative
from scheduler.free_nodes.kernels.estimates import ACTUAL, HISTORY, USER
from scheduler.free_nodes.kernels.queues import CONSERVATIVE
from scheduler.free_nodes.rigid import Rigid
from sil.runs.compiled.log import CompiledLog
from sil.runs.under_test import InProcess, UnderTest
from sil.settings.estimates import Estimates
from sil.trace.facts import SCHEMA
from sil.trace.recorder import CHUNK
from sil.workload.job_log import JobLog
from sil.world.compiled_replay.engine import run_compiled
from sil.world.compiled_replay.tables import decisions_table, facts_table
from sil.world.events import Order

CODES = {Estimates.USER: USER, Estimates.ACTUAL: ACTUAL, Estimates.HISTORY: HISTORY}


class Chunk(NamedTuple):
    """A part of a replay: its facts (as in a trace), what makes the table of its decisions (MEASURED_SCHEMA),
    and how many jobs have arrived by its end."""

    facts: pa.Table
    decisions: Callable[[], pl.DataFrame]
    n_arrived: int


@dataclass(frozen=True)
class CompiledReplay:
    """A log of jobs for identical processors, or for nodes of which they use parts."""

    log: JobLog
    policy: QueuePolicy
    order: Order
    selection: str = "first_fit"
    """Of nodes that differ."""
    columns: Sequence[str] = (*SCHEMA,)
    """Of a trace, those that facts have."""

    @classmethod
    def of(
        cls, log: JobLog, scheduler: UnderTest, estimates: Estimates, order: Order
    ) -> CompiledReplay | str:
        """The replay under a scheduler; or why it cannot be compiled."""
        if not isinstance(scheduler, InProcess) or not scheduler.is_built_in or scheduler.has_own_queue:
            return "only built-in schedulers for free nodes are compiled"
        made, code = scheduler.spec.make(), CODES[estimates]
        if isinstance(made, Rigid):
            policy = QueuePolicy(made.ordering.code, made.backfilling.code, code, always_called=False)
        elif isinstance(made, Conservative):
            policy = QueuePolicy(0, CONSERVATIVE, code, always_called=True)
        else:
            return "it is not compiled"
        if log.cluster is not None and not _is_compiled(made.selection):
            return f"node selection '{made.selection}' is not compiled"
        return cls(log, policy, order, made.selection)

    def chunks(self, arriving: pl.DataFrame, run: tuple[int, int, str]) -> Iterator[Chunk]:
        """The replay of the log's jobs, `arriving` at these times, as a run of the harness."""
        jobs, queue, names = self._prepared(arriving)
        began_s = perf_counter()
        for facts, n_arrived in run_compiled(jobs, queue, self.order, CHUNK):
            wall_s = perf_counter() - began_s
            decisions = partial(decisions_table, facts, queue.n_nodes, wall_s)
            yield Chunk(facts_table(facts, names, run, self.columns), decisions, n_arrived)
            began_s = perf_counter()

    def _prepared(self, arriving: pl.DataFrame) -> CompiledLog:
        # Each loads compiled code that the other does without.
        if self.log.cluster is None:
            from sil.runs.compiled.on_processors import on_processors

            return on_processors(self.log, arriving, self.policy)
        from sil.runs.compiled.on_nodes import on_nodes

        return on_nodes(self.log, arriving, self.policy, self.selection)


def _is_compiled(selection: str) -> bool:
    from scheduler.node_resources.selection import selection_by_name

    return selection_by_name(selection).is_compiled  # which loads compiled code
