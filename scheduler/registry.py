"""Schedulers by name: the built-in ones, plug-ins of installed packages, and "module:Class".

Each may have parameters: `loras(selection=easy)`.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast

from scheduler import naming
from scheduler.errors import UserError
from scheduler.ports import Scheduler
from scheduler.resource_manager import Ports, ResourceManager

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

ON_SHARED_NODES = {
    "basic": "loras(most_jobs=1)",
    "normal": "loras(node_selection=normal)",
    "uniform": "loras(node_selection=uniform)",
    "normal_easy": "loras(node_selection=normal, selection=easy)",
    "uniform_easy": "loras(node_selection=uniform, selection=easy)",
    "promising": "scheduler.time_shared.prediction.promises:Promising",
    "loras": "scheduler.time_shared.scheduler:Loras",
}
"""They start jobs on nodes that are shared, where the others map jobs to machines. The first are compositions
that Hanzich et al. 2006 compare."""

ON_FREE_NODES = {
    "fcfs": "rigid(backfilling=none)",
    "sjf": "rigid(ordering=sjf)",
    "easy": "rigid(backfilling=easy)",
    "easy_sjbf": "rigid(backfilling=easy_sjbf)",
    "conservative": "scheduler.free_nodes.conservative:Conservative",
    "rigid": "scheduler.free_nodes.scheduler:Rigid",
}
"""They give rigid jobs nodes of their own, as when a log is replayed."""

_COMPOSED = {**ON_SHARED_NODES, **ON_FREE_NODES}
_ALL_BUILT_IN = {**BUILT_IN, **_COMPOSED}
_OUR_TARGETS = frozenset(_ALL_BUILT_IN.values())

OPTIMISING = frozenset({"optimal", "pjs_optimal"})
"""They solve an optimisation problem, which takes long where jobs and machines are not alike in classes."""

SchedulerFactory = Callable[[], Scheduler]


class SchedulerNotLoaded(UserError):
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
    return (*_ALL_BUILT_IN, *sorted(_plugins()))


def is_built_in(name: str) -> bool:
    return _resolved(name)[0] in _ALL_BUILT_IN


class Kind(StrEnum):
    """What a scheduler decides about."""

    MAPPING = "maps jobs to machines"
    SHARED_NODES = "starts jobs on shared nodes"
    FREE_NODES = "gives rigid jobs nodes of their own"


def kind_of(name: str) -> Kind | None:
    """Of a built-in scheduler; None where only it knows."""
    base = _resolved(name)[0]
    kinds = {Kind.MAPPING: BUILT_IN, Kind.SHARED_NODES: ON_SHARED_NODES, Kind.FREE_NODES: ON_FREE_NODES}
    return next((kind for kind, names in kinds.items() if base in names), None)


def names_of(kind: Kind) -> tuple[str, ...]:
    """The built-in schedulers of a kind."""
    return tuple(name for name in _ALL_BUILT_IN if kind_of(name) is kind)


def misfit(name: str, kind: Kind) -> str | None:
    """The sentence for a scheduler that is known to be of another kind than is needed, or None."""
    is_of = kind_of(name)
    if is_of is None or is_of is kind:
        return None
    fit = ", ".join(names_of(kind))
    return f"scheduler '{name}' {is_of}; needed is one that {kind}: {fit}, or one of your own"


def meaning(name: str) -> str:
    """Equal for names that mean the same scheduler with the same parameters; of an unknown one, the name."""
    try:
        target, (_, parameters) = target_of(name), _resolved(name)
    except SchedulerNotLoaded:
        return name
    return f"{target}{sorted(parameters.items())}"


def target_of(name: str) -> str:
    """The "module:Class" that `name` stands for. Raises SchedulerNotLoaded for an unknown name."""
    base = _resolved(name)[0]
    if ":" in base:
        return base
    if base in _ALL_BUILT_IN:
        return _ALL_BUILT_IN[base]
    known = {**_plugins(), **_ALL_BUILT_IN}
    if base not in known:
        close = get_close_matches(base, known, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"known are {', '.join(known)}."
        raise SchedulerNotLoaded(
            f"there is no scheduler '{base}'; {hint} A class of your own is named as 'module:Class'."
        )
    return known[base]


def load(name: str) -> SchedulerFactory:
    """What makes the scheduler that `name` stands for; each call makes a fresh instance.

    `name` is a built-in, a plug-in of an installed package, or "module:Class", with parameters or without.
    Raises SchedulerNotLoaded where the name is unknown, the module fails to import, the class is no
    scheduler, or the parameters do not fit.
    """
    parameters, target = _resolved(name)[1], target_of(name)
    factory, class_name = _found(name, target), target.partition(":")[2]
    try:
        naming.check(name, factory, parameters)
        made = factory(**parameters)
    except naming.Misnamed as error:
        raise SchedulerNotLoaded(f"scheduler {error}") from None
    except ValueError as error:
        raise SchedulerNotLoaded(f"scheduler '{name}': {error}") from error
    except (Exception, SystemExit) as error:
        how = "with these parameters" if parameters else "without arguments"
        raise SchedulerNotLoaded(
            f"scheduler '{name}': {class_name} failed with {type(error).__name__}: {error}; "
            f"it must be possible to make it {how}"
        ) from error
    if not callable(getattr(made, "schedule", None)):
        raise SchedulerNotLoaded(f"scheduler '{name}': '{class_name}' has no method schedule(problem)")
    return cast(SchedulerFactory, partial(factory, **parameters) if parameters else factory)


def is_manager(name: str) -> bool:
    """Whether it names a whole resource manager (`scheduler.resource_manager`). Raises SchedulerNotLoaded."""
    target = target_of(name)
    if target in _OUR_TARGETS:
        return False
    return isinstance(found := _found(name, target), type) and issubclass(found, ResourceManager)


def load_manager(name: str) -> Callable[[Ports], ResourceManager]:
    """What makes the resource manager of that name, given its ports. Raises SchedulerNotLoaded."""
    made, parameters = _found(name, target_of(name)), _resolved(name)[1]
    try:
        naming.check(name, made, parameters)
    except naming.Misnamed as error:
        raise SchedulerNotLoaded(f"scheduler {error}") from None
    return lambda ports: cast("ResourceManager", made(ports, **parameters))


def entries() -> list[Entry]:
    """All that can be named, for a listing. A plug-in that does not load says so in its summary."""
    built_in = [
        Entry(name, target, "built in", _summary_in_source(name)) for name, target in _ALL_BUILT_IN.items()
    ]
    plugins = [
        Entry(
            point.name, point.value, f"package {point.dist.name if point.dist else '?'}", _summary(point.name)
        )
        for point in sorted(entry_points(group=PLUGIN_GROUP), key=lambda point: point.name)
    ]
    return built_in + plugins


def _found(name: str, target: str) -> Callable[..., Any]:
    """The class that a "module:Class" stands for. Raises SchedulerNotLoaded."""
    module_name, _, class_name = target.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise SchedulerNotLoaded(
            f"scheduler '{name}': importing module '{module_name}' failed with "
            f"{type(error).__name__}: {error}"
        ) from error
    found = getattr(module, class_name, None)
    if found is None:
        raise SchedulerNotLoaded(f"scheduler '{name}': module '{module_name}' has no '{class_name}'")
    if not callable(found):
        raise SchedulerNotLoaded(f"scheduler '{name}': '{class_name}' is not a class")
    return cast("Callable[..., Any]", found)


def _resolved(name: str) -> tuple[str, dict[str, naming.Value]]:
    """The name itself and its parameters; of a composition, those of what it is composed of."""
    try:
        base, parameters = naming.split(name)
    except naming.Misnamed as error:
        raise SchedulerNotLoaded(f"scheduler {error}") from None
    composed = _COMPOSED.get(base, "")
    if "(" in composed:
        base, own = naming.split(composed)
        return base, own | parameters
    return base, parameters


def _plugins() -> dict[str, str]:
    return {point.name: point.value for point in entry_points(group=PLUGIN_GROUP)}


def _summary(name: str) -> str:
    try:
        documentation = inspect.getdoc(_class_of(load(name)))
    except SchedulerNotLoaded as error:
        return f"cannot be loaded: {error}"
    return (documentation or "").partition("\n")[0]


def _summary_in_source(name: str) -> str:
    """The first line of the docstring of one of ours; to import it would load all that is compiled for it."""
    module, _, class_name = target_of(name).partition(":")
    source = Path(*module.split(".")[1:]).with_suffix(".py")
    statements = ast.parse((Path(__file__).parent / source).read_text(encoding="utf-8")).body
    classes = {found.name: found for found in statements if isinstance(found, ast.ClassDef)}
    return (ast.get_docstring(classes[class_name]) or "").partition("\n")[0]


def _class_of(factory: SchedulerFactory) -> SchedulerFactory:
    return factory.func if isinstance(factory, partial) else factory
