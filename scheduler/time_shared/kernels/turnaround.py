"""Algorithm 1: predicted starts and ends."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.compiled import Floats, Floats2, compiled, inlined, part
from scheduler.time_shared.kernels.selection import EASY, System, start_jobs
from scheduler.time_shared.kernels.tables import (
    BY_HISTORY,
    TOGETHER_S,
    Jobs,
    Methods,
    Nodes,
    Policy,
    cpu_rate,
    drop_running,
    n_waiting,
    remaining_s,
    slowdown,
    take_off,
)


class Forecasts(NamedTuple):
    """Predictions of each job. Times are seconds from now.

    `slower` and `rate` change only where a job starts or ends on a node of the job.
    """

    start_s: Floats  # (rows,) infinite = never
    end_s: Floats
    known_s: Floats  # time of the last update of `used_s` and `run_s` of the job
    slower: Floats  # by the method of the remaining time
    rate: Floats  # CPU time used per second
    past_slower: Floats2  # (rows, MPL_paral) slowdown in past runs; 0 = unknown; no columns unless BY_HISTORY


def room_for_forecasts(n_rows: int, past_slower: Floats2 | None = None) -> Forecasts:
    """`past_slower` is for BY_HISTORY."""
    empty = [np.full(n_rows, np.inf) for _ in range(5)]
    return Forecasts._make([*empty, np.zeros((n_rows, 0)) if past_slower is None else past_slower])


@inlined
def update(jobs: Jobs, forecasts: Forecasts, row: int, now_s: float) -> None:
    """CPU time and run time at `now_s`, by the rate since the last update (Eqs 8 and 9)."""
    took_s = now_s - forecasts.known_s[row]
    jobs.used_s[row] = min(jobs.cpu_s[row], jobs.used_s[row] + took_s * forecasts.rate[row])
    jobs.run_s[row] += took_s
    forecasts.known_s[row] = now_s


@part
def past_slowdown(jobs: Jobs, nodes: Nodes, forecasts: Forecasts, row: int) -> float:
    """That of past runs of its kind, by the most parallel jobs on one of its nodes; 0 = unknown."""
    most = 0
    for x in range(jobs.tasks[row]):
        most = max(most, nodes.n_jobs[jobs.nodes[row, x]])
    return float(forecasts.past_slower[row, most]) if most < forecasts.past_slower.shape[1] else 0.0


@part
def estimate(
    jobs: Jobs, nodes: Nodes, forecasts: Forecasts, row: int, now_s: float, methods: Methods
) -> None:
    """Slowdown, rate and end of a job whose nodes have changed."""
    by_cpu_method = slowdown(jobs, nodes, row, methods.cpu)
    if methods.remaining == BY_HISTORY:
        slower = past_slowdown(jobs, nodes, forecasts, row)
        slower = slower if slower > 0.0 else by_cpu_method
    elif methods.remaining == methods.cpu:
        slower = by_cpu_method
    else:
        slower = slowdown(jobs, nodes, row, methods.remaining)
    forecasts.slower[row] = slower
    forecasts.rate[row] = cpu_rate(jobs, row, methods.cpu, by_cpu_method)
    forecasts.end_s[row] = now_s + remaining_s(
        jobs, row, jobs.used_s[row], jobs.run_s[row], methods.remaining, slower
    )


@part
def estimate_neighbours(
    jobs: Jobs, nodes: Nodes, forecasts: Forecasts, row: int, now_s: float, methods: Methods
) -> None:
    """Estimate all jobs on the nodes of this one."""
    for x in range(jobs.tasks[row]):
        n = jobs.nodes[row, x]
        for y in range(nodes.n_jobs[n]):
            other = nodes.jobs[n, y]
            if forecasts.known_s[other] != now_s:
                update(jobs, forecasts, other, now_s)
            estimate(jobs, nodes, forecasts, other, now_s, methods)


@part
def begin(system: System, forecasts: Forecasts, now_s: float, policy: Policy, methods: Methods) -> None:
    """A scheduling pass."""
    jobs, nodes, queues, room = system.jobs, system.nodes, system.queues, system.room
    for x in range(queues.n_running[0] if n_waiting(queues) > 0 and policy.selection == EASY else 0):
        update(jobs, forecasts, queues.running[x], now_s)
    n_started = start_jobs(system, policy)
    for x in range(n_started):
        row = room.started[x]
        forecasts.start_s[row] = forecasts.known_s[row] = now_s
    for x in range(n_started):
        estimate_neighbours(jobs, nodes, forecasts, room.started[x], now_s, methods)


@compiled
def look_ahead(system: System, forecasts: Forecasts, policy: Policy, methods: Methods) -> None:
    """Run until no job is left running; changes all tables. Jobs that already run keep their `start_s`.

    A pass comes first, since nothing may run. If both methods are the same, a job's end changes only with its
    nodes; otherwise every step estimates all. Each step costs O(running) and a pass.
    """
    jobs, nodes, queues, room = system.jobs, system.nodes, system.queues, system.room
    for x in range(queues.n_running[0]):
        row = queues.running[x]
        forecasts.known_s[row] = 0.0
        estimate(jobs, nodes, forecasts, row, 0.0, methods)
    begin(system, forecasts, 0.0, policy, methods)
    now_s = 0.0
    while queues.n_running[0] > 0:
        first_s = np.inf
        for x in range(queues.n_running[0]):
            row = queues.running[x]
            if methods.remaining != methods.cpu:
                update(jobs, forecasts, row, now_s)
                left_s = remaining_s(
                    jobs, row, jobs.used_s[row], jobs.run_s[row], methods.remaining, forecasts.slower[row]
                )
                forecasts.end_s[row] = now_s + left_s
            first_s = min(first_s, forecasts.end_s[row])
        now_s = max(now_s, first_s)
        x = n_ended = 0
        while x < queues.n_running[0]:
            if forecasts.end_s[queues.running[x]] <= first_s + TOGETHER_S:
                room.ended[n_ended] = queues.running[x]
                n_ended += 1
                drop_running(queues, x)
            else:
                x += 1
        for x in range(n_ended):  # until now, the others ran at their old rates
            row = room.ended[x]
            take_off(jobs, nodes, row)
            forecasts.end_s[row] = now_s
            estimate_neighbours(jobs, nodes, forecasts, row, now_s, methods)
        begin(system, forecasts, now_s, policy, methods)
