"""Job queues: who may use them, in which order they are served, and what they may displace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class MappingPolicy(StrEnum):
    """What becomes of jobs that are mapped but have not started when the next round comes."""

    COMMIT = "commit"
    """They stay where they were mapped (Collins and George)."""
    REMAP = "remap"
    """They are mapped afresh, together with the new jobs."""


class PlannedStarts(StrEnum):
    """What becomes of a planned run when the machines before it are free sooner than was planned."""

    EARLIEST = "earliest"
    """It moves up, and starts as soon as it is first in line."""
    KEPT = "kept"
    """It starts when it was planned to (Collins and George): no gap is used."""


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """One job queue.

    A queue is processed completely before the next lower one; the highest `priority` goes first, ties in the
    order given. `users` who may submit to it; None = everybody. `displaces` names the queues whose runs give
    way: this queue sees ready times as if these had no run, and every run of theirs, running or planned, that
    overlaps a new run of this queue on a shared machine is preempted, loses its progress and rejoins its own
    queue.
    """

    name: str = "default"
    priority: int = 0
    users: frozenset[str] | None = None
    displaces: frozenset[str] = frozenset()
    mapping: MappingPolicy = MappingPolicy.COMMIT


@dataclass(frozen=True, slots=True)
class PreemptionPolicy:
    """What keeps preemption within bounds; without it, a queue displaces whatever is in its way, at any cost.

    * `raised_after`: a job that has been displaced so often waits from then on in the next higher queue (one
      remedy for starvation); None = never.
    * `least_gain_s`: a queue displaces runs only if that shortens the sum of its own job times by more than
      this for each of them.

    Source: future work in Collins and George 2001, section 6.
    """

    raised_after: int | None = None
    least_gain_s: float = 0.0


def in_order_of_service(queues: Sequence[QueuePolicy]) -> tuple[QueuePolicy, ...]:
    """High to low.

    Raises ValueError for two queues of one name, and for a displaced queue that does not exist or is served
    before the one that displaces it: its jobs could not rejoin it in the same round.
    """
    names = [queue.name for queue in queues]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"there are two queues named '{name}'")
    for queue in queues:
        for name in sorted(queue.displaces - set(names)):
            raise ValueError(f"queue '{queue.name}' displaces '{name}', but there is no such queue")
        if queue.name in queue.displaces:
            raise ValueError(f"queue '{queue.name}' cannot displace itself")
    ordered = tuple(sorted(queues, key=lambda queue: -queue.priority))
    served: set[str] = set()
    for queue in ordered:
        for name in sorted(queue.displaces & served):
            raise ValueError(f"queue '{queue.name}' displaces '{name}', which is served before it")
        served.add(queue.name)
    return ordered
