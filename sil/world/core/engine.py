"""Runs the compiled loop in chunks."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.ports import DrainChanged, JobActedOn, MonitorNews, RunPreempted
from sil.world.core.codes import ALL_ENDED, PAUSE, STUCK
from sil.world.core.facts import Facts
from sil.world.core.loop import Loop
from sil.world.events import ArrivalDue, EndDue, JobGivenUp, Order, ReleaseDue, RoundDue, WakeUp


class Stuck(RuntimeError):
    """Jobs remain, and nothing can happen any more."""


def ranks(order: Order) -> list[int]:
    """The rank of each kind of event of the loop."""
    kinds = RoundDue, WakeUp, ArrivalDue, DrainChanged, ReleaseDue, EndDue
    return [order[kind] for kind in (*kinds, JobActedOn, MonitorNews, RunPreempted, JobGivenUp)]


def run_compiled(replay: Loop, chunk: int) -> Iterator[tuple[Facts, int]]:
    """Run jobs, each of which fits on the nodes or is refused, until all have ended. Yields facts, at least a
    `chunk` of them and up to an end of a run except for the last ones, and how many jobs have arrived. Raises
    Stuck."""
    while True:
        why = replay.advance(chunk)
        if why == STUCK:
            raise Stuck(f"jobs remain at {replay.now_s:.12g} s, and nothing can happen any more")
        if why != PAUSE:
            yield replay.hand_over(), replay.next_job
        if why == ALL_ENDED:
            return
