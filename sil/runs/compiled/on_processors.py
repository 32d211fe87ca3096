"""A log of jobs for identical processors, prepared for the compiled engine."""

from __future__ import annotations

import numpy as np
import polars as pl

from scheduler.free_nodes.arrays import QueuePolicy
from scheduler.managers.queues import never_fits
from sil.runs.compiled.log import CompiledLog, names_of
from sil.workload.job_log import JOB_CLASS, QUEUE, JobLog
from sil.world.compiled_replay.engine import Jobs
from sil.world.compiled_replay.rigid import on_identical_nodes


def on_processors(log: JobLog, arriving: pl.DataFrame, policy: QueuePolicy) -> CompiledLog:
    n_nodes, n, refusals = log.processors, 0, dict[int, str]()
    for part in log.parts():
        number, size = part["job"].to_numpy(), part["processors"].to_numpy()
        for k in np.flatnonzero((size < 1) | (size > n_nodes)):
            refusals[n + int(k)] = str(never_fits(number[k], int(size[k]), n_nodes))
        n += len(part)
    jobs = Jobs.of(arriving)
    if refusals:
        jobs = jobs.refusing([*refusals])
    of_all = {"job_class": JOB_CLASS, "queue": QUEUE}
    queue = on_identical_nodes(n_nodes, policy, jobs.n_users)
    log.pages.forget()
    return CompiledLog(jobs, queue, names_of(log, arriving, of_all, refusals))
