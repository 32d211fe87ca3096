"""Schedulers under test, resolved from their names, or given as objects of Python."""

from __future__ import annotations

import os
import sys
from abc import ABC
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, Self, cast

from scheduler import UserError, registry
from scheduler.registry import SchedulerNotLoaded, SchedulerSpec, from_source
from scheduler.rules import Kind
from sil.batsim.process import BatsimScheduler, batsim_scheduler
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
    """The name as the user wrote it."""
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
    try:
        folder = os.getcwd()
    except OSError:  # it has been deleted
        folder = None
    return InProcess(name, _described(spec, folder, tuple(sys.path)), Isolation(folder))


@cache
def _described(spec: SchedulerSpec, folder: str | None, _path: tuple[str, ...]) -> SchedulerSpec:
    from sil.isolation.descriptions import described  # only plug-ins need it

    return described(spec, folder)


Refused = Mapping[type[UnderTest], str]
"""Which programs cannot be used, and why."""
NO_PROGRAM: Refused = {}
NO_REQUESTS: Refused = {BatsimProgram: "Batsim's protocol has no requests of CPUs, memory and GPUs"}


def resolve_all(
    names: Iterable[str], kind: Kind, purpose: str, find: Find = resolve, refused: Refused = NO_PROGRAM
) -> tuple[tuple[UnderTest, ...], dict[str, str]]:
    """The usable schedulers, and a sentence for each name that leads to none, to one that is `refused`, or to
    one that declares another kind than `purpose` needs."""
    found, mistakes = [], {}
    for name in names:
        try:
            scheduler = find(name)
            scheduler.require(kind, purpose)
            if (why := refused.get(type(scheduler))) is not None:
                raise SchedulerNotLoaded(f"scheduler '{scheduler.label}': {why}")
            found.append(scheduler)
        except SchedulerNotLoaded as error:
            mistakes[name] = str(error)
    return tuple(found), mistakes


def schedulers_for_logs(
    names: Iterable[str], with_requests: bool = False, find: Find = resolve
) -> tuple[UnderTest, ...]:
    """The schedulers of these names. `with_requests` if jobs request parts of nodes. Raises
    SchedulerNotLoaded with a sentence for each that cannot replay a log."""
    refused = NO_REQUESTS if with_requests else NO_PROGRAM
    found, mistakes = resolve_all(names, Kind.FREE_NODES, LOGS, find, refused)
    if mistakes:
        raise SchedulerNotLoaded("\n".join(mistakes.values()))
    return found


def check_for_logs(schedulers: Iterable[UnderTest], with_requests: bool = False) -> None:
    """Raise SchedulerNotLoaded as `schedulers_for_logs` does."""
    by_name = {scheduler.label: scheduler for scheduler in schedulers}
    schedulers_for_logs(by_name, with_requests, by_name.__getitem__)


def controllers(schedulers: Iterable[UnderTest]) -> list[SlurmController]:
    """The controllers of Slurm among some schedulers."""
    return [each.program for each in schedulers if isinstance(each, SlurmProgram)]


def notes_on_slurm(schedulers: Iterable[UnderTest], has_policy: bool = False) -> Iterable[str]:
    """What of the files of Slurm's controllers is not passed on, and which policy they have if built-in
    schedulers have one."""
    programs = [each for each in schedulers if isinstance(each, SlurmProgram)]
    if programs and has_policy:
        whose = "has the policy of its own slurm.conf and of the files beside it, not that of --policy"
        yield f"'{programs[0].label}' {whose}"
    yield from dict.fromkeys(note for each in controllers(programs) for note in each.notes())


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


