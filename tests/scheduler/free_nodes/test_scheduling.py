"""FCFS, SJF, EASY and EASY-SJBF: worked by hand, and compiled as in plain words."""

from __future__ import annotations

from itertools import cycle, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import registry
from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.free_nodes.rigid import Backfilling, Ordering, Rigid
from scheduler.model import RunId
from scheduler.testing.rigid import FreeNodesOutline, free_nodes_outlines, larger_on_free_nodes
from tests.examples import up_to
from tests.scheduler.free_nodes.reference import ReferencePass

POLICIES = list(product(Ordering, Backfilling))
Jobs = list[tuple[int, float]]
"""(nodes, seconds) of each, in order."""


def problem(n_nodes: int, running: Jobs, waiting: Jobs, now_s: float = 100.0) -> FreeNodesProblem:
    """Those that run hold the nodes of the lowest numbers, and end after so many seconds."""
    return FreeNodesOutline(n_nodes, 0, tuple(running), tuple(waiting), now_s).build(1)


def started(name: str, asked: FreeNodesProblem) -> dict[int, str]:
    """job -> nodes, in the order in which they start"""
    return {p.job: str(p.nodes) for p in registry.resolve(name).make().schedule(asked).starts}


def with_deadlines(outline: FreeNodesOutline, limits_s: list[float | None]) -> FreeNodesProblem:
    """The waiting jobs have these limits, in turn; no laxities are equal but for rounding."""
    asked = outline.build(1)
    nodes, jobs = asked.free_nodes, list(asked.jobs)
    for job, limit_s in zip(jobs, cycle(limits_s), strict=False):
        estimate_s = nodes.waiting.estimate_s(job.id)
        nodes.waiting.withdraw(job.id)
        limit_s = None if limit_s is None else limit_s + outline.now_s - job.arrival_s
        nodes.wait(job._replace(limit_s=limit_s), None, estimate_s)
    return asked


limits = st.lists(st.none() | st.integers(1, 60).map(float), min_size=1, max_size=5)


@pytest.mark.parametrize(("ordering", "backfilling"), POLICIES)
@given(outline=free_nodes_outlines(most_down=0), limits_s=limits)
@settings(max_examples=up_to(80))
def test_every_policy_equals_the_reference(
    ordering: str, backfilling: str, outline: FreeNodesOutline, limits_s: list[float | None]
) -> None:
    schedule = Rigid(ordering, backfilling).schedule(with_deadlines(outline, limits_s))
    reference = ReferencePass.of(with_deadlines(outline, limits_s))
    assert list(schedule.starts) == reference.decide(ordering, backfilling)
    left = set(range(len(outline.waiting))) - {placement.job for placement in schedule.starts}
    assert set(schedule.wait_reasons) == left


@pytest.mark.parametrize(("ordering", "backfilling"), POLICIES)
def test_larger_queues_are_scheduled_as_by_the_reference(ordering: str, backfilling: str) -> None:
    for outline in larger_on_free_nodes():
        schedule = Rigid(ordering, backfilling).schedule(outline.build(1))
        assert list(schedule.starts) == ReferencePass.of(outline.build(1)).decide(ordering, backfilling)


@given(st.lists(free_nodes_outlines(), min_size=2, max_size=5), st.sampled_from(POLICIES))
def test_a_pass_leaves_no_state_for_the_next(
    outlines: list[FreeNodesOutline], policy: tuple[str, str]
) -> None:
    one = Rigid(*policy)
    for outline in outlines:
        assert one.schedule(outline.build(1)).starts == Rigid(*policy).schedule(outline.build(1)).starts


@given(free_nodes_outlines(most_down=0), st.sampled_from(POLICIES))
def test_a_second_pass_at_the_same_time_starts_nothing(
    outline: FreeNodesOutline, policy: tuple[str, str]
) -> None:
    first, scheduler = outline.build(1), Rigid(*policy)
    view, jobs = first.free_nodes, list(first.jobs)
    for run, placement in enumerate(scheduler.schedule(first).starts, start=100):
        view.start(RunId(run), jobs[placement.job].id, placement, first.now_s)
    again = FreeNodesProblem(first.now_s, view)
    assert scheduler.schedule(again).starts == ()


