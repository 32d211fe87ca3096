"""Sets of nodes as intervals do what plain sets of numbers do."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scheduler.node_set import FreeSet, NodeSet

MOST = 30
nodes = st.sets(st.integers(0, MOST - 1))


def is_canonical(intervals: list[tuple[int, int]]) -> bool:
    """In ascending order, none empty, and none touching the next."""
    whole = all(first <= last for first, last in intervals)
    return whole and all(b[0] > a[1] + 1 for a, b in pairwise(intervals))


@given(nodes)
def test_a_node_set_is_the_sequence_of_its_nodes_in_ascending_order(numbers: set[int]) -> None:
    held = NodeSet.of(numbers)
    assert list(held) == sorted(numbers)
    assert (len(held), held.n) == (len(numbers), len(numbers))
    assert [n for n in range(-1, MOST + 1) if n in held] == sorted(numbers)
    assert is_canonical(list(held.intervals))
    assert list(held[1:4]) == sorted(numbers)[1:4]
    assert not numbers or held[-1] == max(numbers)


@given(nodes, nodes)
def test_two_node_sets_are_equal_where_their_nodes_are(one: set[int], other: set[int]) -> None:
    a, b = NodeSet.of(sorted(one, reverse=True)), NodeSet.of(other)
    assert (a == b) == (one == other)
    assert a == NodeSet.of(a)
    assert hash(a) == hash(NodeSet.of(one))


@given(nodes)
def test_what_a_node_set_is_as_text_is_read_as_the_same_set(numbers: set[int]) -> None:
    held = NodeSet.of(numbers)
    assert NodeSet.parse(str(held)) == held
    assert NodeSet.parse(str(held)).n == held.n


def test_the_text_is_that_of_batsim() -> None:
    assert str(NodeSet.of([5, 2, 0, 1, 3])) == "0-3 5"
    assert str(NodeSet.of([])) == ""
    assert NodeSet.parse("7") == NodeSet.of([7])


def test_a_node_that_is_named_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="node 4 is named twice"):
        NodeSet.of([4, 2, 4])


@pytest.mark.parametrize("text", ["a", "1-b", "1.5", "-3"])
def test_a_text_that_names_no_nodes_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        NodeSet.parse(text)


@given(st.sets(st.integers(-2, MOST + 2)), st.integers(0, MOST))
def test_a_node_set_is_within_a_machine_that_has_all_its_nodes(numbers: set[int], n_nodes: int) -> None:
    assert NodeSet.of(numbers).within(n_nodes) == (numbers <= set(range(n_nodes)))


@given(st.data(), st.integers(0, MOST), st.integers(1, 25))
def test_a_free_set_is_a_set_that_is_taken_from_and_given_back_to(
    data: st.DataObject, n_nodes: int, steps: int
) -> None:
    real, free = FreeSet(n_nodes), set(range(n_nodes))
    held: list[set[int]] = []
    for _ in range(steps):
        gives_back: bool = data.draw(st.booleans(), "give back")
        if held and gives_back:
            back = held.pop(data.draw(st.integers(0, len(held) - 1), "which"))
            real.give_back(NodeSet.of(back))
            free |= back
        else:
            taken = {n for n in sorted(free) if data.draw(st.booleans(), f"take {n}")}
            real.take(NodeSet.of(taken))
            free -= taken
            held.append(taken)
        assert {n for first, last in real.intervals for n in range(first, last + 1)} == free
        assert real.n == len(free)
        assert is_canonical(real.intervals)


def freed(n_nodes: int, taken: set[int]) -> FreeSet:
    free = FreeSet(n_nodes)
    free.take(NodeSet.of(taken))
    return free


@given(nodes, nodes)
def test_a_free_set_has_a_set_whose_nodes_are_all_free(taken: set[int], asked: set[int]) -> None:
    assert freed(MOST, taken).has(NodeSet.of(asked)) == (not asked & taken)


@given(nodes, st.data())
def test_the_lowest_nodes_are_those_of_the_lowest_numbers_after_those_passed_over(
    taken: set[int], data: st.DataObject
) -> None:
    free = sorted(set(range(MOST)) - taken)
    assume(free)
    passed_over = data.draw(st.integers(0, len(free) - 1))
    n = data.draw(st.integers(1, len(free) - passed_over))
    lowest = freed(MOST, taken).lowest(n, passed_over)
    assert lowest == NodeSet.of(free[passed_over : passed_over + n])
    assert lowest.n == n
