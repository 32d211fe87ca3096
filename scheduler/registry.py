"""Schedulers by name: the built-in ones, plug-ins of installed packages, and "module:Class"."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import cast

from scheduler.ports import Scheduler

PLUGIN_GROUP = "scheduler.plugins"
"""Entry-point group in which an installed package offers its schedulers."""

BUILT_IN = {
    "olb": "scheduler.mapping.olb:Olb",
    "met": "scheduler.mapping.met:Met",
    "mct": "scheduler.mapping.mct:Mct",
    "best_assignment": "scheduler.mapping.best_assignment:BestAssignment",
    "min_min": "scheduler.mapping.greedy:MinMin",
    "max_min": "scheduler.mapping.greedy:MaxMin",
    "sufferage": "scheduler.mapping.sufferage:Sufferage",
    "sjs": "scheduler.mapping.sjs:Sjs",
    "pjs": "scheduler.mapping.pjs:Pjs",
    "pjs_try_next": "scheduler.mapping.pjs:PjsTryNext",
    "gsa": "scheduler.mapping.gsa:Gsa",
    "optimal": "scheduler.mapping.optimal:Optimal",
    "pjs_optimal": "scheduler.mapping.optimal:PjsOptimal",
}

OPTIMISING = frozenset({"optimal", "pjs_optimal"})
"""They solve an optimisation problem, which takes long where jobs and machines are not alike in classes."""

SchedulerFactory = Callable[[], Scheduler]


class SchedulerNotLoaded(ValueError):
    """A scheduler's name leads to nothing that can be used. The message is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A scheduler that can be named: where it comes from and what its docstring says first."""

    name: str
    target: str
    source: str
    summary: str


def names() -> tuple[str, ...]:
    """Names of all built-in and installed schedulers."""
    return (*BUILT_IN, *sorted(_plugins()))


def is_built_in(name: str) -> bool:
    return name in BUILT_IN


def target_of(name: str) -> str:
    """The "module:Class" that `name` stands for. Raises SchedulerNotLoaded for an unknown name."""
    if ":" in name:
        return name
    known = {**_plugins(), **BUILT_IN}
    if name not in known:
        close = get_close_matches(name, known, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"known are {', '.join(known)}."
        raise SchedulerNotLoaded(
            f"there is no scheduler '{name}'; {hint} A class of your own is named as 'module:Class'."
        )
    return known[name]


def load(name: str) -> SchedulerFactory:
    """The scheduler class that `name` stands for; calling it makes a fresh instance.

    `name` is a built-in, a plug-in of an installed package, or "module:Class". Raises SchedulerNotLoaded
    where the name is unknown, the module fails to import, or the class is no scheduler.
    """
    target = target_of(name)
    module_name, _, class_name = target.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise SchedulerNotLoaded(
            f"scheduler '{name}': importing module '{module_name}' failed with "
            f"{type(error).__name__}: {error}"
        ) from error
    factory = getattr(module, class_name, None)
    if factory is None:
        raise SchedulerNotLoaded(f"scheduler '{name}': module '{module_name}' has no '{class_name}'")
    if not callable(factory):
        raise SchedulerNotLoaded(f"scheduler '{name}': '{class_name}' is not a class")
    try:
        made = factory()
    except (Exception, SystemExit) as error:
        raise SchedulerNotLoaded(
            f"scheduler '{name}': {class_name}() failed with {type(error).__name__}: {error}; "
            "it must be possible to make it without arguments"
        ) from error
    if not callable(getattr(made, "schedule", None)):
        raise SchedulerNotLoaded(f"scheduler '{name}': '{class_name}' has no method schedule(problem)")
    return cast(SchedulerFactory, factory)


def entries() -> list[Entry]:
    """All that can be named, for a listing. A plug-in that does not load says so in its summary."""
    built_in = [Entry(name, target, "built in", _summary(name)) for name, target in BUILT_IN.items()]
    plugins = [
        Entry(
            point.name, point.value, f"package {point.dist.name if point.dist else '?'}", _summary(point.name)
        )
        for point in sorted(entry_points(group=PLUGIN_GROUP), key=lambda point: point.name)
    ]
    return built_in + plugins


def _plugins() -> dict[str, str]:
    return {point.name: point.value for point in entry_points(group=PLUGIN_GROUP)}


def _summary(name: str) -> str:
    try:
        documentation = inspect.getdoc(load(name))
    except SchedulerNotLoaded as error:
        return f"cannot be loaded: {error}"
    return (documentation or "").partition("\n")[0]
