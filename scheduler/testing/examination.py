"""Examining a scheduler: many small problems, drawn by Hypothesis, and the smallest that breaks each rule.

What is specific to a kind of scheduling is its class of `Outline`; `scheduler.testing` has the contracts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from scheduler import rules
from scheduler.messages import UserError
from scheduler.model import Answer, JobId, NodeSchedule
from scheduler.ports import AnyScheduler
from scheduler.problem import SchedulingProblem
from scheduler.rules import RULES_OF, RULES_OF_CONDUCT, Kind, WrongKind, first_difference

try:
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import strategies as st
    from hypothesis.errors import FlakyFailure
except ImportError as error:
    raise UserError(
        "the problems for examining a scheduler are drawn by Hypothesis, which is not installed; install it "
        "with: pip install 'sil-testbed[testing]'"
    ) from error

__all__ = ["FlakyFailure", "HealthCheck", "Phase", "exactly", "given", "settings", "st"]

T = TypeVar("T")


@cache
def exactly(n: int, each: st.SearchStrategy[T]) -> st.SearchStrategy[list[T]]:
    """A strategy for lists of n. Strategies are made once, since making one costs more than drawing from
    it."""
    return st.lists(each, min_size=n, max_size=n)


Caller = Callable[[Callable[[], Answer]], Answer]
"""Calls a function under a time limit of its choice. Raises TimeoutError if the limit is exceeded."""

NO_SMALLER_EXAMPLE = (rules.RETURNS_IN_TIME, rules.DETERMINISTIC)
"""Rules whose first example is kept: each smaller one would cost the time limit, or differ."""


P = TypeVar("P", bound=SchedulingProblem)


class Outline(ABC, Generic[P]):
    """A small problem as plain values, from which equal problems can be built, and what is specific to its
    kind of scheduling in judging the answers."""

    @property
    @abstractmethod
    def summary(self) -> tuple[int, str]:
        """The number of its jobs, and what they are for, like "12 machines"."""

    def __str__(self) -> str:
        n_jobs, places = self.summary
        return f"a problem of {n_jobs} jobs on {places}" if n_jobs > 12 else repr(self)

    @property
    @abstractmethod
    def n_jobs(self) -> int:
        """The number of waiting and running jobs."""

    @abstractmethod
    def build(self, first_id: int) -> P:
        """A new problem whose jobs are numbered from `first_id`, the waiting jobs first."""

    def state(self, problem: P) -> Mapping[str, object]:
        """The parts of a problem that a scheduler must not change, by name."""
        common = {"now_s": problem.now_s, "jobs": list(problem.jobs), "running": dict(problem.running)}
        return {**common, **problem.arrays()}

    @abstractmethod
    def startable(self, problem: P) -> JobId | None:
        """A job that must start now, as it could run and nothing else is going to happen; or None."""

    def exercised(self, problem: P, answer: Answer) -> Set[str]:
        """The rules of an answer that this one could have broken."""
        if not n_decisions(answer):
            return {rules.RETURNS_A_SCHEDULE, rules.NO_JOB_FORGOTTEN}
        return RULES_OF[problem.kind].keys() - RULES_OF_CONDUCT.keys()


Outlines = tuple[Outline[Any], ...]


class Contract(NamedTuple):
    """The problems for schedulers of one kind."""

    kind: Kind
    outlines: st.SearchStrategy[Outline[Any]]
    """Small problems, with ties and special cases."""
    larger: Outlines
    """A few problems of a size at which schedulers for small cases only would fail, asked in a row."""


def n_decisions(answer: Answer) -> int:
    return len(answer.starts) if isinstance(answer, NodeSchedule) else len(answer.assignments)


class BrokeRule(Exception):
    """A candidate elsewhere broke `rule`; the text is the message."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule


class CannotAnswer(BrokeRule):
    """A candidate that cannot be asked any more, which ends the examination."""


class Candidate(Protocol):
    """A scheduler that is examined."""

    def answer(self, outline: Outline[Any], first_id: int) -> tuple[Answer, str | None]:
        """Its answer to the problem that `outline` builds, and the part of it that it has changed, if any.
        Raises what the scheduler raises, and TimeoutError if it does not return."""


class LocalCandidate:
    """A candidate in this process. `call` may limit the time of each decision."""

    def __init__(self, scheduler: AnyScheduler, call: Caller = lambda function: function()) -> None:
        self._scheduler = scheduler
        self._call = call

    def answer(self, outline: Outline[Any], first_id: int) -> tuple[Answer, str | None]:
        problem = outline.build(first_id)
        answer = self._call(lambda: self._scheduler.schedule(problem))
        now, before = outline.state(problem), outline.state(outline.build(first_id))
        return answer, next((name for name, value in before.items() if not _equal(now[name], value)), None)


class ContractBroken(AssertionError):
    """A scheduler broke `rule`, on `job` if it is one job; `problems` are the smallest that show it."""

    def __init__(self, rule: str, job: JobId | None, message: str, problems: Outlines) -> None:
        shown = "\n".join(f"  {outline}" for outline in problems)
        super().__init__(f"{rule}: {message}\nasked, in this order:\n{shown}")
        self.rule = rule
        self.job = job
        self.message = message
        self.problems = problems


