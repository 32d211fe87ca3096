"""Schedulers that can replay a log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduler.registry import SchedulerNotLoaded
from scheduler.rules import Kind
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


def with_releases(schedulers: Sequence[UnderTest]) -> tuple[UnderTest, ...]:
    """Slurm's controllers of several releases are called by these in results. Raises NoSlurm."""
    places = {
        each.slurm: each.slurm.installation.release.name for each in schedulers if each.slurm is not None
    }
    if len({*places.values()}) < 2:
        return tuple(schedulers)
    labels = [
        each.label
        if each.slurm is None
        else each.slurm.in_place_of(f"Slurm {places[each.slurm]}", each.label)
        for each in schedulers
    ]
    # Two builds of one release keep the names that tell them apart.
    names = zip(schedulers, labels, strict=True)
    return tuple(each.named(label) if labels.count(label) == 1 else each for each, label in names)


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
