"""A swarm: many cases, on processes or Dask, what they found, smaller cases with the same violation, and
the lines of the resource managers that were reached."""

from __future__ import annotations

import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from inspect import CO_OPTIMIZED
from itertools import count
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import scheduler.durability
import scheduler.managers
from scheduler import UserError
from scheduler.rules import Kind, Violation
from sil.runs.hosting import call_isolated
from sil.runs.under_test import InProcess
from sil.swarm.case import CORES, DEFAULT_JOBS, DEFAULT_MACHINES, SCHEDULERS, Case, SiteKind, drawn, stream
from sil.swarm.faults import KINDS
from sil.swarm.simulation import CaseVerdict, verdict_on
from sil.workers.executor import Executor, Item
from sil.world.guard.faults import Died, SchedulerFault

Lines = frozenset[tuple[str, int]]
"""Lines of functions: the file, relative to the packages' folder, and the number."""

_ROOT = Path(scheduler.managers.__file__).parent.parent.parent
_FOLDERS = tuple(
    str(Path(package.__file__ or "").parent) for package in (scheduler.durability, scheduler.managers)
)


@contextmanager
def lines_reached(into: set[tuple[str, int]]) -> Iterator[None]:
    """Add the lines of the managers that are executed within this context, which takes ten times as long."""

    def line(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            into.add((frame.f_code.co_filename, frame.f_lineno))
        return line

    def call(frame: FrameType, _event: str, _argument: Any) -> Any:
        return line if frame.f_code.co_filename.startswith(_FOLDERS) else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        yield
    finally:
        sys.settrace(before)


@cache
def all_lines() -> Lines:
    """All lines of functions of the managers."""
    return frozenset(
        (str(path), number)
        for folder in _FOLDERS
        for path in sorted(Path(folder).glob("*.py"))
        for number in _lines_of(compile(path.read_text(), str(path), "exec"), is_function=False)
    )


def relative(path: str) -> str:
    return str(Path(path).relative_to(_ROOT))


def _lines_of(code: CodeType, is_function: bool = True) -> Iterator[int]:
    """The lines of the functions in `code`, without those that define them."""
    if is_function and code.co_flags & CO_OPTIMIZED:  # classes are not
        yield from {line for *_, line in code.co_lines() if line and line != code.co_firstlineno}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _lines_of(constant)


SEEDS_OF_AN_ITEM = 50
TRACED = 100
"""One in this number of seeds counts the lines of the managers."""

STREAMS = 8
"""One in this number of seeds has a stream of jobs, to see whether a scheduler that is not built in is
fair."""

MACHINES_OF = {
    Kind.MAPPING: (SiteKind.DIFFERENT,),
    Kind.FREE_NODES: (SiteKind.PROCESSORS, SiteKind.NODES),
    None: (SiteKind.DIFFERENT,),
}
"""The kinds of machines for each kind of scheduler; a resource manager that declares none is for different
machines."""


@dataclass(frozen=True)
class Swarm:
    """What a swarm tests, and with what. Without `under_test`, it tests the built-in managers under the
    built-in schedulers."""

    under_test: InProcess | None = None
    kinds: tuple[str, ...] = (*KINDS,)
    n_jobs: int = DEFAULT_JOBS
    n_machines: int = DEFAULT_MACHINES

    def check(self) -> None:
        """Raise UserError for a scheduler that cannot be tested so."""
        tested = self.under_test
        if tested is None:
            return
        if tested.spec.kind not in MACHINES_OF:
            raise UserError(
                f"scheduler '{tested.label}' is of kind {tested.spec.kind}; a swarm tests those of the kinds "
                f"{Kind.MAPPING} and {Kind.FREE_NODES}"
            )

    def replayed(self, case: Case) -> Case:
        """A case of a file. Raises UserError for one that is not of what is tested: what a file names is not
        run unless the user names it, too."""
        tested = self.under_test
        if tested is None:
            if case.scheduler not in SCHEDULERS[case.machines]:
                raise UserError(
                    f"the case is one of '{case.scheduler}', which is not built in for {case.machines}; name "
                    f"it, too: {shlex.join(['sil', 'swarm', case.scheduler, '--case'])} FILE"
                )
            return case
        if case.machines not in MACHINES_OF[tested.spec.kind]:
            raise UserError(
                f"the case is one on {case.machines}, and '{tested.label}' is for "
                f"{' and '.join(MACHINES_OF[tested.spec.kind])}; name a case that a swarm for it wrote"
            )
        return replace(case, scheduler=tested.label)

    def case(self, seed: int) -> Case:
        tested = self.under_test
        if tested is None:
            return drawn(seed, self.kinds, n_jobs=self.n_jobs, n_machines=self.n_machines)
        machines = MACHINES_OF[tested.spec.kind]
        is_on_nodes = tested.spec.kind is Kind.FREE_NODES and not tested.spec.is_manager
        if is_on_nodes and not tested.is_built_in and seed % STREAMS == STREAMS - 1:
            return stream(seed, machines[seed // STREAMS % len(machines)], tested.label)
        return drawn(seed, self.kinds, machines, (tested.label,), self.n_jobs, self.n_machines)

    def verdict(self, case: Case) -> CaseVerdict:
        if self.under_test is None:
            return verdict_on(case)
        try:
            return call_isolated(partial(verdict_on, case, self.under_test), self.under_test)
        except SchedulerFault as fault:  # its process ended
            return CaseVerdict(Violation(fault.rule, fault.job, fault.message, fault.time_s))

    def smallest(self, seed: int, violation: Violation) -> Case:
        """The case of a seed made smaller, with a violation of the same rule."""

        def violates(case: Case) -> bool:
            found = self.verdict(case).violation
            return found is not None and found.rule == violation.rule

        return shrunk(self.case(seed), violates)


@dataclass
class CampaignFindings:
    """What the cases of some seeds show."""

    n_cases: int = 0
    violations: dict[int, Violation] = field(default_factory=dict)
    """Violations by seed."""
    cases_with: Counter[str] = field(default_factory=Counter)
    """The number of cases with each kind of fault."""
    violations_with: Counter[str] = field(default_factory=Counter)
    facts: Counter[str] = field(default_factory=Counter)
    lines: set[tuple[str, int]] = field(default_factory=set)
    died: dict[str, Died] = field(default_factory=dict)
    """Cases whose process ended, by seeds."""
    is_interrupted: bool = False

    def add(self, other: CampaignFindings) -> None:
        self.n_cases += other.n_cases
        self.violations.update(other.violations)
        self.cases_with += other.cases_with
        self.violations_with += other.violations_with
        self.facts += other.facts
        self.lines |= other.lines


def found_by(swarm: Swarm, seeds: Sequence[int]) -> CampaignFindings:
    """Carry out the cases of some seeds."""
    found = CampaignFindings()
    for seed in seeds:
        case = swarm.case(seed)
        if seed % TRACED or swarm.under_test is not None:  # which has a process of its own
            verdict = swarm.verdict(case)
        else:
            with lines_reached(found.lines):
                verdict = swarm.verdict(case)
        found.n_cases += 1
        found.facts.update(fact for _, fact, *_ in verdict.facts)
        kinds = {fault.kind for fault in case.faults}
        found.cases_with.update(kinds)
        if verdict.violation is not None:
            found.violations[seed] = verdict.violation
            found.violations_with.update(kinds)
    return found


def carried_out(
    swarm: Swarm,
    seeds: range,
    executor: Executor,
    for_s: float | None = None,
    on_progress: Callable[[int, int | None], None] = lambda done, total: None,
) -> CampaignFindings:
    """The findings for all `seeds`, or, with `for_s`, for as many from the first one on as begin within that
    time; after Ctrl-C, those of the cases that are done. They do not depend on the executor, except for lines
    that are executed once in each process."""
    all_found = CampaignFindings()
    total = len(seeds) if for_s is None else None

    def take(item: Item, found: CampaignFindings | Died) -> None:
        if isinstance(found, Died):
            all_found.died[item.name] = found
        else:
            all_found.add(found)
            on_progress(all_found.n_cases, total)

    try:
        executor.run(_items(swarm, seeds, for_s), take)
    except KeyboardInterrupt:
        all_found.is_interrupted = True
    all_found.violations = dict(sorted(all_found.violations.items()))
    all_found.facts = Counter(dict(sorted(all_found.facts.items())))
    return all_found


def _items(swarm: Swarm, seeds: range, for_s: float | None) -> Iterator[Item]:
    ends_s = None if for_s is None else time.monotonic() + for_s
    starts: Iterable[int] = range(seeds.start, seeds.stop, SEEDS_OF_AN_ITEM)
    if ends_s is not None:
        starts = count(seeds.start, SEEDS_OF_AN_ITEM)
    for first in starts:
        if ends_s is not None and time.monotonic() >= ends_s:
            return
        last = first + SEEDS_OF_AN_ITEM if ends_s is not None else min(first + SEEDS_OF_AN_ITEM, seeds.stop)
        name = f"seeds {first} to {last - 1}"
        yield Item(f"swarm {name}", partial(found_by, swarm, range(first, last)), name=name)


# -- smaller cases -------------------------------------------------------------------------------------------

MAX_TRIES = 1_000

PLAIN: Mapping[str, Any] = {
    "has_queues": False,
    "is_remapping": False,
    "keeps_starts": False,
    "raised_after": None,
    "least_gain_s": 0.0,
}
"""The policies of a case that has none."""


def shrunk(case: Case, violates: Callable[[Case], bool]) -> Case:
    """The smallest case found by leaving out faults, jobs, policies and machines one by one, as long as
    `violates` holds; it is called at most MAX_TRIES times."""
    tries = 0
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for candidate in _smaller(case):
            tries += 1
            if tries > MAX_TRIES:
                return case
            if violates(candidate):
                case, is_smaller = candidate, True
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    """Cases with less of something, the largest steps first."""
    for k in range(len(case.faults)):
        yield replace(case, faults=case.faults[:k] + case.faults[k + 1 :])
    n = len(case.jobs)
    size = n // 2
    while size:
        for first in range(0, n, size):
            jobs = case.jobs[:first] + case.jobs[first + size :]
            if jobs:
                yield replace(case, jobs=jobs)
        size //= 2
    for policy, plain in PLAIN.items():
        if getattr(case, policy) != plain:
            yield replace(case, **{policy: plain})
    if case.n_machines > 1 and case.longest_wait_s is None:  # with fewer, jobs may wait longer
        yield _with_one_machine_less(case)
    for k, job in enumerate(case.jobs):
        if job.size > 1:
            jobs = (*case.jobs[:k], replace(job, size=1), *case.jobs[k + 1 :])
            yield replace(case, jobs=jobs)


def _with_one_machine_less(case: Case) -> Case:
    n = case.n_machines - 1
    largest = CORES * n if case.machines is SiteKind.NODES else n
    jobs = tuple(replace(job, size=min(job.size, largest)) for job in case.jobs)
    faults = []
    for fault in case.faults:
        of = dict(fault.parameters)
        if "machines" in of:
            of["machines"] = [machine for machine in of["machines"] if machine < n] or [0]
        faults.append(replace(fault, parameters=of))
    return replace(case, n_machines=n, jobs=jobs, faults=tuple(faults))
