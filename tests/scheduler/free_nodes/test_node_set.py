"""Sets of nodes as intervals do what plain sets of numbers do."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.free_intervals import FreeIntervals
from scheduler.free_nodes.identical_nodes import FreeNodes
from scheduler.model import Job, JobId, RunId, Start
from scheduler.node_set import NodeSet

MOST = 30
nodes = st.sets(st.integers(0, MOST - 1))


def is_canonical(intervals: list[tuple[int, int]]) -> bool:
    """In ascending order, none empty, and none touching the next."""
    whole = all(first <= last for first, last in intervals)
    return whole and all(b[0] > a[1] + 1 for a, b in pairwise(intervals))


@given(nodes)
def test_a_node_set_is_a_sorted_sequence_of_nodes(numbers: set[int]) -> None:
    held = NodeSet.of(numbers)
    assert list(held) == sorted(numbers)
    assert (len(held), held.n) == (len(numbers), len(numbers))
    assert [n for n in range(-1, MOST + 1) if n in held] == sorted(numbers)
    assert is_canonical(list(held.intervals))
    assert list(held[1:4]) == sorted(numbers)[1:4]
    assert not numbers or held[-1] == max(numbers)


@given(nodes, nodes)
def test_node_sets_with_the_same_nodes_are_equal(one: set[int], other: set[int]) -> None:
    a, b = NodeSet.of(sorted(one, reverse=True)), NodeSet.of(other)
    assert (a == b) == (one == other)
    assert a == NodeSet.of(a)
    assert hash(a) == hash(NodeSet.of(one))


@given(nodes)
def test_a_node_set_round_trips_through_text(numbers: set[int]) -> None:
    held = NodeSet.of(numbers)
    assert NodeSet.parse(str(held)) == held
    assert NodeSet.parse(str(held)).n == held.n


def test_the_text_format_is_that_of_batsim() -> None:
    assert str(NodeSet.of([5, 2, 0, 1, 3])) == "0-3 5"
    assert str(NodeSet.of([])) == ""
    assert NodeSet.parse("7") == NodeSet.of([7])


def test_a_duplicate_node_is_rejected() -> None:
    with pytest.raises(ValueError, match="node 4 is named twice"):
        NodeSet.of([4, 2, 4])


@pytest.mark.parametrize("text", ["a", "1-b", "1.5", "-3"])
def test_text_without_nodes_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        NodeSet.parse(text)


@given(st.sets(st.integers(-2, MOST + 2)), st.integers(0, MOST))
def test_a_node_set_fits_within_a_machine_that_has_all_its_nodes(numbers: set[int], n_nodes: int) -> None:
    assert NodeSet.of(numbers).within(n_nodes) == (numbers <= set(range(n_nodes)))


def occupy(nodes: FreeNodes, number: int, taken: set[int]) -> None:
    """A run of a job of this number holds these nodes."""
    nodes.wait(Job(JobId(number), "rigid", 0.0, n_tasks=len(taken)), None, 1.0)
    nodes.start(RunId(number), JobId(number), Start(0, NodeSet.of(taken), 1.0), 0.0)


@given(st.data(), st.integers(1, MOST), st.integers(1, 25))
def test_free_nodes_behave_like_a_set_while_runs_come_and_go_and_nodes_fail(
    data: st.DataObject, n_nodes: int, steps: int
) -> None:
    nodes, down = FreeNodes(n_nodes), set[int]()
    real, held = nodes.free, dict[int, set[int]]()
    for number in range(steps):
        free = set(range(n_nodes)) - down - set().union(*held.values())
        what = data.draw(st.sampled_from(["start", "start", "end", "up or down"]))
        if what == "end" and held:
            run = data.draw(st.sampled_from(sorted(held)), "which")
            nodes.end(RunId(run), 0.0)
            free |= held.pop(run) - down
        elif what == "start" and free:
            held[number] = data.draw(st.sets(st.sampled_from(sorted(free)), min_size=1), "taken")
            occupy(nodes, number, held[number])
            free -= held[number]
        elif what == "up or down":
            node, is_up = data.draw(st.integers(0, n_nodes - 1)), data.draw(st.booleans())
            nodes.set_available(node, is_up)
            (down.discard if is_up else down.add)(node)
            free = set(range(n_nodes)) - down - set().union(*held.values())
        assert {n for first, last in real.intervals for n in range(first, last + 1)} == free
        assert real.n == len(free)
        assert is_canonical(real.intervals)


def freed(n_nodes: int, taken: set[int]) -> FreeIntervals:
    nodes = FreeNodes(n_nodes)
    if taken:
        occupy(nodes, 0, taken)
    return nodes.free


@given(nodes, nodes)
def test_a_free_set_contains_a_set_of_free_nodes(taken: set[int], asked: set[int]) -> None:
    assert freed(MOST, taken).has(NodeSet.of(asked)) == (not asked & taken)


@pytest.mark.parametrize("node", [MOST, 2**62, 2**63 - 1, 2**64])
def test_a_free_set_does_not_contain_a_missing_node(node: int) -> None:
    assert not freed(MOST, set()).has(NodeSet.of([node]))


@given(nodes, st.data())
def test_free_nodes_are_allocated_from_the_lowest_number(taken: set[int], data: st.DataObject) -> None:
    free, left = freed(MOST, taken), sorted(set(range(MOST)) - taken)
    in_order = free.in_order()
    while left and data.draw(st.booleans()):
        n = data.draw(st.integers(1, len(left)))
        handed_out = in_order.next(n)
        assert handed_out == NodeSet.of(left[:n])
        assert handed_out.n == n
        left = left[n:]
    assert free.intervals == freed(MOST, taken).intervals, "they are not taken by that"


def test_no_more_nodes_are_handed_out_than_are_free() -> None:
    in_order = freed(4, {1}).in_order()
    assert in_order.next(2) == NodeSet.of([0, 2])
    with pytest.raises(IndexError, match="2 free nodes are asked for, and 1 are left"):
        in_order.next(2)


def test_each_allocation_goes_on_where_the_last_one_ended() -> None:
    """Had each walked from the first node on, this would take minutes."""
    free = freed(200_000, set(range(1, 200_000, 2)))
    in_order = free.in_order()
    for k in range(50_000):
        assert in_order.next(2) == NodeSet(((4 * k, 4 * k), (4 * k + 2, 4 * k + 2)), 2)