@dataclass(eq=False)
class Examination:
    """Asks `make`'s candidates `examples` times up to three problems in a row, then larger ones.

    The problems are the same every time.
    """

    make: Callable[[], Candidate]
    contract: Contract
    examples: int = 200
    exercised: set[str] = field(default_factory=set, init=False)
    """Rules that some answer kept although it could have broken them."""
    _overlooked: set[str] = field(default_factory=set, init=False)
    _last: ContractBroken | None = field(default=None, init=False)
    _gone: CannotAnswer | None = field(default=None, init=False)

    def broken_rules(self) -> Iterator[ContractBroken]:
        """Each broken rule, once, with the smallest problems that show it.

        Ends with RETURNS_IN_TIME if that is broken: finding another would cost the time limit again.
        """
        while rules.RETURNS_IN_TIME not in self._overlooked:
            try:
                self.run()
            except ContractBroken as broken:
                self._overlooked.add(broken.rule)
                yield broken
            else:
                return

    def run(self) -> None:
        """Raise ContractBroken for the first broken rule that was not found before."""
        self._last = None

        @settings(
            max_examples=self.examples,
            database=None,
            derandomize=True,
            phases=(Phase.generate, Phase.shrink),
            deadline=None,
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
            print_blob=False,
        )
        @given(st.lists(self.contract.outlines, min_size=1, max_size=3).map(tuple))
        def keeps_the_contract(asked: Outlines) -> None:
            self._examine(asked)

        try:
            keeps_the_contract()
            self._examine(self.contract.larger)
        except (ContractBroken, CannotAnswer, FlakyFailure):
            if self._gone is not None:
                raise self._gone from self._gone.__cause__
            broken = self._last  # a scheduler that is not deterministic may not repeat it
            assert broken is not None
            # A new exception: what Hypothesis adds to its own describes this file, not the scheduler.
            raise ContractBroken(broken.rule, broken.job, broken.message, broken.problems) from None

    def _examine(self, outlines: Outlines) -> None:
        if self._gone is not None:
            raise self._gone
        if self._last is not None and self._last.rule in NO_SMALLER_EXAMPLE:
            raise self._last
        # No job number occurs in two of them, since a scheduler may remember jobs.
        first_ids = accumulate((outline.n_jobs for outline in outlines[:-1]), initial=1)
        numbered = list(zip(outlines, first_ids, strict=True))
        try:
            first, second = self._answers(numbered), self._answers(numbered)
            for (outline, first_id), answer, again in zip(numbered, first, second, strict=True):
                difference = first_difference(answer, again)
                if difference is not None:
                    job = outline.build(first_id).jobs[difference].id if difference >= 0 else None
                    message = f"two instances that were asked the same decided differently from job {job} on"
                    raise self._broken(rules.DETERMINISTIC, job, message, outlines)
            self.exercised.add(rules.DETERMINISTIC)
        except _KnownViolation:
            return

    def _answers(self, numbered: list[tuple[Outline[Any], int]]) -> list[Answer]:
        candidate, answers, asked = self.make(), list[Answer](), Outlines()
        for outline, first_id in numbered:
            asked += (outline,)
            answers.append(self._answer(candidate, outline, first_id, asked))
        return answers

    def _answer(self, candidate: Candidate, outline: Outline[Any], first_id: int, asked: Outlines) -> Answer:
        answer, changed = self._ask(candidate, outline, first_id, asked)
        self.exercised |= {rules.RIGHT_KIND, rules.RAISES_NOTHING, rules.RETURNS_IN_TIME}
        fresh = outline.build(first_id)
        violation = fresh.violation(answer)
        if violation is not None:
            raise self._broken(violation.rule, violation.job, violation.message, asked)
        self.exercised |= outline.exercised(fresh, answer)
        if changed is not None:
            raise self._broken(rules.PROBLEM_UNTOUCHED, None, f"the scheduler changed {changed}", asked)
        self.exercised.add(rules.PROBLEM_UNTOUCHED)
        if not n_decisions(answer) or rules.MAKES_PROGRESS not in self.exercised:
            job = outline.startable(fresh)
            if job is not None and not n_decisions(answer):
                message = f"job {job} could run, nothing is running, and no job is started: it waits forever"
                raise self._broken(rules.MAKES_PROGRESS, job, message, asked)
            if job is not None:
                self.exercised.add(rules.MAKES_PROGRESS)
        return answer

    def _ask(
        self, candidate: Candidate, outline: Outline[Any], first_id: int, asked: Outlines
    ) -> tuple[Answer, str | None]:
        try:
            return candidate.answer(outline, first_id)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except CannotAnswer as gone:
            self._gone = gone
            raise
        except BaseException as error:
            rule, message = rules.RAISES_NOTHING, f"schedule raised {type(error).__name__}: {error}"
            if isinstance(error, TimeoutError):
                rule, message = rules.RETURNS_IN_TIME, f"schedule did not return: {error}"
            elif isinstance(error, BrokeRule | WrongKind):
                rule, message = getattr(error, "rule", rules.RIGHT_KIND), str(error)
                if rule not in RULES_OF_CONDUCT:
                    self.exercised |= {rules.RIGHT_KIND, rules.RAISES_NOTHING, rules.RETURNS_IN_TIME}
            cause = None if isinstance(error, TimeoutError) else error
            raise self._broken(rule, None, message, asked) from cause

    def _broken(self, rule: str, job: JobId | None, message: str, asked: Outlines) -> Exception:
        if rule in self._overlooked:
            return _KnownViolation()
        self._last = ContractBroken(rule, job, message, asked)
        return self._last


class _KnownViolation(Exception): ...


def _equal(one: Any, other: Any) -> bool:
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else bool(one == other)
