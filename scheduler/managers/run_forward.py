"""Nodes for rigid jobs run forward: when the jobs that wait and run end, if nothing else happens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf

from scheduler.free_nodes.consumable_problem import FreeNodesScheduler
from scheduler.managers.rigid_allocation import RigidAllocation
from scheduler.model import ON_NODES, Job, RunId
from scheduler.ports import Clock
from scheduler.problem import Running
from scheduler.time_shared.forecast import Forecast

MAX_IDLE = 100
"""The most decisions in a row while nothing runs."""


@dataclass
class Instant:
    """The clock of a run forward."""

    now_s: float


@dataclass(frozen=True)
class ForecastsOnNodes:
    """Forecasts of all jobs by a new instance of the scheduler, on a copy of what waits and runs. Each costs
    the decisions until the last waiting job starts: at most as many as there are jobs, and as often as
    priorities are calculated or reservations begin and end in the meantime."""

    nodes: RigidAllocation
    clock: Clock
    make: Callable[[], FreeNodesScheduler]

    def __call__(self, running: Mapping[RunId, Running]) -> list[Forecast]:
        clock = Instant(self.clock.now_s)
        copy, runs = self.nodes.copied(clock, running)
        found = [Forecast(each.job.id, None, each.completion_s) for each in runs.values()]
        found += run_forward(copy, clock, runs, self.make())
        return found + [Forecast(job.id, inf, inf) for job in copy.waiting]


def run_forward(
    nodes: RigidAllocation,
    clock: Instant,
    running: dict[RunId, Running],
    scheduler: FreeNodesScheduler,
    to_come: Iterable[Job] = (),
) -> Iterator[Forecast]:
    """The forecasts of jobs as they start, of those that wait and of others that are `to_come`: runs end when
    that is expected. It is over when no job waits, or when nothing has run for some decisions: those that
    wait for a limit may wait for ever."""
    numbers, next_s, n_idle = count(max(running, default=-1) + 1), clock.now_s, 0
    ends = [(each.completion_s, run) for run, each in running.items()]
    heapify(ends)
    coming = sorted(to_come, key=lambda each: (each.arrival_s, each.id), reverse=True)
    while next_s < inf and n_idle < MAX_IDLE:
        clock.now_s, again_s = next_s, inf
        while ends and ends[0][0] <= next_s:
            _, run = heappop(ends)
            nodes.drop(run)
            del running[run]
        while coming and coming[-1].arrival_s <= next_s:
            nodes.submit(coming.pop())
        if nodes.waiting:
            problem = nodes.problem(next_s, running)
            schedule, jobs = scheduler.schedule(problem), problem.jobs
            for job, start in [(jobs[start.job], start) for start in schedule.starts]:
                run = RunId(next(numbers))
                nodes.start(run, job, start, next_s)
                running[run] = Running(job, ON_NODES, start.nodes, start.completion_s)
                heappush(ends, (start.completion_s, run))
                yield Forecast(job.id, next_s, start.completion_s)
            times_s = schedule.ask_again_s, nodes.asks_again_s
            again_s = min((time_s for time_s in times_s if time_s is not None), default=inf)
        elif not coming:
            return
        next_s = min(again_s, ends[0][0] if ends else inf, coming[-1].arrival_s if coming else inf)
        n_idle = 0 if ends or coming else n_idle + 1
