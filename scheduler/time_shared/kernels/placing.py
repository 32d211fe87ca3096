"""Jobs on nodes: whether they fit, put there, taken off."""

from __future__ import annotations

from numba import types

from scheduler.compiled import INTS, Ints, compiled, inlined
from scheduler.time_shared.kernels.tables import JOBS, NODES, SLACK, Jobs, Nodes


@inlined
def fits(jobs: Jobs, nodes: Nodes, row: int, n: int) -> bool:
    """Whether one task of the job may start on node n: MPL, memory and CPU requirement within limits."""
    return bool(
        nodes.n_jobs[n] < nodes.most_jobs[n]
        and nodes.memory_mb[n] + jobs.memory_mb[row] <= nodes.most_memory_mb[n] + SLACK
        and nodes.cpu[n] + jobs.cpu[row] <= nodes.most_cpu[n] + SLACK
    )


@inlined
def add_up(jobs: Jobs, nodes: Nodes, n: int) -> None:
    """Anew and in order of start, so that a sum does not depend on who was there before."""
    cpu = memory_mb = 0.0
    for x in range(nodes.n_jobs[n]):
        cpu += jobs.cpu[nodes.jobs[n, x]]
        memory_mb += jobs.memory_mb[nodes.jobs[n, x]]
    nodes.cpu[n] = cpu
    nodes.memory_mb[n] = memory_mb


@compiled(types.void(JOBS, NODES, types.int64, INTS))
def put(jobs: Jobs, nodes: Nodes, row: int, chosen: Ints) -> None:
    """Place the job's tasks on the first nodes in `chosen`."""
    for x in range(jobs.tasks[row]):
        n = chosen[x]
        jobs.nodes[row, x] = n
        nodes.jobs[n, nodes.n_jobs[n]] = row
        nodes.n_jobs[n] += 1
        add_up(jobs, nodes, n)


@compiled(types.void(JOBS, NODES, types.int64))
def take_off(jobs: Jobs, nodes: Nodes, row: int) -> None:
    """Free the nodes of a job."""
    for x in range(jobs.tasks[row]):
        n = jobs.nodes[row, x]
        y = 0
        while nodes.jobs[n, y] != row:
            y += 1
        nodes.n_jobs[n] -= 1
        for z in range(y, nodes.n_jobs[n]):
            nodes.jobs[n, z] = nodes.jobs[n, z + 1]
        add_up(jobs, nodes, n)
