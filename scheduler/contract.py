"""The contract that every scheduler must keep, as a suite that plug-in authors run too.

    from scheduler.contract import check_contract

    def test_my_scheduler_keeps_the_contract():
        check_contract(MyScheduler)

It asks the scheduler many small problems, drawn by Hypothesis, and reports the smallest one on which a rule
of `scheduler.mapping.rules` is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import FlakyFailure

from scheduler.etc import EtcMatrix
from scheduler.mapping.rules import (
    DETERMINISTIC,
    MAKES_PROGRESS,
    PROBLEM_UNTOUCHED,
    RAISES_NOTHING,
    RETURNS_IN_TIME,
    Violation,
    first_difference,
    first_violation,
)
from scheduler.model import Job, JobId, RunId, Schedule, read_only
from scheduler.ports import Scheduler
from scheduler.problem import ReadyTimes, Running, SchedulingProblem


class Outline(Protocol):
    """A small problem, from which any number of equal SchedulingProblems can be built, and what is asked of
    an answer to it."""

    def build(self) -> SchedulingProblem: ...

    def violation(self, schedule: Schedule) -> Violation | None:
        """The first rule of a schedule that is broken."""
        ...

    def change(self, problem: SchedulingProblem) -> str | None:
        """What differs between a problem after it was asked and an equal one."""
        ...

    def stuck(self, schedule: Schedule) -> JobId | None:
        """A job that could run now and would wait for ever, since nothing goes on and nothing is started."""
        ...


Outlines = tuple[Outline, ...]
Caller = Callable[[Callable[[], Schedule]], Schedule]
"""Runs a call under whatever limit it sets, and raises TimeoutError where that is exceeded."""


NO_SMALLER_EXAMPLE = (RETURNS_IN_TIME, DETERMINISTIC)
"""Looking for a smaller example would take the time limit each time, or meet another outcome each time."""


class ContractBroken(AssertionError):
    """A scheduler broke `rule`, on `job` where it is one job; `problems` are the smallest that show it."""

    def __init__(self, rule: str, job: JobId | None, message: str, problems: Outlines) -> None:
        shown = "\n".join(f"  {outline}" for outline in problems)
        super().__init__(f"{rule}: {message}\nasked, in this order:\n{shown}")
        self.rule = rule
        self.job = job
        self.message = message
        self.problems = problems


@dataclass(frozen=True)
class ProblemOutline:
    """A small problem, from which any number of equal SchedulingProblems can be built.

    Machines with `ready_s` infinite are down; each `busy` one has a run that goes on until its ready time.
    """

    now_s: float
    etc_s: tuple[tuple[float, ...], ...]
    """Per job class: seconds on each machine, then on each cluster."""
    job_class_of: tuple[int, ...]
    ready_s: tuple[float, ...]
    members: tuple[tuple[int, ...], ...]
    busy: frozenset[int]

    def __str__(self) -> str:
        if len(self.job_class_of) > 12:
            return f"a problem of {len(self.job_class_of)} jobs on {len(self.ready_s)} machines"
        return repr(self)

    def build(self) -> SchedulingProblem:
        resources = range(len(self.ready_s) + len(self.members))
        etc = EtcMatrix(np.array(self.etc_s), np.array(self.job_class_of), np.array(resources))
        jobs = [
            Job(JobId(100 + i), f"class-{c}", self.now_s * i / len(self.job_class_of))
            for i, c in enumerate(self.job_class_of)
        ]
        running = {
            RunId(j): Running(Job(JobId(j), "class-0", 0.0), j, (j,), self.ready_s[j])
            for j in sorted(self.busy)
        }

        def read(victims: frozenset[RunId]) -> ReadyTimes:
            freed = [self.now_s if j in victims else ready_s for j, ready_s in enumerate(self.ready_s)]
            return ReadyTimes(read_only(freed), self.members)

        return SchedulingProblem(self.now_s, tuple(jobs), etc, read, running)

    @property
    def is_idle(self) -> bool:
        """Nothing runs and nothing is reserved: if no job is started now, nothing will ever happen."""
        return all(ready_s in (self.now_s, np.inf) for ready_s in self.ready_s)

    def violation(self, schedule: Schedule) -> Violation | None:
        return first_violation(self.build(), schedule)

    def change(self, problem: SchedulingProblem) -> str | None:
        fresh = self.build()
        parts = {
            "now_s": problem.now_s == fresh.now_s,
            "jobs": problem.jobs == fresh.jobs,
            "etc": np.array_equal(problem.etc.dense(), fresh.etc.dense()),
            "ready_times": np.array_equal(problem.ready_times.machine_s, fresh.ready_times.machine_s)
            and problem.ready_times.members == fresh.ready_times.members,
            "running": dict(problem.running) == dict(fresh.running),
        }
        return next((name for name, same in parts.items() if not same), None)

    def stuck(self, schedule: Schedule) -> JobId | None:
        up = [j for j, ready_s in enumerate(self.ready_s) if np.isfinite(ready_s)]
        if not self.is_idle or len(schedule.assignments):
            return None
        for i, c in enumerate(self.job_class_of):
            if any(np.isfinite(self.etc_s[c][j]) for j in up):
                return self.build().jobs[i].id
        return None


@dataclass(frozen=True)
class Contract:
    """What schedulers of one kind are asked: small problems, and at the end some larger ones."""

    outlines: st.SearchStrategy[Outline]
    larger: Callable[[], Outlines]


def check_contract(
    make: Callable[[], Scheduler], *, examples: int = 200, call: Caller = lambda function: function()
) -> None:
    """Ask the scheduler that `make` makes: `examples` times up to three problems in a row, then larger ones.

    `call` may set a limit to the time of each decision (see Caller); without it, a scheduler that never
    returns is waited for. The problems are the same every time. Raises ContractBroken. For schedulers that
    start jobs on shared nodes: `scheduler.time_shared.contract`.
    """
    examine(make, mapping_contract(), examples, call)


def broken_rules(
    make: Callable[[], Scheduler], contract: Contract, examples: int, call: Caller
) -> Iterator[ContractBroken]:
    """Each rule that is broken, once, with the smallest problems that show it.

    The last, if it is that a decision takes too long: to find another would take as long each time.
    """
    found: set[str] = set()
    while RETURNS_IN_TIME not in found:
        try:
            examine(make, contract, examples, call, frozenset(found))
        except ContractBroken as broken:
            found.add(broken.rule)
            yield broken
        else:
            return


def examine(
    make: Callable[[], Scheduler],
    contract: Contract,
    examples: int,
    call: Caller,
    overlooked: frozenset[str] = frozenset(),
) -> None:
    """Ask problems of one kind, as `check_contract` says. Problems on which a rule is broken that is
    `overlooked` are passed over."""
    examiner = _Examiner(make, call, overlooked)

    @settings(
        max_examples=examples,
        database=None,
        derandomize=True,
        phases=(Phase.generate, Phase.shrink),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(st.lists(contract.outlines, min_size=1, max_size=3).map(tuple))
    def keeps_the_contract(asked: Outlines) -> None:
        examiner.examine(asked)

    try:
        keeps_the_contract()
        examiner.examine(contract.larger())
    except (ContractBroken, FlakyFailure):
        broken = examiner.last
        assert broken is not None
        # A new one: what Hypothesis adds to its own tells of this file, not of the scheduler.
        raise ContractBroken(broken.rule, broken.job, broken.message, broken.problems) from None


class _Overlooked(Exception):
    """A rule is broken of which that is known."""


class _Examiner:
    """Asks, and remembers the last broken rule: a scheduler that is not deterministic may not repeat it."""

    def __init__(self, make: Callable[[], Scheduler], call: Caller, overlooked: frozenset[str]) -> None:
        self._make = make
        self._call = call
        self._overlooked = overlooked
        self.last: ContractBroken | None = None

    def examine(self, outlines: Outlines) -> None:
        if self.last is not None and self.last.rule in NO_SMALLER_EXAMPLE:
            raise self.last
        try:
            self._examine(outlines)
        except _Overlooked:
            return

    def _examine(self, outlines: Outlines) -> None:
        schedules = self._answers(outlines)
        for outline, schedule, again in zip(outlines, schedules, self._answers(outlines), strict=True):
            difference = first_difference(schedule, again)
            if difference is not None:
                job = outline.build().jobs[difference].id if difference >= 0 else None
                message = f"two instances that were asked the same decided differently from job {job} on"
                raise self._broken(DETERMINISTIC, job, message, outlines)

    def _answers(self, outlines: Outlines) -> list[Schedule]:
        scheduler = self._make()
        return [self._answer(scheduler, outlines[: k + 1]) for k in range(len(outlines))]

    def _answer(self, scheduler: Scheduler, asked: Outlines) -> Schedule:
        outline, problem = asked[-1], asked[-1].build()
        schedule = self._ask(scheduler, problem, asked)
        violation = outline.violation(schedule)
        if violation is not None:
            raise self._broken(violation.rule, violation.job, violation.message, asked)
        changed = outline.change(problem)
        if changed is not None:
            raise self._broken(PROBLEM_UNTOUCHED, None, f"the scheduler changed {changed}", asked)
        job = outline.stuck(schedule)
        if job is not None:
            message = (
                f"job {job} could run, nothing else goes on, and no job was started: it would wait for ever"
            )
            raise self._broken(MAKES_PROGRESS, job, message, asked)
        return schedule

    def _ask(self, scheduler: Scheduler, problem: SchedulingProblem, asked: Outlines) -> Schedule:
        try:
            return self._call(lambda: scheduler.schedule(problem))
        except TimeoutError as error:
            raise self._broken(RETURNS_IN_TIME, None, f"schedule did not return: {error}", asked) from None
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            message = f"schedule raised {type(error).__name__}: {error}"
            raise self._broken(RAISES_NOTHING, None, message, asked) from error

    def _broken(self, rule: str, job: JobId | None, message: str, asked: Outlines) -> ContractBroken:
        if rule in self._overlooked:
            raise _Overlooked
        self.last = ContractBroken(rule, job, message, asked)
        return self.last


def mapping_contract() -> Contract:
    """For schedulers that map jobs to machines and clusters."""
    return Contract(problem_outlines(), larger_outlines)


def larger_outlines() -> Outlines:
    """Problems of a size at which schedulers for small cases only would fail, asked in a row."""
    luck = np.random.default_rng(1)
    outlines = []
    for n_jobs, n_machines, n_classes in ((60, 12, 5), (7, 40, 3), (200, 5, 40)):
        etc_s = luck.uniform(1.0, 100.0, (n_classes, n_machines + 2))
        etc_s[:, 1:][luck.random((n_classes, n_machines + 1)) < 0.1] = np.inf
        ready_s = luck.choice([0.0, 0.0, 5.0, 30.0], n_machines)
        ready_s[-1] = np.inf
        half = n_machines // 2
        outline = ProblemOutline(
            0.0,
            tuple(map(tuple, etc_s.tolist())),
            tuple(luck.integers(0, n_classes, n_jobs).tolist()),
            tuple(ready_s.tolist()),
            (tuple(range(half)), tuple(range(half, n_machines - 1))),
            frozenset(),
        )
        outlines.append(outline)
    return tuple(outlines)


@st.composite
def problem_outlines(draw: st.DrawFn) -> ProblemOutline:
    """Small problems with ties, clusters that share machines, machines that are down, and places that cannot
    run a class; every class can run on some machine."""
    n_machines = draw(st.integers(1, 5))
    n_clusters = draw(st.integers(0, 2)) if n_machines > 1 else 0
    n_classes = draw(st.integers(1, 3))
    now_s = draw(st.sampled_from([0.0, 10.0, 1234.5]))
    seconds = st.one_of(st.integers(1, 9).map(float), st.floats(0.5, 50.0, width=32))
    cell = st.one_of(seconds, seconds, seconds, st.just(np.inf))
    row = st.lists(cell, min_size=n_machines + n_clusters, max_size=n_machines + n_clusters).filter(
        lambda cells: np.isfinite(cells[:n_machines]).any()
    )
    ready = st.one_of(st.just(0.0), st.just(0.0), st.integers(0, 20).map(float), st.just(np.inf))
    ready_s = [now_s + later_s for later_s in draw(st.lists(ready, min_size=n_machines, max_size=n_machines))]
    busy = {j for j in range(n_machines) if now_s < ready_s[j] < np.inf and draw(st.booleans())}
    cluster = st.sets(st.integers(0, n_machines - 1), min_size=1, max_size=n_machines)
    members = draw(st.lists(cluster, min_size=n_clusters, max_size=n_clusters))
    return ProblemOutline(
        now_s,
        tuple(map(tuple, draw(st.lists(row, min_size=n_classes, max_size=n_classes)))),
        tuple(draw(st.lists(st.integers(0, n_classes - 1), min_size=1, max_size=12))),
        tuple(ready_s),
        tuple(tuple(sorted(machines)) for machines in members),
        frozenset(busy),
    )
