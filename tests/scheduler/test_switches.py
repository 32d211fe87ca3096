"""Which nodes jobs get on switches and blocks, as in Slurm's topology/tree and topology/block."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.node_request import Node, Request
from scheduler.node_resources.selection import SELECTIONS, Placement, selection_by_name
from scheduler.node_resources.state import NodeResources
from scheduler.node_resources.topology import Topology
from tests.scheduler.topologies import Tree, lowest_switch, topology_of, trees


def chosen(
    topology: Topology, leaf_of: Sequence[str], busy: set[int], n: int, selection: str = "first_fit"
) -> list[int] | None:
    """The nodes of a job that requests n of them."""
    nodes = NodeResources([Node(1, switch=leaf) for leaf in leaf_of], topology=topology)
    kind = nodes.kind_of(Request(n))
    if busy:
        nodes.state.take_all_of(kind, np.array([(node, 1, 0) for node in busy]))
    rows = Placement(nodes, selection_by_name(selection)).place(kind, n)
    return None if rows is None else sorted(rows[:, 0].tolist())


def busy_nodes(leaf_of: Sequence[str], data: st.DataObject) -> tuple[set[int], list[int], int]:
    """Some nodes, the others, and how many of these a job requests."""
    busy = data.draw(st.sets(st.integers(0, len(leaf_of) - 1), max_size=len(leaf_of) - 1))
    free = [node for node in range(len(leaf_of)) if node not in busy]
    return busy, free, data.draw(st.integers(1, len(free)))


@given(trees(2), st.data())
def test_a_job_is_below_the_lowest_switch_that_holds_it_on_the_fewest_leaf_switches(
    tree: Tree, data: st.DataObject
) -> None:
    """Of all sets of free nodes, none is below a lower switch, or one of its level with fewer free nodes, or
    there on fewer leaf switches."""
    topology, leaf_of = topology_of(tree)
    busy, free, n = busy_nodes(leaf_of, data)
    found = chosen(topology, leaf_of, busy, n, data.draw(st.sampled_from([*SELECTIONS])))
    assert found is not None

    def rank(nodes: Sequence[int]) -> tuple[int, int, int]:
        on = {leaf_of[node] for node in nodes}
        level, leaves = lowest_switch(topology, on)
        return level, sum(leaf_of[node] in leaves for node in free), len(on)

    assert rank(found) == min(map(rank, combinations(free, n)))


THREE_LEVELS = Topology(
    ("s0", "s1", "s2", "s3"), ((1, frozenset({0, 1})), (1, frozenset({2, 3})), (2, frozenset({0, 1, 2, 3})))
)
"""The first example of Slurm's topology guide: tux0 and tux1 on s0, and so on; s4 and s5 above; s6."""
ON_THREE_LEVELS = [f"s{node // 2}" for node in range(8)]


@pytest.mark.parametrize(
    ("busy", "n", "nodes"),
    [
        (set(), 2, [0, 1]),  # a leaf switch holds it
        ({0}, 2, [2, 3]),  # another one does
        ({0}, 1, [1]),  # where the least is free
        ({0, 2}, 2, [4, 5]),
        ({0, 2, 4, 6}, 2, [1, 3]),  # no leaf switch, but s4
        ({0}, 3, [1, 2, 3]),  # s4, where less is free than below s5
        ({0, 1, 2}, 3, [4, 5, 6]),
        ({0}, 5, [1, 2, 3, 4, 5]),  # s6: whole leaf switches, and the rest where the least is free
        ({0, 1}, 7, None),
    ],
)
def test_the_example_of_slurms_topology_guide(busy: set[int], n: int, nodes: list[int] | None) -> None:
    assert chosen(THREE_LEVELS, ON_THREE_LEVELS, busy, n) == nodes


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=9),
    st.sampled_from([(1,), (2,), (1, 2), (1, 4), (2, 4), (2, 8), (1, 2, 4), (1, 2, 8), (1, 4, 8)]),
    st.data(),
)
def test_a_job_in_blocks_has_the_base_blocks_of_slurms_search(
    sizes: list[int], block_sizes: tuple[int, ...], data: st.DataObject
) -> None:
    names = [f"b{x}" for x in range(len(sizes))]
    leaf_of = [name for name, size in zip(names, sizes, strict=True) for _ in range(size)]
    busy, free, n = busy_nodes(leaf_of, data)
    smaller = [x for x in block_sizes if x == block_sizes[0] or x < block_sizes[0] * len(sizes)]  # as read
    found = chosen(Topology.of_blocks(names, smaller), leaf_of, busy, n)
    left = [sum(leaf_of[node] == name for node in free) for name in names]
    there = None if found is None else [sum(leaf_of[node] == name for node in found) for name in names]
    assert there == base_blocks(left, block_sizes, n)


def base_blocks(free: list[int], sizes: Sequence[int], n: int) -> list[int] | None:
    """How many nodes of each base block a job of n nodes gets, as Slurm's topology/block says: those of one
    aligned group of base blocks, which are as many as the least size that suffices has; of the groups that
    have enough in as few of their parts as the number of nodes needs, the last one with the fewest. There,
    the parts, and in them the base blocks, that hold the rest with the fewest nodes, or else have most."""
    steps = [size // sizes[0] for size in sizes if size < sizes[0] * len(free) or size == sizes[0]]
    needed = ceil(n / sizes[0])
    step = next((step for step in steps if step >= needed), len(free))
    parts = max([x for x in steps if x < step and x < needed], default=1)
    most_parts = ceil(n / (parts * sizes[0]))
    groups = [range(x, min(x + step, len(free))) for x in range(0, len(free), step)]

    def parts_of(group: range) -> list[range]:
        return [range(x, min(x + parts, group.stop)) for x in range(group.start, group.stop, parts)]

    def room(of: range) -> int:
        return sum(free[x] for x in of)

    able = [group for group in groups if sum(sorted(map(room, parts_of(group)))[-most_parts:]) >= n]
    if not able:
        return None
    group = min(reversed(able), key=room)
    gets, left = [0] * len(free), n
    while left:
        part = _next([x for x in parts_of(group) if any(free[y] > gets[y] for y in x)], room, left)
        in_part = min(left, room(part))
        while in_part:
            block = _next([range(x, x + 1) for x in part if not gets[x]], room, left)
            here = min(free[block.start], in_part)
            gets[block.start], in_part, left = here, in_part - here, left - here
            if not here:
                break
    return gets


def _next(parts: list[range], room, left: int) -> range:  # type: ignore[no-untyped-def]
    holding = [part for part in reversed(parts) if room(part) >= left]
    return min(holding, key=room) if holding else max(reversed(parts), key=room)
