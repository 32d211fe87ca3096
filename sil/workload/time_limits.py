"""The run time and the time limit of a job that was observed."""

from __future__ import annotations

from collections import Counter

from sil.workload.job_log import LEAST_S
from sil.workload.swf_rules import Overrun, Rules
from site_db.site_file.cluster import Cluster


def times_of(
    used_s: float,
    limit_s: float | None,
    partitions: frozenset[str],
    cluster: Cluster,
    rules: Rules,
    notes: Counter[str],
) -> tuple[float, float]:
    """The run time and the time limit of a job that used its nodes for `used_s` seconds.

    Without a limit, its partitions' default or largest counts, else the run time. One that ran for longer
    than its limit is treated by `rules`. Repairs are counted in `notes`.
    """
    run_s = max(used_s, LEAST_S)
    if limit_s is None:
        limit_s = default_limit_s(partitions, cluster)
        if limit_s is None:
            notes["no time limit; the run time is taken"] += 1
            limit_s = run_s
    if run_s > limit_s:
        if rules.overrun is Overrun.CUT:
            notes["it ran for longer than its time limit; the run is cut to the limit"] += 1
            return max(limit_s, LEAST_S), max(limit_s, LEAST_S)
        notes["it ran for longer than its time limit; the limit is raised to the run time"] += 1
        limit_s = run_s
    return run_s, limit_s


def default_limit_s(partitions: frozenset[str], cluster: Cluster) -> float | None:
    """The time limit of a job that requests none; None if its partitions have none."""
    limits = (cluster.partitions[name] for name in partitions if name in cluster.partitions)
    return max((x.default_time_s or x.max_time_s or 0.0 for x in limits), default=0.0) or None
