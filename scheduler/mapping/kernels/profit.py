"""The job that gains most by running on a cluster."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.compiled import FixedFloats2, Flags2, Floats, Ints, called_from_python
from scheduler.mapping.kernels.lines import soonest
from scheduler.mapping.kernels.table import NONE, Table, is_used_up


class Clusters(NamedTuple):
    times_s: FixedFloats2  # (C, clusters) expected times in parallel
    members: Ints  # machines of all clusters, one cluster after the other
    first_member: Ints  # (clusters + 1,)
    passed_over: Flags2  # (C, clusters) pairs that are not considered


@called_from_python
def best_alone(table: Table, ready_s: Floats, front_s: Floats, alone_s: Floats) -> None:
    """The best completion of each job class on single machines, into `alone_s` (C,)."""
    for k in range(len(front_s)):
        front_s[k] = np.inf
        for x in range(table.first_machine[k], table.first_machine[k + 1]):
            front_s[k] = min(front_s[k], ready_s[table.machines[x]])
    for c in range(len(alone_s)):
        alone_s[c] = soonest(table.by_job_class_s[c], front_s)


@called_from_python
def most_profitable(
    table: Table, clusters: Clusters, next_job: Ints, alone_s: Floats, ready_s: Floats, best: Ints
) -> None:
    """(job class, cluster) of the highest positive gain over `alone_s`, into `best` (2,).

    Machines are ready at `ready_s` (m,), a cluster when all its members are. Ties go to the lowest job, then
    the lowest cluster. NONE if nothing is gained.
    """
    cluster_s, passed_over = clusters.times_s, clusters.passed_over
    members, first_member = clusters.members, clusters.first_member
    best[0], most_s = NONE, 0.0
    for cluster in range(len(first_member) - 1):
        first, end = first_member[cluster], first_member[cluster + 1]
        all_ready_s = -np.inf if first < end else np.inf
        for x in range(first, end):
            all_ready_s = max(all_ready_s, ready_s[members[x]])
        for c in range(len(alone_s)):
            together_s = all_ready_s + cluster_s[c, cluster]
            if together_s == np.inf or passed_over[c, cluster] or not alone_s[c] > together_s:
                continue
            if is_used_up(table, next_job, c):
                continue
            gain_s = alone_s[c] - together_s
            if gain_s > most_s or (
                gain_s == most_s and table.jobs[next_job[c]] < table.jobs[next_job[best[0]]]
            ):
                best[0], best[1], most_s = c, cluster, gain_s
