"""FCFS, SJF, EASY and EASY-SJBF: worked by hand, and compiled as in plain words."""

from __future__ import annotations

from itertools import product

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


@pytest.mark.parametrize(("ordering", "backfilling"), POLICIES)
@given(outline=free_nodes_outlines(most_down=0))
@settings(max_examples=up_to(80))
def test_every_policy_equals_the_reference(
    ordering: str, backfilling: str, outline: FreeNodesOutline
) -> None:
    schedule = Rigid(ordering, backfilling).schedule(outline.build(1))
    assert list(schedule.starts) == ReferencePass(outline.build(1)).decide(ordering, backfilling)
    left = set(range(len(outline.waiting))) - {placement.job for placement in schedule.starts}
    assert set(schedule.wait_reasons) == left


@pytest.mark.parametrize(("ordering", "backfilling"), POLICIES)
def test_larger_queues_are_scheduled_as_by_the_reference(ordering: str, backfilling: str) -> None:
    for outline in larger_on_free_nodes():
        schedule = Rigid(ordering, backfilling).schedule(outline.build(1))
        assert list(schedule.starts) == ReferencePass(outline.build(1)).decide(ordering, backfilling)


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


# node 4 |            |      R has two of five nodes. A takes two of the others; for B, one is too few;
#      3 |AAAAAAAAAAAA|      C would fit, but comes after B.
#      2 |AAAAAAAAAAAA|
#      1 |rrrrr       |
#      0 |rrrrr       |
def test_fcfs_starts_in_queue_order_without_overtaking() -> None:
    assert started("fcfs", problem(5, [(2, 10.0)], [(2, 50.0), (2, 50.0), (1, 1.0)])) == {0: "2-3"}


# node 3 |CCCCCAAAA   |      R ends after 10 s; then A has its four nodes, and none is spare.
#      2 |CCCCCAAAA   |      B (11 s) would delay it; C ends just by then and starts.
#      1 |rrrrrAAAA   |
#      0 |rrrrrAAAA   |
@pytest.mark.parametrize("name", ["easy", "easy_sjbf"])
def test_a_job_that_ends_before_the_first_reservation_is_backfilled(name: str) -> None:
    asked = problem(4, [(2, 10.0)], [(4, 60.0), (1, 11.0), (2, 10.0)])
    assert started(name, asked) == {2: "2-3"}


# node 5 |FFFFFAAAA   |      After 10 s A has its four nodes, and two are spare. B is too large. C takes one
#      4 |EEEEEEEEEEEE|      of the spare ones for long. D needs two and finds only one that is spare, though
#      3 |CCCCCCCCCCCC|      two are free; E takes that one. F ends in time, on the last that is free; for G
#    0-2 |rrrrrAAAA   |      none is.
def test_a_backfilled_job_that_ends_later_uses_spare_nodes() -> None:
    waiting = [(4, 60.0), (4, 5.0), (1, 99.0), (2, 98.0), (1, 97.0), (1, 10.0), (1, 1.0)]
    assert started("easy", problem(6, [(3, 10.0)], waiting)) == {2: "3", 4: "4", 5: "5"}


def test_a_backfilled_job_that_ends_in_time_uses_no_spare_nodes() -> None:
    """One node is spare at the reservation: the first ends by then, the second takes it."""
    asked = problem(4, [(2, 10.0)], [(3, 60.0), (1, 10.0), (1, 99.0)])
    assert started("easy", asked) == {1: "2", 2: "3"}


# node 3 |BBBBBBBBBBBB|      R and S end at the same moment. A needs three nodes: R's two and the free one
#      2 |sssssAAAA   |      would be enough. But S's is released just then, too, so one node is spare, and
#      1 |rrrrrAAAA   |      B takes it for long.
#      0 |rrrrrAAAA   |
def test_nodes_released_exactly_at_the_reservation_time_count_as_available() -> None:
    asked = problem(4, [(2, 10.0), (1, 10.0)], [(3, 60.0), (1, 99.0)])
    assert started("easy", asked) == {1: "3"}
    a_moment_later = problem(4, [(2, 10.0), (1, 10.5)], [(3, 60.0), (1, 99.0)])
    assert started("easy", a_moment_later) == {}


def test_jobs_started_in_the_same_pass_affect_the_reservation() -> None:
    """A starts and ends after 5 s; B has its nodes then and not after 10 s only, so C (6 s) delays it."""
    assert started("easy", problem(4, [(2, 10.0)], [(1, 5.0), (2, 60.0), (1, 6.0)])) == {0: "2"}
    assert started("easy", problem(4, [(2, 10.0)], [(1, 5.0), (2, 60.0), (1, 5.0)])) == {0: "2", 2: "3"}


def test_an_overdue_run_is_estimated_to_end_now() -> None:
    """Its node is reserved from now on: no run ends by then, but one node is spare."""
    overdue = problem(4, [(2, -3.0)], [(3, 60.0), (2, 1.0), (1, 99.0)])
    assert started("easy", overdue) == {2: "2"}


def test_sjbf_backfills_the_shortest_job_first_and_breaks_ties_by_arrival() -> None:
    """One node is free, and it is spare."""
    waiting = [(3, 60.0), (1, 9.0), (1, 5.0), (1, 5.0)]
    asked = problem(3, [(2, 10.0)], waiting)
    assert started("easy", asked) == {1: "2"}
    assert started("easy_sjbf", asked) == {2: "2"}


def test_sjbf_keeps_the_first_job_at_the_head_of_the_queue() -> None:
    """The first is the longest, and starts all the same."""
    assert started("easy_sjbf", problem(3, [], [(2, 60.0), (2, 5.0), (1, 9.0)])) == {0: "0-1", 2: "2"}


def test_sjf_orders_by_estimate_and_breaks_ties_by_arrival() -> None:
    waiting = [(1, 60.0), (1, 5.0), (1, 9.0), (1, 5.0)]
    assert list(started("sjf", problem(3, [], waiting))) == [1, 3, 2]


def test_sjf_without_backfilling_stops_at_the_first_job_that_does_not_fit() -> None:
    asked = problem(3, [(2, 10.0)], [(1, 60.0), (2, 5.0), (1, 9.0)])
    assert started("sjf", asked) == {}
    assert started("rigid(ordering=sjf, backfilling=easy)", asked) == {0: "2"}, "one node is spare"
    assert started("rigid(ordering=sjf, backfilling=easy_sjbf)", asked) == {2: "2"}


def test_the_lowest_free_nodes_are_allocated_even_if_not_contiguous() -> None:
    asked = problem(8, [(1, 10.0), (2, 10.0), (2, 10.0)], [(3, 5.0), (2, 5.0)])
    asked.free_nodes.end(next(run for run, running in asked.running.items() if len(running.machines) == 1))
    assert started("fcfs", asked) == {0: "0 5-6"}
