"""Schedulers under test, resolved from their names."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache

from scheduler import registry
from scheduler.registry import SchedulerNotLoaded, SchedulerSpec
from scheduler.rules import Kind
from sil.batsim.naming import BatsimScheduler, batsim_scheduler
from sil.slurm.naming import SlurmController, slurm_controller
from sil.world.guard.apart import isolates_schedulers


@dataclass(frozen=True)
class UnderTest:
    """A scheduler or resource manager in this process, or one in another process that speaks Batsim's
    protocol (`batsim`). It can be pickled."""

    label: str
    """Its name as the user wrote it."""
    in_process: SchedulerSpec | None = None
    batsim: BatsimScheduler | None = None
    slurm: SlurmController | None = None

    @property
    def spec(self) -> SchedulerSpec:
        """Of a scheduler in this process."""
        assert self.in_process is not None, f"{self.label} runs in another process"
        return self.in_process

    @property
    def outside(self) -> BatsimScheduler | SlurmController | None:
        """The program that it is, if it is one."""
        return self.batsim or self.slurm

    def described(self) -> list[str]:
        """Sentences on the program that it is; none otherwise."""
        return [] if self.outside is None else self.outside.described()

    @property
    def is_built_in(self) -> bool:
        """Built-in schedulers need no process of their own, and no determinism check."""
        return self.in_process is not None and self.in_process.is_built_in

    @property
    def has_own_queue(self) -> bool:
        """Whether it is a whole resource manager."""
        return self.in_process is None or self.in_process.is_manager

    @property
    def serves_one_run(self) -> bool:
        """Whether the user has started it, for one run."""
        return self.batsim is not None and self.batsim.address is not None

    def why_not_in_many(self, runs: str) -> str | None:
        """A sentence if it cannot be used in several runs; `runs` says what has them, like "a plan has
        many"."""
        if not self.serves_one_run:
            return None
        return (
            f"scheduler '{self.label}' listens for one run, but {runs}; use a command that starts one for "
            f"each run, as in 'batsim: COMMAND'"
        )

    def named(self, label: str) -> UnderTest:
        """The same scheduler under another name for results."""
        return replace(self, label=label)

    def require(self, kind: Kind, purpose: str) -> None:
        """Raise SchedulerNotLoaded if it is of another kind than `purpose` needs."""
        if self.in_process is not None:
            self.in_process.require(kind, purpose)
        elif self.slurm is not None and kind is not Kind.FREE_NODES:
            raise SchedulerNotLoaded(
                f"scheduler '{self.label}' {Kind.FREE_NODES.does} (kind {Kind.FREE_NODES}), but {purpose} "
                f"needs one that {kind.does} (kind {kind})"
            )

    def require_in_process(self, purpose: str) -> None:
        """Raise SchedulerNotLoaded if it is a program of its own."""
        if self.in_process is None:
            raise SchedulerNotLoaded(
                f"scheduler '{self.label}' is a program of its own, and {purpose} needs one that can be "
                f"asked: a built-in one, or a plug-in"
            )


Find = Callable[[str], UnderTest]
"""The scheduler that a name denotes. Raises SchedulerNotLoaded."""


def resolve(name: str) -> UnderTest:
    """Raises SchedulerNotLoaded if `name` does not lead to a usable scheduler."""
    batsim = batsim_scheduler(name)
    if batsim is not None:
        return UnderTest(name, batsim=batsim)
    slurm = slurm_controller(name)
    if slurm is not None:
        return UnderTest(name, slurm=slurm)
    spec = registry.named(name)
    if not spec.is_built_in and isolates_schedulers():
        return UnderTest(name, _described(spec, os.getcwd(), tuple(sys.path)))
    return UnderTest(name, spec if spec.is_built_in else registry.declared(spec))


@cache
def _described(spec: SchedulerSpec, _folder: str, _path: tuple[str, ...]) -> SchedulerSpec:
    from sil.isolation.descriptions import described  # only plug-ins need it

    return described(spec)


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
