"""Which jobs start, and on which nodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.compiled import Floats, Ints, allocate, compiled, copied, inlined, part
from scheduler.time_shared.kernels.tables import (
    BY_CPU,
    NONE,
    TOGETHER_S,
    Jobs,
    Nodes,
    Policy,
    Queues,
    add_running,
    drop_waiting,
    fits,
    n_waiting,
    put,
    remaining_s,
    slowdown,
    take_off,
)

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


JUST_FIRST, FIRST_FIT, BEST_FIT, EASY = range(4)


class Room(NamedTuple):
    """Work space of a pass."""

    chosen: Ints  # (N,) nodes for a job now
    elsewhere: Ints  # (N,) and at a later time
    started: Ints  # (rows,) the jobs that the last pass started, in order
    ended: Ints  # (rows,) those that ended before it
    left_s: Floats  # (rows,) how long each of the running ones still takes, in their order
    later: Nodes  # the nodes when the first of the queue can start; their limits are those of now


class System(NamedTuple):
    """All tables that a pass reads or changes."""

    jobs: Jobs
    nodes: Nodes
    queues: Queues
    room: Room


def system_of(jobs: Jobs, nodes: Nodes, queues: Queues) -> System:
    n_nodes, n_rows = len(nodes.n_jobs), len(jobs.id)
    room = allocate(Room, n_nodes, n_nodes, n_rows, n_rows, n_rows, later=copied(nodes))
    return System(jobs, nodes, queues, room)


@inlined
def start(system: System, x: int, n_started: int) -> int:
    """Start the waiting job in place x on the chosen nodes."""
    jobs, nodes, queues, room = system.jobs, system.nodes, system.queues, system.room
    row = queues.waiting[x]
    put(jobs, nodes, row, room.chosen)
    drop_waiting(queues, x)
    add_running(queues, row)
    room.started[n_started] = row
    return n_started + 1


@part
def next_to_start(system: System, policy: Policy) -> int:
    """The place in the queue of the job to start next, with its nodes in `room.chosen`."""
    jobs, nodes, queues, room = system.jobs, system.nodes, system.queues, system.room
    best, most_tasks = NONE, 0
    for x in range(queues.window[0], queues.window[1]):
        row = queues.waiting[x]
        if jobs.tasks[row] > most_tasks and select_nodes(
            jobs, nodes, policy.node_selection, row, room.chosen
        ):
            best, most_tasks = x, jobs.tasks[row]
            if policy.selection != BEST_FIT:
                return x
        if policy.selection in (JUST_FIRST, EASY):
            return NONE
    if best != NONE:
        select_nodes(jobs, nodes, policy.node_selection, queues.waiting[best], room.chosen)
    return best


@compiled
def reservation_s(system: System, policy: Policy, head: int) -> float:
    """Seconds until `head` can start, if running jobs end as estimated; `room.later` are the nodes then.

    Infinite if it cannot start even when all have ended.
    """
    jobs, nodes, queues, room = system.jobs, system.nodes, system.queues, system.room
    later, n_running = room.later, queues.n_running[0]
    for n in range(len(nodes.n_jobs)):
        later.n_jobs[n], later.cpu[n], later.memory_mb[n] = nodes.n_jobs[n], nodes.cpu[n], nodes.memory_mb[n]
        for x in range(nodes.n_jobs[n]):
            later.jobs[n, x] = nodes.jobs[n, x]
    for x in range(n_running):
        row = queues.running[x]
        slower = slowdown(jobs, nodes, row, policy.estimate)
        room.left_s[x] = remaining_s(jobs, row, jobs.used_s[row], jobs.run_s[row], policy.estimate, slower)
    while True:
        head_s = np.inf
        for x in range(n_running):
            head_s = min(head_s, room.left_s[x])
        if head_s == np.inf:
            return np.inf
        for x in range(n_running):
            if room.left_s[x] <= head_s + TOGETHER_S:
                room.left_s[x] = np.inf
                take_off(jobs, later, queues.running[x])
        if select_nodes(jobs, later, policy.node_selection, head, room.elsewhere):
            return float(head_s)


@part
def backfill(system: System, policy: Policy, n_started: int) -> int:
    """EASY: start jobs that do not delay the first of the queue according to the estimates.

    These ignore that a new job slows others down, so under time sharing the first may still start later.
    """
    jobs, nodes, queues, room = system.jobs, system.nodes, system.queues, system.room
    head = queues.waiting[queues.window[0]]
    head_s = reservation_s(system, policy, head)
    for x in range(queues.window[0] + 1, queues.window[1]):
        row = queues.waiting[x]
        if not select_nodes(jobs, nodes, policy.node_selection, row, room.chosen):
            continue
        put(jobs, nodes, row, room.chosen)
        takes_s = jobs.exe_s[row] * slowdown(jobs, nodes, row, BY_CPU)
        take_off(jobs, nodes, row)
        may_start = takes_s <= head_s + TOGETHER_S
        if not may_start:
            put(jobs, room.later, row, room.chosen)
            may_start = select_nodes(jobs, room.later, policy.node_selection, head, room.elsewhere)
            if not may_start:
                take_off(jobs, room.later, row)
        if may_start:
            n_started = start(system, x, n_started)
    return n_started


@compiled
def start_jobs(system: System, policy: Policy) -> int:
    """Start all jobs that the policies allow, and write them to `room.started`; returns their number.

    It repeats until nothing more starts: a backfilled job may have made a set of nodes suitable for another.
    """
    n_started, before = 0, NONE
    while n_started != before:
        before = n_started
        x = next_to_start(system, policy)
        if x != NONE:
            n_started = start(system, x, n_started)
        elif policy.selection == EASY and n_waiting(system.queues) > 1:
            n_started = backfill(system, policy, n_started)
    return n_started
