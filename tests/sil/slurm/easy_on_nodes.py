"""EASY whose reservation is for certain nodes, as Slurm's is: those that `select/linear` would take.

EASY's reservation is for a number of nodes: a job that outlasts the start of the first waiting job may take
nodes that this one does not need then. In Slurm, the first waiting job has certain nodes reserved, idle ones
among them, and such a job may take the others only. It explains how Slurm's starts differ from EASY's.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import NamedTuple

ACTS_AFTER_S = 1.0
"""The controller looks each second for what has arrived or ended."""


class Task(NamedTuple):
    job: int
    submit_s: float
    run_s: float
    nodes: int
    estimate_s: float


class _Run(NamedTuple):
    end_s: float
    job: int
    limit_s: float
    nodes: Sequence[int]


def starts_s(tasks: Iterable[Task], n_nodes: int) -> dict[int, float]:
    """When each job starts."""
    coming = sorted(tasks, key=lambda task: (task.submit_s, task.job), reverse=True)
    free, waiting, running = set(range(n_nodes)), list[Task](), list[_Run]()
    found: dict[int, float] = {}

    def start(task: Task, at_s: float, nodes: Sequence[int]) -> None:
        free.difference_update(nodes)
        end_s = at_s + task.run_s + ACTS_AFTER_S
        heapq.heappush(running, _Run(end_s, task.job, at_s + task.estimate_s, nodes))
        found[task.job] = at_s

    while coming or running:
        arrives_s = coming[-1].submit_s + ACTS_AFTER_S if coming else float("inf")
        now_s = min(arrives_s, running[0].end_s if running else float("inf"))
        while running and running[0].end_s <= now_s:
            free.update(heapq.heappop(running).nodes)
        while coming and coming[-1].submit_s + ACTS_AFTER_S <= now_s:
            waiting.append(coming.pop())
        while waiting and waiting[0].nodes <= len(free):
            task = waiting.pop(0)
            start(task, now_s, best_fit(free, task.nodes))
        if waiting:
            first, *others = waiting
            shadow_s, reserved = _reservation(first, free, running, now_s)
            waiting = [first]
            for task in others:
                allowed = free if now_s + task.estimate_s <= shadow_s else free - reserved
                if task.nodes <= len(allowed):
                    start(task, now_s, best_fit(allowed, task.nodes))
                else:
                    waiting.append(task)
    return found


def _reservation(first: Task, free: set[int], running: list[_Run], now_s: float) -> tuple[float, set[int]]:
    """When the first waiting job starts at the latest, and on which nodes."""
    available = set(free)
    ends = sorted((max(run.limit_s, now_s), run.nodes) for run in running)
    for k, (at_s, nodes) in enumerate(ends):
        available.update(nodes)
        is_last = k + 1 == len(ends) or ends[k + 1][0] > at_s
        if is_last and len(available) >= first.nodes:
            return at_s, set(best_fit(available, first.nodes))
    raise ValueError(f"job {first.job} needs {first.nodes} nodes, more than there are")


def best_fit(nodes: Iterable[int], n: int) -> list[int]:
    """`n` of the nodes: the lowest ones of the smallest row of consecutive nodes that is long enough, else
    the longest row and so on; of equal rows, the lower one."""
    rows: list[list[int]] = []
    for node in sorted(nodes):
        if rows and rows[-1][-1] == node - 1:
            rows[-1].append(node)
        else:
            rows.append([node])
    found: list[int] = []
    while len(found) < n:
        lacking = n - len(found)
        enough = [row for row in rows if len(row) >= lacking]
        row = min(enough, key=len) if enough else max(rows, key=len)
        rows.remove(row)
        found += row[:lacking]
    return found
