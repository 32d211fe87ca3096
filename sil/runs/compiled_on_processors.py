"""A log of jobs for identical processors, prepared for the compiled engine."""

from __future__ import annotations

import numpy as np
import polars as pl

from scheduler.free_nodes.queues.arrays import QueuePolicy
from scheduler.managers.free_node_allocation import never_fits
from sil.runs.compiled_log import CompiledLog, names_of
from sil.workload.job_log import JOB_CLASS, QUEUE, JobLog
from sil.world.compiled_replay.engine import Jobs
from sil.world.compiled_replay.rigid import on_identical_nodes


def on_processors(log: JobLog, arriving: pl.DataFrame, policy: QueuePolicy) -> CompiledLog:
    jobs, n_nodes = Jobs.of(arriving), log.processors
    number = arriving["job"].to_numpy()
    refusals = {
        int(k): str(never_fits(number[k], int(jobs.size[k]), n_nodes))
        for k in np.flatnonzero((jobs.size < 1) | (jobs.size > n_nodes))
    }
    jobs.refused[list(refusals)] = True
    of_all = {"job_class": JOB_CLASS, "queue": QUEUE}
    queue = on_identical_nodes(n_nodes, policy, jobs.n_users)
    return CompiledLog(jobs, queue, names_of(log, arriving, of_all, refusals))
