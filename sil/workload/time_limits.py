"""The run time and the time limit of a job that was observed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import inf

from scheduler import counted
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
    than its limit is treated by `rules`; but a limit that its partitions allow is not raised beyond the
    largest that they do, where the run is cut: controllers end jobs some seconds late. Repairs are counted in
    `notes`.
    """
    run_s = max(used_s, LEAST_S)
    if limit_s is None:
        limit_s = default_limit_s(partitions, cluster)
        if limit_s is None:
            notes["without a time limit; the run time is taken"] += 1
            limit_s = run_s
    may_run_s = max(limit_s, LEAST_S)
    if rules.overrun is Overrun.RAISE:
        may_run_s = max(may_run_s, cluster.longest_limit_s(partitions))
    if run_s > may_run_s:
        limit = "the time limit" if rules.overrun is Overrun.CUT else "the partition allows"
        notes[f"ran for longer than {limit}; the run is cut to the limit"] += 1
        run_s = may_run_s
    elif run_s > limit_s:
        notes["ran for longer than the time limit; the limit is raised to the run time"] += 1
    return run_s, max(limit_s, run_s)


def sentences(notes: Counter[str]) -> Iterator[str]:
    """One for each kind of repair, with its number of jobs."""
    for repair, n in notes.items():
        yield f"{counted(n, 'job')} {repair}"


def default_limit_s(partitions: frozenset[str], cluster: Cluster) -> float | None:
    """The time limit of a job that requests none: the longest that its partitions give; None if one has
    none."""
    limits = cluster.limits_of(partitions)
    longest_s = max((x.default_time_s or x.max_time_s or inf for x in limits), default=inf)
    return None if longest_s == inf else longest_s
