"""Schedulers by name: the built-in ones, plug-ins of installed packages, and "module:Class".

Each may have parameters: `loras(selection=easy)`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from scheduler import naming
from scheduler.messages import UserError
from scheduler.ports import AnyScheduler
from scheduler.rules import Kind

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from scheduler.resource_manager import Ports, ResourceManager

PLUGIN_GROUP = "scheduler.plugins"
"""Entry-point group in which an installed package offers its schedulers."""

ON_MACHINES = {
    "olb": "scheduler.mapping.immediate:Olb",
    "met": "scheduler.mapping.immediate:Met",
    "mct": "scheduler.mapping.immediate:Mct",
    "best_assignment": "scheduler.mapping.immediate:BestAssignment",
    "bold": "scheduler.mapping.bold:Bold",
    "min_min": "scheduler.mapping.greedy:MinMin",
    "max_min": "scheduler.mapping.greedy:MaxMin",
    "sufferage": "scheduler.mapping.greedy:Sufferage",
    "sjs": "scheduler.mapping.greedy:Sjs",
    "pjs": "scheduler.mapping.pjs:Pjs",
    "pjs_try_next": "scheduler.mapping.pjs:PjsTryNext",
    "gsa": "scheduler.mapping.gsa:Gsa",
    "optimal": "scheduler.mapping.optimal:Optimal",
    "pjs_optimal": "scheduler.mapping.optimal:PjsOptimal",
}
"""Schedulers that map jobs to machines."""

_ON_CLUSTERS = ("pjs", "pjs_try_next", "gsa", "pjs_optimal")
ON_SINGLE_MACHINES = frozenset(target for name, target in ON_MACHINES.items() if name not in _ON_CLUSTERS)
"""Targets that map no job to a cluster."""

ON_SHARED_NODES = {
    "basic": "loras(most_jobs=1)",
    "normal": "loras(node_selection=normal)",
    "uniform": "loras(node_selection=uniform)",
    "normal_easy": "loras(node_selection=normal, selection=easy)",
    "uniform_easy": "loras(node_selection=uniform, selection=easy)",
    "promising": "scheduler.time_shared.predictors:Promising",
    "loras": "scheduler.time_shared.loras:Loras",
}
"""Schedulers that start jobs on time-shared nodes. The first five are compositions from Hanzich et al.
2006."""

ON_FREE_NODES = {
    "fcfs": "rigid(backfilling=none)",
    "sjf": "rigid(ordering=sjf)",
    "edf": "rigid(ordering=edf)",
    "least_laxity": "rigid(ordering=least_laxity)",
    "easy": "rigid(backfilling=easy)",
    "edf_easy": "rigid(ordering=edf, backfilling=easy)",
    "easy_sjbf": "rigid(backfilling=easy_sjbf)",
    "conservative": "scheduler.free_nodes.rigid:Conservative",
    "rigid": "scheduler.free_nodes.rigid:Rigid",
    "slurm_backfill": "scheduler.free_nodes.rigid:SlurmBackfill",
}
"""Schedulers that start rigid jobs on free nodes."""

AMONG_CLUSTERS = {
    "home": "ranked(cost=distance)",
    "fewest_jobs": "ranked(cost=jobs)",
    "least_load": "ranked(cost=load)",
    "earliest_start": "ranked(cost=start)",
    "shortest_turnaround": "ranked(cost=end)",
    "everywhere": "ranked(copies=1000)",
    "ranked": "scheduler.meta_scheduling.policies:Ranked",
    "round_robin": "scheduler.meta_scheduling.policies:RoundRobin",
}
"""Policies of a meta-scheduler, which send jobs to clusters."""

BUILT_IN = {Kind.MAPPING: ON_MACHINES, Kind.TIME_SHARED: ON_SHARED_NODES, Kind.FREE_NODES: ON_FREE_NODES}
BUILT_IN |= {Kind.CLUSTERS: AMONG_CLUSTERS}
_COMPOSED = {**ON_SHARED_NODES, **ON_FREE_NODES, **AMONG_CLUSTERS}
_ALL_BUILT_IN = {**ON_MACHINES, **_COMPOSED}
_MEMORYLESS = frozenset({"scheduler.free_nodes.rigid:Rigid"})
"""Targets of the built-in schedulers that declare it: listed here, since to read it would import them."""

_KIND_OF_TARGET = {target: kind for kind, targets in BUILT_IN.items() for target in targets.values()}

IN_BATCHES = frozenset({"bold"})
"""Schedulers that map some of the jobs, and leave the others for later calls."""

OPTIMISING = frozenset({"optimal", "pjs_optimal"})
"""Schedulers that solve an optimisation problem, which takes long unless jobs and machines fall into few
classes."""


class SchedulerNotLoaded(UserError):
    """A name leads to no usable scheduler. The message is one sentence for the user."""


class SchedulerSource(Protocol):
    """Where a scheduler comes from that has no import string."""

    @property
    def constructor(self) -> Callable[..., Any]:
        """A class or function that makes instances."""

    @property
    def parameters(self) -> Mapping[str, object]:
        """Arguments for the constructor."""


@dataclass(frozen=True, slots=True)
class SchedulerSpec:
    """A scheduler or resource manager, resolved from its name by `resolve`, or by `from_source`. It
    can be pickled if its source can.

    * `name`: as the user wrote it; the label in results.
    * `target`, `parameters`: "module:Class" and the arguments for its constructor.
    * `kind`: what it decides; None where a plug-in does not declare it.
    * `is_manager`: a whole resource manager (`scheduler.resource_manager`); use `make_manager`.
    * `memoryless`: it decides from the problem alone, so it need not be asked while no job fits.
    * `is_random`: its constructor takes a `seed`, which `make` supplies.
    * `summary`: of a plug-in, the first line of its documentation.
    * `source`: its constructor and further arguments, if these have no import string.
    """

    name: str
    target: str
    parameters: tuple[tuple[str, naming.Value], ...] = ()
    kind: Kind | None = None
    is_built_in: bool = False
    is_manager: bool = False
    memoryless: bool = False
    is_random: bool = False
    summary: str = ""
    source: SchedulerSource | None = None

    @property
    def is_for_requests(self) -> bool:
        """Whether it is built in, and for nodes of which jobs request parts."""
        return self.target == ON_FREE_NODES["slurm_backfill"]

    @property
    def key(self) -> str:
        """A key that is equal for names that denote the same scheduler with the same parameters."""
        return f"{self.target}{sorted(self._given)}"

    def constructor(self) -> Callable[..., Any]:
        """The class or function that makes instances. Raises SchedulerNotLoaded."""
        if self.source is not None:
            return self.source.constructor
        module_name, _, class_name = self.target.partition(":")
        try:
            module = importlib.import_module(module_name)
        except (Exception, SystemExit) as error:
            why = f"failed with {type(error).__name__}: {error}"
            raise self.unusable(f": importing module '{module_name}' {why}") from error
        found = getattr(module, class_name, None)
        if found is None:
            hint = f"{naming.nearest(class_name, vars(module))}{naming.hidden_by(module)}"
            raise self.unusable(f": module '{module_name}' has no '{class_name}'{hint}")
        if not callable(found):
            raise self.unusable(f": '{class_name}' is not a class")
        return cast("Callable[..., Any]", found)

    def make(self, seed: int = 0) -> AnyScheduler:
        """A new instance. `seed` is for random schedulers; a seed in the name takes precedence."""
        return cast("AnyScheduler", self.constructor()(**self._arguments(seed)))

    def make_manager(self, ports: Ports, seed: int = 0) -> ResourceManager:
        """A new instance of a resource manager."""
        return cast("ResourceManager", self.constructor()(ports, **self._arguments(seed)))

    def require(self, kind: Kind, purpose: str) -> None:
        """Raise SchedulerNotLoaded if the scheduler declares another kind than `purpose` needs."""
        if self.kind is None or self.kind is kind:
            return
        raise self.unusable(
            f" {self.kind.does} (kind {self.kind}), but {purpose} needs one that {kind.does} (kind {kind}): "
            f"{', '.join(BUILT_IN[kind])}, or a plug-in"
        )

    def unusable(self, why: str) -> SchedulerNotLoaded:
        """The error for this scheduler; `why` continues its sentence."""
        return SchedulerNotLoaded(f"scheduler '{self.name}'{why}")

    def _arguments(self, seed: int) -> dict[str, object]:
        return {**({"seed": seed} if self.is_random else {}), **dict(self._given)}

    @property
    def _given(self) -> Iterable[tuple[str, object]]:
        return self.parameters if self.source is None else self.source.parameters.items()


def resolve(name: str) -> SchedulerSpec:
    """The scheduler that `name` denotes: a built-in one, a plug-in of an installed package, or
    "module:Class", with or without parameters: `loras(selection=easy)`.

    Imports plug-ins, and built-in schedulers only to check parameters that the user has given. Raises
    SchedulerNotLoaded if the name leads to no scheduler, or its declarations or parameters do not fit.
    """
    spec = named(name)
    return spec if spec.is_built_in else declared(spec)


def from_source(name: str, source: SchedulerSource) -> SchedulerSpec:
    """The scheduler of a class or function that has no import string, under a name for results. Raises
    SchedulerNotLoaded if it is no scheduler, or its declarations are wrong."""
    made_by = source.constructor
    kind = type(made_by)  # whose names stand for those of objects without, like functools.partial
    module = getattr(made_by, "__module__", kind.__module__)
    target = f"{module}:{getattr(made_by, '__qualname__', kind.__qualname__)}"
    return declared(SchedulerSpec(name, target, source=source))


def named(name: str) -> SchedulerSpec:
    """The built-in scheduler that `name` denotes, or a plug-in of which nothing is imported: `declared` says
    what it is. Raises SchedulerNotLoaded."""
    with _misnamed():
        spec = _named(name)
        if spec.is_built_in and "(" in name:
            _check_parameters(spec)
            _instance(spec)
        return spec


def key_of(name: str) -> str:
    """The key of the scheduler that `name` denotes, whose code is not run; of an unknown one, the name."""
    try:
        return _named(name).key
    except (naming.Misnamed, SchedulerNotLoaded):
        return name


@contextmanager
def _misnamed() -> Iterator[None]:
    try:
        yield
    except naming.Misnamed as error:
        raise SchedulerNotLoaded(f"scheduler {error}") from None


def _named(name: str) -> SchedulerSpec:
    """The scheduler of a name, as far as the name alone tells."""
    base, parameters = naming.split(name)
    composed = base
    if "(" in (composition := _COMPOSED.get(base, "")):
        composed, own = naming.split(composition)
        parameters = own | parameters
    spec = SchedulerSpec(name, _target(composed), tuple(parameters.items()))
    if composed not in _ALL_BUILT_IN:
        return spec
    if any(":" in value for value in parameters.values() if isinstance(value, str)):
        return spec  # a parameter is a class that is not built in: selection='mine:Emptiest'
    kind = next(kind for kind, names in BUILT_IN.items() if base in names)
    return replace(spec, kind=kind, is_built_in=True, memoryless=spec.target in _MEMORYLESS)


def declared(spec: SchedulerSpec) -> SchedulerSpec:
    """A plug-in's `spec` with what its class declares. Imports it and makes an instance. Raises
    SchedulerNotLoaded."""
    from scheduler.resource_manager import ResourceManager

    found = spec.constructor()
    is_manager = isinstance(found, type) and issubclass(found, ResourceManager)
    spec = replace(spec, is_manager=is_manager, is_random=_flag(spec, found, "is_random"))
    with _misnamed():
        _check_parameters(spec)
    made = found if is_manager else _instance(spec)
    kind = getattr(made, "kind", None) or _KIND_OF_TARGET.get(spec.target)
    if kind is not None:
        try:
            kind = Kind(kind)
        except ValueError:
            why = f" declares kind = {kind!r}; expected one of {', '.join(Kind)}"
            raise spec.unusable(why) from None
    summary = (inspect.getdoc(found) or "").partition("\n")[0]
    return replace(spec, kind=kind, memoryless=_flag(spec, made, "memoryless"), summary=summary)


def _flag(spec: SchedulerSpec, found: object, name: str) -> bool:
    value = getattr(found, name, False)
    if not isinstance(value, bool):
        raise spec.unusable(f" declares {name} = {value!r}; expected True or False")
    return value


def _instance(spec: SchedulerSpec) -> AnyScheduler:
    """Make an instance, as a check. Raises SchedulerNotLoaded."""
    class_name = spec.target.partition(":")[2]
    try:
        made = spec.make()
    except ValueError as error:
        raise spec.unusable(f": {error}") from error
    except (Exception, SystemExit) as error:
        how = "with these parameters" if dict(spec._given) else "without arguments"
        why = f"failed with {type(error).__name__}: {error}; its constructor must work {how}"
        raise spec.unusable(f": {class_name} {why}") from error
    if not callable(getattr(made, "schedule", None)):
        raise spec.unusable(f": '{class_name}' has no method schedule(problem)")
    return made


def _check_parameters(spec: SchedulerSpec) -> None:
    naming.check(spec.name, spec.constructor(), dict(spec.parameters))
    known = naming.parameters_of(spec.constructor())
    if spec.is_random and known is not None and "seed" not in known:
        raise spec.unusable(" declares is_random = True; its constructor needs a parameter 'seed'")


def _target(base: str) -> str:
    if ":" in base:
        return base
    if base in _ALL_BUILT_IN:  # before all installed packages are read
        return _ALL_BUILT_IN[base]
    known = {**_plugins(), **_ALL_BUILT_IN}
    if base not in known:
        raise SchedulerNotLoaded(f"unknown scheduler '{base}'{naming.advice(base, known, BUILT_IN)}")
    return known[base]


def names() -> tuple[str, ...]:
    """Names of all built-in and installed schedulers."""
    return (*_ALL_BUILT_IN, *sorted(_plugins()))


def modules_of(names: Iterable[str]) -> list[str]:
    """The modules of the built-in schedulers among `names`, none of which is imported."""
    found = (_ALL_BUILT_IN.get(name.partition("(")[0], "") for name in names)
    targets = (_ALL_BUILT_IN[target.partition("(")[0]] if "(" in target else target for target in found)
    return sorted({target.partition(":")[0] for target in targets if target})


def plugins() -> list[EntryPoint]:
    """Schedulers of installed packages, in order of names. The current folder is not searched, although
    modules are found there: it may belong to another user."""
    from importlib.metadata import entry_points  # loads the parser of e-mail

    here = Path.cwd()
    return sorted(
        point
        for point in entry_points(group=PLUGIN_GROUP)
        if point.dist is None or Path(str(point.dist.locate_file(""))).resolve() != here
    )


def _plugins() -> dict[str, str]:
    return {point.name: point.value for point in plugins()}
