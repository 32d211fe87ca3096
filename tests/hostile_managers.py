"""Resource managers that misbehave in what they order, return and ask for, on machines and on free nodes.
They are named `tests.hostile_managers:name`; RULES has the rule that each breaks, or None."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from scheduler.model import DispatchOrder, Job, JobId, Share
from scheduler.node_set import NodeSet
from scheduler.rules import (
    COMPLETION_AS_EXPECTED,
    KNOWN_JOB,
    KNOWN_NODES,
    MAKES_PROGRESS,
    RAISES_NOTHING,
    RETURNS_A_SCHEDULE,
)
from sil.world.guard.faults import SchedulerFault
from tests.hostile import Endless, throw, without_end
from tests.one_at_a_time import OneAtATime

RULES: dict[str, str | None] = {}


def hostile(rule: str | None, kind: type[OneAtATime]) -> type[OneAtATime]:
    RULES[kind.__name__] = rule
    return kind


def ordering(name: str, rule: str | None, **values: Any) -> None:
    """A manager with these values in each order."""

    class Orders(OneAtATime):
        def order(self, job: Job) -> DispatchOrder:
            return super().order(job)._replace(**values)

    Orders.__name__ = Orders.__qualname__ = name
    globals()[name] = hostile(rule, Orders)


def with_attribute(name: str, rule: str | None, **values: Any) -> None:
    globals()[name] = hostile(rule, type(name, (OneAtATime,), values))


class EndlessShares(tuple[Any, ...]):
    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        return without_end(Share(0, 1))


for name, run, rule in [
    ("negative", -1, RETURNS_A_SCHEDULE),
    ("too_large", 2**53 + 1, RETURNS_A_SCHEDULE),
    ("beyond_all_tables", 10**30, RETURNS_A_SCHEDULE),
    ("true", True, RETURNS_A_SCHEDULE),
    ("a_float", 1.5, RETURNS_A_SCHEDULE),
    ("not_a_number", math.nan, RETURNS_A_SCHEDULE),
    ("a_text", "first", RETURNS_A_SCHEDULE),
    ("none", None, RETURNS_A_SCHEDULE),
]:
    ordering(f"run_is_{name}", rule, run=run)
for name, first in [("times", 4_000_000_000), ("large", 2**53 - 100)]:
    with_attribute(f"runs_are_{name}", None, first_run=first)
for name, resource in [("negative", -5), ("large", 2**62), ("a_float", 0.5), ("none", None), ("true", True)]:
    rule = RETURNS_A_SCHEDULE if type(resource) is not int or resource > 2**53 else KNOWN_NODES
    ordering(f"resource_is_{name}", rule, resource=resource, machines=(0,))
for name, machines, rule in [
    ("negative", (-5,), KNOWN_NODES),
    ("large", (2**40,), KNOWN_NODES),
    ("beyond_all_tables", (10**30,), RETURNS_A_SCHEDULE),
    ("empty", (), KNOWN_NODES),
    ("floats", (0.5,), RETURNS_A_SCHEDULE),
    ("texts", "0", RETURNS_A_SCHEDULE),
    ("true", (False,), RETURNS_A_SCHEDULE),
    ("none", None, RETURNS_A_SCHEDULE),
    ("number", 0, RETURNS_A_SCHEDULE),
    ("endless", Endless(0), RETURNS_A_SCHEDULE),
    ("twice", (0, 0), RETURNS_A_SCHEDULE),
    ("of_numpy", np.array([0.0]), RETURNS_A_SCHEDULE),
]:
    ordering(f"machines_are_{name}", rule, machines=machines)
for name, expected_s, rule in [
    ("not_a_number", math.nan, COMPLETION_AS_EXPECTED),
    ("infinite", math.inf, COMPLETION_AS_EXPECTED),
    ("negative", -1.0, COMPLETION_AS_EXPECTED),
    ("beyond_floats", 10**400, COMPLETION_AS_EXPECTED),
    ("a_text", "soon", COMPLETION_AS_EXPECTED),
    ("none", None, COMPLETION_AS_EXPECTED),
    ("of_numpy", np.float32(2.0), None),
    ("a_whole_number", 2, None),
]:
    ordering(f"expected_is_{name}", rule, expected_s=expected_s)


class SetOfItsOwn(NodeSet):
    """Its text is that of its own code."""

    def __str__(self) -> str:
        raise LookupError("mine")


class UnreadableSet(NodeSet):
    intervals = property(lambda self: throw(LookupError("mine")))  # type: ignore[assignment]

    def __init__(self) -> None:
        self.n = 1


class OrdersSets(OneAtATime):
    def order(self, job: Job) -> DispatchOrder:
        return super().order(job)._replace(machines=SetOfItsOwn(((0, job.n_tasks - 1),), job.n_tasks))


hostile(None, OrdersSets)
for name, nodes, rule in [
    ("unreadable", UnreadableSet(), RAISES_NOTHING),
    ("endless", NodeSet(Endless((0, 0)), 1), RETURNS_A_SCHEDULE),  # type: ignore[arg-type]
    ("overlapping", NodeSet(((0, 1), (1, 1)), 3), RETURNS_A_SCHEDULE),
    ("negative", NodeSet(((-3, -3),), 1), RETURNS_A_SCHEDULE),
    ("empty", NodeSet((), 1), KNOWN_NODES),
]:
    ordering(f"set_is_{name}", rule, machines=nodes)
ordering("shares_are_numbers", RETURNS_A_SCHEDULE, shares=(7,))
ordering("shares_are_endless", RETURNS_A_SCHEDULE, shares=EndlessShares())
ordering("gpus_are_endless", RETURNS_A_SCHEDULE, shares=((0, 1, Endless(0)),))
ordering("job_is_a_number", RETURNS_A_SCHEDULE, job=1)
ordering("job_is_unknown", KNOWN_JOB, job=Job(JobId(999), "any", 0.0), machines=(0,))
ordering("job_is_beyond_all_tables", RETURNS_A_SCHEDULE, job=Job(JobId(10**30), "any", 0.0))

for name, reason in [
    ("a_surrogate", "no \ud800"),
    ("long", "x" * 3_000_000),
    ("control_characters", "\x1b]0;owned\x07\x00"),
    ("empty", ""),
]:
    with_attribute(f"refuses_with_{name}", None, on_job_arrived=lambda self, job, reason=reason: reason)
for name, wanted in [("bytes", b"no"), ("false", False), ("a_list", ["no"])]:
    with_attribute(
        f"refuses_with_{name}", RETURNS_A_SCHEDULE, on_job_arrived=lambda self, job, wanted=wanted: wanted
    )

for name, at_s, rule in [
    ("infinite", math.inf, None),
    ("minus_infinity", -math.inf, RETURNS_A_SCHEDULE),
    ("beyond_floats", 10**400, RETURNS_A_SCHEDULE),
    ("not_a_number", math.nan, RETURNS_A_SCHEDULE),
    ("a_text", "soon", RETURNS_A_SCHEDULE),
]:
    with_attribute(f"wakes_at_{name}", rule, wakes_at_s=at_s)


def waking(name: str, rule: str | None, at_s: Callable[[float], float]) -> None:
    with_attribute(name, rule, wakes_at_s=property(lambda self: at_s(self.ports.clock.now_s)))


waking("wakes_at_the_next_number", MAKES_PROGRESS, lambda now_s: math.nextafter(now_s, math.inf))
waking("wakes_all_the_time", None, lambda now_s: now_s)
waking("wakes_each_millisecond", MAKES_PROGRESS, lambda now_s: now_s + 1e-3)
waking("wakes_in_turns", MAKES_PROGRESS, lambda now_s: now_s + (1e-9 if int(now_s * 1e9) % 2 else 1e-6))
waking("wakes_each_second", None, lambda now_s: now_s + 1.0)
waking("wakes_in_the_past", None, lambda now_s: now_s - 10.0)


def wanting(name: str, rule: str | None, wants: Any) -> None:
    with_attribute(name, rule, wants_round=property(wants, lambda self, wanted: None))


wanting("wants_rounds_all_the_time", MAKES_PROGRESS, lambda self: True)
wanting("wants_an_array", RAISES_NOTHING, lambda self: np.zeros(2))


class _Lies:
    def __bool__(self) -> bool:
        raise LookupError("neither")


wanting("wants_neither", RAISES_NOTHING, lambda self: _Lies())


class _EndlessReasons(dict[Any, Any]):
    def items(self) -> Any:
        return without_end((1, "x"))


def waiting(name: str, rule: str, why: Any) -> None:
    """It starts nothing, and is asked why."""
    with_attribute(name, rule, why_waiting=lambda self: why, start=lambda self, job: None)


waiting("waits_for_a_job_beyond_all_tables", MAKES_PROGRESS, {10**30: "x"})
waiting("waits_for_a_surrogate", MAKES_PROGRESS, {1: "\ud800"})
waiting("waits_for_names", RAISES_NOTHING, {"first": "x"})
waiting("waits_for_nothing", RAISES_NOTHING, None)
waiting("waits_without_end", MAKES_PROGRESS, _EndlessReasons({1: "x"}))


def doing(name: str, rule: str | None, deed: Callable[[Any], Any]) -> None:
    """Something in each round."""

    def run_round(self: Any) -> None:
        OneAtATime.run_round(self)
        deed(self)

    with_attribute(name, rule, run_round=run_round)


doing("preempts_what_does_not_run", None, lambda self: self.ports.dispatcher.preempt(77))
doing("preempts_beyond_all_tables", RAISES_NOTHING, lambda self: self.ports.dispatcher.preempt(10**30))
doing("preempts_a_text", RAISES_NOTHING, lambda self: self.ports.dispatcher.preempt("first"))
doing("dispatches_nothing", RETURNS_A_SCHEDULE, lambda self: self.ports.dispatcher.dispatch(None))
doing(
    "raises_a_fault_of_a_job_beyond_all_tables",
    RAISES_NOTHING,
    lambda self: throw(SchedulerFault("rule", "text", 0.0, JobId(10**30))),
)
doing("exits", RAISES_NOTHING, lambda self: throw(SystemExit(0)))
