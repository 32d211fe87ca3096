"""The best set of nodes for a job."""

from __future__ import annotations

from scheduler.compiled import Ints, compiled, inlined, part
from scheduler.time_shared.kernels.tables import NONE, Jobs, Nodes, fits

NORMAL, UNIFORM, UNIFORM_ELSE_NORMAL = range(3)


@inlined
def is_less_loaded(nodes: Nodes, a: int, b: int) -> bool:
    """By CPU, then MPL, then memory, then index."""
    load_a, load_b = nodes.cpu[a] + nodes.local_cpu[a], nodes.cpu[b] + nodes.local_cpu[b]
    return bool(
        (load_a, nodes.n_jobs[a], nodes.memory_mb[a], a) < (load_b, nodes.n_jobs[b], nodes.memory_mb[b], b)
    )


@part
def least_loaded(jobs: Jobs, nodes: Nodes, row: int, chosen: Ints, only_idle: bool) -> bool:
    """The least loaded nodes on which the job fits, one for each task. O(N) mostly, at worst O(N tasks)."""
    wanted, found = jobs.tasks[row], 0
    for n in range(len(nodes.n_jobs)):
        if (only_idle and nodes.n_jobs[n] > 0) or not fits(jobs, nodes, row, n):
            continue
        if found == wanted and not is_less_loaded(nodes, n, chosen[found - 1]):
            continue
        found += 1 if found < wanted else 0
        x = found - 1
        while x > 0 and is_less_loaded(nodes, n, chosen[x - 1]):
            chosen[x] = chosen[x - 1]
            x -= 1
        chosen[x] = n
    return bool(found == wanted)


@part
def matching_set(jobs: Jobs, nodes: Nodes, row: int, chosen: Ints) -> bool:
    """Nodes, one for each task, which carry exactly the same jobs, all of that size.

    Fewest jobs first, then fewest of the same kind (bound by communication or by computation), then the least
    load of its most loaded node, then the lowest node.
    """
    wanted = jobs.tasks[row]
    best, best_key = NONE, (0, 0, 0.0)
    for n in range(len(nodes.n_jobs)):
        if nodes.n_jobs[n] == 0 or not fits(jobs, nodes, row, n):
            continue
        first = nodes.jobs[n, 0]
        if jobs.tasks[first] != wanted:
            continue
        matches, load = True, 0.0
        for x in range(wanted):
            other = jobs.nodes[first, x]
            if other < n or not fits(jobs, nodes, row, other) or nodes.n_jobs[other] != nodes.n_jobs[n]:
                matches = False  # each set is examined at its lowest node
                break
            for y in range(nodes.n_jobs[n]):
                if nodes.jobs[other, y] != nodes.jobs[n, y]:
                    matches = False
            load = max(load, nodes.cpu[other] + nodes.local_cpu[other])
        alike = 0
        for y in range(nodes.n_jobs[n]):
            if jobs.tasks[nodes.jobs[n, y]] != wanted:
                matches = False
            if jobs.communicates[nodes.jobs[n, y]] == jobs.communicates[row]:
                alike += 1
        key = (nodes.n_jobs[n], alike, load)
        if matches and (best == NONE or key < best_key):
            best, best_key = n, key
    if best == NONE:
        return False
    for x in range(wanted):
        chosen[x] = jobs.nodes[nodes.jobs[best, 0], x]
    return True


@compiled
def select_nodes(jobs: Jobs, nodes: Nodes, policy: int, row: int, chosen: Ints) -> bool:
    """Write the nodes for a job to `chosen`; False if it has to wait."""
    if policy == NORMAL:
        return least_loaded(jobs, nodes, row, chosen, False)
    if least_loaded(jobs, nodes, row, chosen, True) or matching_set(jobs, nodes, row, chosen):
        return True
    return policy == UNIFORM_ELSE_NORMAL and least_loaded(jobs, nodes, row, chosen, False)
