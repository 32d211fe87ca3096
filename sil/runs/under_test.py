"""Schedulers under test, resolved from their names."""

from __future__ import annotations

import os
import sys
from abc import ABC
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Self

from scheduler import registry
from scheduler.registry import SchedulerNotLoaded, SchedulerSpec
from scheduler.rules import Kind
from sil.batsim.naming import BatsimScheduler, batsim_scheduler
from sil.slurm.naming import SlurmController, slurm_controller

LOGS = "the replay of a log"
COMPARED = ("fcfs", "easy", "conservative")
"""The schedulers that are compared if none are named; the first is the baseline of a sweep."""


@dataclass(frozen=True)
class Isolation:
    """A scheduler has a process of its own in each run, which looks for modules in `folder`, too: after all
    that the testbed imports, since the folder may have files with the names of modules of libraries."""

    folder: str | None = None


@dataclass(frozen=True)
class UnderTest(ABC):
    """A scheduler or resource manager: `InProcess`, `BatsimProgram` or `SlurmProgram`. It can be pickled."""

    label: str
    """Its name as the user wrote it."""
    raises_faults: bool = field(default=False, kw_only=True)
    """Whether a fault is raised, with its traceback, in addition to being the last fact of a run."""

    is_built_in = False
    """Built-in schedulers need no process of their own, and no determinism check."""
    has_own_queue = True
    """Whether it is a whole resource manager."""

    def named(self, label: str) -> Self:
        """The same scheduler under another name for results."""
        return replace(self, label=label)

    def why_not_in_many(self, runs: str) -> str | None:
        """A sentence if it cannot be used in several runs; `runs` says what has them, like "a plan has
        many"."""
        return None

    def require(self, kind: Kind, purpose: str) -> None:  # noqa: B027 (a program may be of any kind)
        """Raise SchedulerNotLoaded if it is of another kind than `purpose` needs."""

    def require_in_process(self, purpose: str, kind: Kind | None = None) -> InProcess:
        """Itself. Raises SchedulerNotLoaded if it is of another kind, or a program of its own."""
        if kind is not None:
            self.require(kind, purpose)
        if isinstance(self, InProcess):
            return self
        raise SchedulerNotLoaded(
            f"scheduler '{self.label}' is a program of its own, and {purpose} needs one that can be "
            f"asked: a built-in one, or a plug-in"
        )


@dataclass(frozen=True)
class InProcess(UnderTest):
    """One in Python. Unless its author asks for it, one that is not built in is isolated."""

    spec: SchedulerSpec
    isolation: Isolation | None = None

    @property
    def is_built_in(self) -> bool:  # type: ignore[override]
        return self.spec.is_built_in

    @property
    def has_own_queue(self) -> bool:  # type: ignore[override]
        return self.spec.is_manager

    def require(self, kind: Kind, purpose: str) -> None:
        self.spec.require(kind, purpose)


@dataclass(frozen=True)
class BatsimProgram(UnderTest):
    """A program that speaks Batsim's protocol."""

    program: BatsimScheduler

    def why_not_in_many(self, runs: str) -> str | None:
        if self.program.address is None:
            return None  # it is started for each run
        return (
            f"scheduler '{self.label}' listens for one run, but {runs}; use a command that starts one for "
            f"each run, as in 'batsim: COMMAND'"
        )


@dataclass(frozen=True)
class SlurmProgram(UnderTest):
    """Slurm's controller."""

    program: SlurmController

    def require(self, kind: Kind, purpose: str) -> None:
        if kind is not Kind.FREE_NODES:
            raise SchedulerNotLoaded(
                f"scheduler '{self.label}' {Kind.FREE_NODES.does} (kind {Kind.FREE_NODES}), but {purpose} "
                f"needs one that {kind.does} (kind {kind})"
            )


Find = Callable[[str], UnderTest]
"""The scheduler that a name denotes. Raises SchedulerNotLoaded."""


def resolve(name: str, isolated: bool = True) -> UnderTest:
    """The scheduler that a name denotes, `isolated` if it is not built in: what it imports and does is not
    trusted. Raises SchedulerNotLoaded if `name` does not lead to a usable scheduler."""
    if (batsim := batsim_scheduler(name)) is not None:
        return BatsimProgram(name, batsim)
    if (slurm := slurm_controller(name)) is not None:
        return SlurmProgram(name, slurm)
    spec = registry.named(name)
    if spec.is_built_in:
        return InProcess(name, spec)
    if not isolated:
        return InProcess(name, registry.declared(spec))
    isolation = Isolation(_current_folder())
    return InProcess(name, _described(spec, isolation.folder, tuple(sys.path)), isolation)


@cache
def _described(spec: SchedulerSpec, folder: str | None, _path: tuple[str, ...]) -> SchedulerSpec:
    from sil.isolation.descriptions import described  # only plug-ins need it

    return described(spec, folder)


def _current_folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it has been deleted
        return None


def resolve_all(
    names: Iterable[str], kind: Kind, purpose: str, find: Find = resolve
) -> tuple[tuple[UnderTest, ...], dict[str, str]]:
    """The usable schedulers, and a sentence for each name that leads to none, or to one that declares another
    kind than `purpose` needs."""
    found, mistakes = [], {}
    for name in names:
        try:
            scheduler = find(name)
            scheduler.require(kind, purpose)
            found.append(scheduler)
        except SchedulerNotLoaded as error:
            mistakes[name] = str(error)
    return tuple(found), mistakes


def schedulers_for_logs(
    names: Iterable[str], with_requests: bool = False, find: Find = resolve
) -> tuple[UnderTest, ...]:
    """The schedulers of these names. For `with_requests` and errors see `check_for_logs`."""
    schedulers, mistakes = resolve_all(names, Kind.FREE_NODES, LOGS, find)
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
            scheduler.require(Kind.FREE_NODES, LOGS)
        except SchedulerNotLoaded as error:
            mistakes.append(str(error))
        if with_requests and isinstance(scheduler, BatsimProgram):
            no_requests = "Batsim's protocol has no requests of CPUs, memory and GPUs"
            mistakes.append(f"scheduler '{scheduler.label}': {no_requests}")
    if mistakes:
        raise SchedulerNotLoaded("\n".join(mistakes))


def controllers(schedulers: Iterable[UnderTest]) -> list[SlurmController]:
    """Those of Slurm among them."""
    return [each.program for each in schedulers if isinstance(each, SlurmProgram)]


def with_releases(schedulers: Sequence[UnderTest]) -> tuple[UnderTest, ...]:
    """Slurm's controllers of several releases are called by these in results. Raises NoSlurm."""
    places = {each: each.installation.release.name for each in controllers(schedulers)}
    if len({*places.values()}) < 2:
        return tuple(schedulers)
    labels = [
        each.program.in_place_of(f"Slurm {places[each.program]}", each.label)
        if isinstance(each, SlurmProgram)
        else each.label
        for each in schedulers
    ]
    # Two builds of one release keep the names that tell them apart.
    names = zip(schedulers, labels, strict=True)
    return tuple(each.named(label) if labels.count(label) == 1 else each for each, label in names)
