"""The compiled engine for the replay of a log: for which schedulers, and in which chunks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import polars as pl

from scheduler import UserError
from scheduler.free_nodes.conservative import Conservative
from scheduler.free_nodes.kernels.estimates import ACTUAL, HISTORY, USER
from scheduler.free_nodes.kernels.queue_arrays import QueuePolicy
from scheduler.free_nodes.kernels.rigid_queue import CONSERVATIVE
from scheduler.free_nodes.rigid import Rigid
from sil.runs.under_test import UnderTest
from sil.settings.estimates import Estimates
from sil.trace.recorder import CHUNK
from sil.workload.job_log import JOB_CLASS, QUEUE, JobLog, user_names
from sil.world.compiled_replay.engine import Jobs, run_compiled
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


@dataclass(frozen=True)
class CompiledReplay:
    """A log of jobs for identical processors, none of which requests more than there are."""

    log: JobLog
    policy: QueuePolicy
    order: Order

    @staticmethod
    def policy_of(scheduler: UnderTest, estimates: Estimates) -> QueuePolicy | None:
        """What a scheduler does, if it is a built-in one that is compiled; else None."""
        if not scheduler.is_built_in or scheduler.has_own_queue:
            return None
        made, code = scheduler.spec.make(), _CODES[estimates]
        if isinstance(made, Rigid):
            return QueuePolicy(made.ordering.code, made.backfilling.code, code, always_called=False)
        if isinstance(made, Conservative):
            return QueuePolicy(0, CONSERVATIVE, code, always_called=True)
        return None

    def chunks(self, arriving: pl.DataFrame) -> Iterator[Chunk]:
        """The replay of the log's jobs, `arriving` at these times."""
        names = JobNames(
            arriving["job"].to_numpy(),
            arriving["user"].replace_strict(user_names(arriving, self.log.users), return_dtype=pl.String),
            arriving["processors"].to_numpy(),
            JOB_CLASS,
            QUEUE,
        )
        n_nodes = self.log.processors
        began_s = perf_counter()
        for facts, n_arrived in run_compiled(Jobs.of(arriving), n_nodes, self.policy, self.order, CHUNK):
            wall_s = perf_counter() - began_s
            yield Chunk(facts_table(facts, names), decisions_table(facts, n_nodes, wall_s), n_arrived)
            began_s = perf_counter()