@dataclass(frozen=True, eq=False)
class Factory:
    """Makes schedulers: a class or function, and the arguments with which it is called for each run.

    It can be pickled, whatever it consists of: classes of a notebook are pickled with it, others are imported
    by name."""

    constructor: Callable[..., Any]
    parameters: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        """The factory as on the command line: `SmallestFirst(cap=8)`."""
        name = getattr(self.constructor, "__name__", type(self.constructor).__name__)
        if not self.parameters:
            return str(name)
        return f"{name}({', '.join(f'{key}={value}' for key, value in self.parameters.items())})"

    def __reduce__(self) -> tuple[Callable[[bytes], Factory], tuple[bytes]]:
        return _restored, (self._pickled,)

    @cached_property
    def _pickled(self) -> bytes:
        """The pickled factory; pickled once, so that what a class of a notebook counts during runs does not
        make it another one."""
        import cloudpickle  # which commands do without

        pickled: bytes = cloudpickle.dumps((self.constructor, dict(self.parameters)))
        return pickled


def factory(constructor: Callable[..., Any], /, **parameters: object) -> Factory:
    """Makes schedulers with these arguments: `factory(SmallestFirst, cap=8)`."""
    return Factory(constructor, parameters)


def _restored(pickled: bytes) -> Factory:
    import cloudpickle

    return Factory(*cloudpickle.loads(pickled))


class Copies:
    """Makes copies of an instance in the state in which it is given, so that no run affects another."""

    def __init__(self, instance: object) -> None:
        try:
            self._instance = deepcopy(instance)
        except Exception as error:  # of any kind, since a class may define how it is copied
            raise UserError(
                f"an instance is copied for each run, and this one of {type(instance).__name__} cannot be "
                f"({type(error).__name__}: {error}); give its class, or a factory"
            ) from error
        self.__module__, self.__qualname__ = type(instance).__module__, type(instance).__qualname__
        self.__name__ = type(instance).__name__

    def __call__(self) -> object:
        return deepcopy(self._instance)


def factory_of(scheduler: object) -> str | Factory:
    """A name as it is. Raises UserError unless it is a class, an instance, or a function that makes one."""
    if isinstance(scheduler, str | Factory):
        return scheduler
    if not isinstance(scheduler, type) and callable(getattr(scheduler, "schedule", None)):
        return Factory(Copies(scheduler))
    if callable(scheduler):
        return Factory(scheduler)
    raise UserError(
        f"{scheduler!r} is no scheduler; expected a name, a class with a method schedule(problem), an "
        "instance, or a factory"
    )


def named(schedulers: object, isolated: bool, raises_faults: bool) -> dict[str, UnderTest]:
    """The schedulers of `by_name`. Raises UserError and SchedulerNotLoaded."""
    given = by_name(schedulers)
    return {name: among(given, isolated, raises_faults)(name) for name in given}


def by_name(schedulers: object) -> dict[str, str | Factory]:
    """One scheduler, several, or a mapping from names, by name: import strings or factories. By default, the
    name is that of the class, with its arguments. Raises UserError."""
    if isinstance(schedulers, Mapping):
        pairs = [(str(name), factory_of(each)) for name, each in schedulers.items()]
    else:
        several = not isinstance(schedulers, str) and isinstance(schedulers, Iterable)
        given = map(factory_of, cast("Iterable[object]", schedulers) if several else [schedulers])
        pairs = [(str(each), each) for each in given]
    if not pairs:
        raise UserError("there is no scheduler; give one or more")
    found: dict[str, str | Factory] = {}
    for name, each in pairs:
        if name in found:
            raise UserError(f"two schedulers are named {name}; name them in a dictionary")
        found[name] = each
    return found


def among(given: Mapping[str, str | Factory], isolated: bool, raises_faults: bool = False) -> Find:
    """Finds the schedulers that are `given` by name, and others as on the command line. See `InProcess`."""

    def found(name: str) -> UnderTest:
        scheduler = given.get(name, name)
        under_test: UnderTest
        if isinstance(scheduler, str):
            under_test = resolve(scheduler, isolated).named(name)
        else:
            isolation = Isolation() if isolated else None
            under_test = InProcess(name, from_source(name, scheduler), isolation)
        return replace(under_test, raises_faults=raises_faults)

    return found
