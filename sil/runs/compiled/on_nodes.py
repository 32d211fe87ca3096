"""A log of jobs that use parts of nodes, prepared for the compiled engine."""

from __future__ import annotations

from functools import cache
from typing import Any

import polars as pl

from scheduler.free_nodes.arrays import QueuePolicy
from scheduler.free_nodes.kernels.queues import CONSERVATIVE
from scheduler.node_resources.described import DescribedNodes, RequestAdmission
from scheduler.node_resources.selection import NodeSelection, selection_by_name
from sil.runs.compiled.log import CompiledLog, names_of
from sil.trace.requests import request_text
from sil.workload.job_log import JOB_CLASS, JobLog, queue_of
from sil.world.compiled_replay.engine import CompiledQueue, Jobs


def on_nodes(log: JobLog, arriving: pl.DataFrame, policy: QueuePolicy, selection: str) -> CompiledLog:
    """The log must have a cluster, and its jobs requests."""
    assert log.cluster is not None
    nodes = DescribedNodes(tuple(log.cluster.nodes.values()), log.cluster.site_resources)
    admission = RequestAdmission(nodes, log.cluster.partitions)

    @cache
    def kind_or_refusal(k: int, time_limit_s: float | None) -> int | str:
        admitted = admission.admitted(log.requests[k], time_limit_s)
        return admitted if isinstance(admitted, str) else nodes.kind_of(admitted)

    answers = [kind_or_refusal(*asked) for asked in arriving.select("request", "estimate_s").iter_rows()]
    numbers = arriving["job"].to_list()
    refusals = {k: f"job {numbers[k]} {why}" for k, why in enumerate(answers) if isinstance(why, str)}
    request = arriving["request"]
    jobs = Jobs.of(
        arriving.with_columns(
            kind=pl.Series([0 if isinstance(kind, str) else kind for kind in answers], dtype=pl.Int64),
            chunks=pl.Series([each.chunks for each in log.requests], dtype=pl.Int64).gather(request),
            refused=pl.Series([isinstance(kind, str) for kind in answers]),
        )
    )
    of_requests = {
        "job_class": log.job_classes or [JOB_CLASS] * len(log.requests),
        "queue": map(queue_of, log.requests),
        "detail": map(request_text, log.requests),
    }
    on_arrival = {
        name: pl.Series(list(texts), dtype=pl.String).gather(request) for name, texts in of_requests.items()
    }
    queue = _queue(nodes, selection_by_name(selection), policy, jobs.n_users)
    return CompiledLog(jobs, queue, names_of(log, arriving, on_arrival, refusals))


def _queue(
    nodes: DescribedNodes, selection: NodeSelection, policy: QueuePolicy, n_users: int
) -> CompiledQueue[Any]:
    # Each loads compiled code that the other does without.
    if policy.backfilling == CONSERVATIVE:
        from sil.world.compiled_replay.reserving import with_reservations

        return with_reservations(nodes, selection, policy, n_users)
    from sil.world.compiled_replay.consumable import on_consumable_nodes

    return on_consumable_nodes(nodes, selection, policy, n_users)