R = [(2, 10.0)]  # runs on the first two nodes for 10 s
SPARE = [(4, 60.0), (4, 5.0), (1, 99.0), (2, 98.0), (1, 97.0), (1, 10.0), (1, 1.0)]
SHORT = [(3, 60.0), (1, 9.0), (1, 5.0), (1, 5.0)]
LONG = [(2, 60.0), (2, 5.0), (1, 9.0)]
SHORTEST_FIRST = [(1, 60.0), (2, 5.0), (1, 9.0)]


@pytest.mark.parametrize(
    ("name", "n_nodes", "running", "waiting", "starts"),
    [
        pytest.param(*case, id=what)
        for what, *case in [
            ("fcfs: no job overtakes", "fcfs", 5, R, [(2, 50.0), (2, 50.0), (1, 1.0)], {0: "2-3"}),
            (
                "a job that ends by the reservation",
                "easy",
                4,
                R,
                [(4, 60.0), (1, 11.0), (2, 10.0)],
                {2: "2-3"},
            ),
            ("sjbf: the same", "easy_sjbf", 4, R, [(4, 60.0), (1, 11.0), (2, 10.0)], {2: "2-3"}),
            # After 10 s, two nodes are spare. Job 2 takes one for long, and job 4 the other; job 3 needs two.
            ("spare nodes are used up", "easy", 6, [(3, 10.0)], SPARE, {2: "3", 4: "4", 5: "5"}),
            ("who ends in time uses none", "easy", 4, R, [(3, 60.0), (1, 10.0), (1, 99.0)], {1: "2", 2: "3"}),
            # Of nodes that are released just then, one is spare; a moment later, none is.
            ("just then", "easy", 4, [*R, (1, 10.0)], [(3, 60.0), (1, 99.0)], {1: "3"}),
            ("a moment later", "easy", 4, [*R, (1, 10.5)], [(3, 60.0), (1, 99.0)], {}),
            # Job 0 starts and ends after 5 s, when job 1 has its nodes: job 2 would delay it by taking 6 s.
            ("jobs of this pass delay", "easy", 4, R, [(1, 5.0), (2, 60.0), (1, 6.0)], {0: "2"}),
            ("or not", "easy", 4, R, [(1, 5.0), (2, 60.0), (1, 5.0)], {0: "2", 2: "3"}),
            ("overdue runs end now", "easy", 4, [(2, -3.0)], [(3, 60.0), (2, 1.0), (1, 99.0)], {2: "2"}),
            ("easy: the first that may", "easy", 3, R, SHORT, {1: "2"}),
            ("sjbf: the shortest, then the earliest", "easy_sjbf", 3, R, SHORT, {2: "2"}),
            (
                "sjbf: the longest may be first",
                "easy_sjbf",
                3,
                [],
                [(2, 60.0), (2, 5.0), (1, 9.0)],
                {0: "0-1", 2: "2"},
            ),
            ("sjf: no job overtakes", "sjf", 3, R, SHORTEST_FIRST, {}),
            ("sjf with easy", "rigid(ordering=sjf, backfilling=easy)", 3, R, SHORTEST_FIRST, {0: "2"}),
            ("sjf with sjbf", "rigid(ordering=sjf, backfilling=easy_sjbf)", 3, R, SHORTEST_FIRST, {2: "2"}),
        ]
    ],
)
def test_these_jobs_start_on_the_lowest_nodes(
    name: str, n_nodes: int, running: Jobs, waiting: Jobs, starts: dict[int, str]
) -> None:
    assert started(name, problem(n_nodes, running, waiting)) == starts


def test_sjf_orders_by_estimate_and_breaks_ties_by_arrival() -> None:
    waiting = [(1, 60.0), (1, 5.0), (1, 9.0), (1, 5.0)]
    assert list(started("sjf", problem(3, [], waiting))) == [1, 3, 2]


def test_the_lowest_free_nodes_are_allocated_even_if_not_contiguous() -> None:
    asked = problem(8, [(1, 10.0), (2, 10.0), (2, 10.0)], [(3, 5.0), (2, 5.0)])
    run = next(run for run, running in asked.running.items() if len(running.machines) == 1)
    asked.free_nodes.end(run, asked.now_s)
    assert started("fcfs", asked) == {0: "0 5-6"}
