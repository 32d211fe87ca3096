"""Runs the compiled loop in chunks, and makes its arrays larger when it asks for that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from scheduler.compiled import allocate, grown, made
from scheduler.free_nodes.kernels.ledger import Q
from sil.world.compiled_replay.estimates import EstimateTable
from sil.world.compiled_replay.facts import HELD_COLUMNS, Facts
from sil.world.compiled_replay.jobs import Jobs
from sil.world.compiled_replay.loop import (
    ALL_ENDED,
    FACTS_LACK,
    PAUSE,
    QUEUE_LACKS,
    STUCK,
    Clock,
    Site,
)
from sil.world.events import ArrivalDue, EndDue, Order, ReleaseDue, RoundDue, WakeUp
from sil.world.harness import LEAST_STEP_S, MOST_IDLE_ROUNDS

FEWEST = 256


class Stuck(RuntimeError):
    """Jobs remain, and nothing can happen any more."""


@dataclass(frozen=True)
class EmptyQueue(Generic[Q]):
    """And what makes its arrays larger."""

    empty: Q
    n_nodes: int
    larger: Callable[[Q, int], Q]


@dataclass(frozen=True)
class CompiledQueue(EmptyQueue[Q]):
    """With the loop for it (`loop.advance`)."""

    advance: Callable[[Site, Q, Facts, int, int, float], int]


class Running(Generic[Q]):
    """A replay under way: the records that the loop changes, which are replaced by larger ones as needed."""

    def __init__(self, jobs: Jobs, queue: EmptyQueue[Q], order: Order, by: int, n_facts: int) -> None:
        """`by` is who estimates; `n_facts` is the room for facts at first."""
        self.queue, self._larger = queue.empty, queue.larger
        clock = made(Clock, slots=len(self.queue.ledger.run))
        clock.rank[:] = [order[kind] for kind in (RoundDue, WakeUp, ArrivalDue, ReleaseDue, EndDue)]
        clock.releases_first[0] = order[ReleaseDue] < order[EndDue]
        estimates = made(EstimateTable, jobs=len(jobs.submit_s), users=jobs.n_users)
        estimates.by[0] = by
        self.site = Site(jobs, clock, estimates)
        self.facts = _new_facts(n_facts)

    def make_room(self, why: int) -> bool:
        """If that is why the loop has returned; otherwise False."""
        clock, facts = self.site.clock, self.facts
        if why == QUEUE_LACKS:
            self.queue = self._larger(self.queue, int(clock.lack[0]))
            clock.released[:] = np.roll(
                clock.released, -int(clock.first_released[0])
            )  # a ring, from the front
            clock.first_released[0] = 0
            self.site = self.site._replace(clock=grown(clock, slots=len(self.queue.ledger.run)))
        elif why == FACTS_LACK:
            self.facts = _more_facts(facts, int(clock.most_starts[0]), int(clock.most_held[0]))
        else:
            return False
        return True

    def hand_over(self) -> Facts:
        """The facts so far; others take their place."""
        facts, self.facts = self.facts, _new_facts(len(self.facts.time_s))
        return facts


def run_compiled(
    jobs: Jobs, queue: CompiledQueue[Q], order: Order, by: int, chunk: int
) -> Iterator[tuple[Facts, int]]:
    """Run jobs, each of which fits on the nodes or is refused, until all have ended. Yields facts, at least a
    `chunk` of them and up to an end of a run except for the last ones, and how many jobs have arrived. Raises
    Stuck."""
    room = min(chunk, 3 * len(jobs.submit_s)) + FEWEST  # a job has three facts
    running = Running(jobs, queue, order, by, room)
    while True:
        clock, records = running.site.clock, (running.site, running.queue, running.facts)
        why = queue.advance(*records, chunk, MOST_IDLE_ROUNDS, LEAST_STEP_S)
        if running.make_room(why) or why == PAUSE:
            continue
        if why == STUCK:
            raise Stuck(f"jobs remain at {clock.now_s[0]:.12g} s, and nothing can happen any more")
        yield running.hand_over(), int(clock.next_job[0])
        if why == ALL_ENDED:
            return


def _new_facts(n: int, rows: int = 0) -> Facts:
    return allocate(Facts, 2, n, n, n, n, n, n, n + 1, (max(n, rows), HELD_COLUMNS), n, n, n)


def _more_facts(facts: Facts, starting: int, rows: int) -> Facts:
    """With at least twice the room, and that for so many jobs that start and rows of what they hold."""
    new = _new_facts(2 * (len(facts.time_s) + starting), 2 * (len(facts.held) + rows))
    arrays: Iterable[tuple[NDArray[Any], NDArray[Any]]] = zip(facts, new, strict=True)
    for old, larger_one in arrays:
        larger_one[: len(old)] = old
    return new
