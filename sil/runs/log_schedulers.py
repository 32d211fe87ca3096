"""Schedulers that can replay a log."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.kinds import Kind
from scheduler.registry import SchedulerNotLoaded
from sil.runs.under_test import Find, UnderTest, resolve, resolve_all

PURPOSE = "the replay of a log"
COMPARED = ("fcfs", "easy", "conservative")
"""The schedulers that are compared if none are named; the first is the baseline of a sweep."""


def schedulers_for_logs(
    names: Iterable[str], with_requests: bool = False, find: Find = resolve
) -> tuple[UnderTest, ...]:
    """The schedulers of these names. For `with_requests` and errors see `check_for_logs`."""
    schedulers, mistakes = resolve_all(names, Kind.FREE_NODES, PURPOSE, find)
    if mistakes:
        raise SchedulerNotLoaded("\n".join(mistakes.values()))
    check_for_logs(schedulers, with_requests)
    return schedulers


def check_for_logs(schedulers: Iterable[UnderTest], with_requests: bool = False) -> None:
    """`with_requests` if jobs request parts of nodes. Raises SchedulerNotLoaded with a sentence for each
    scheduler that cannot replay a log."""
    mistakes = []
    for scheduler in schedulers:
        try:
            scheduler.require(Kind.FREE_NODES, PURPOSE)
        except SchedulerNotLoaded as error:
            mistakes.append(str(error))
        if with_requests and (why := _only_for_identical_nodes(scheduler)) is not None:
            mistakes.append(why)
    if mistakes:
        raise SchedulerNotLoaded("\n".join(mistakes))


def _only_for_identical_nodes(scheduler: UnderTest) -> str | None:
    if scheduler.batsim is not None:
        return f"scheduler '{scheduler.label}': Batsim's protocol has no requests of CPUs, memory and GPUs"
    return None
