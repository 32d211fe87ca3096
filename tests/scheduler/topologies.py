"""Small random networks, and on which leaves the nodes of a job are."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import strategies as st

from scheduler.node_resources.topology import Topology

Tree = list["Tree"] | int
"""A switch with those below it, or a leaf switch with a number of nodes."""


def trees(most_levels: int) -> st.SearchStrategy[Tree]:
    leaves: st.SearchStrategy[Tree] = st.integers(0, 3)
    found = leaves
    for _ in range(most_levels):
        found = st.lists(found, min_size=1, max_size=3)
    return st.lists(found | leaves, min_size=1, max_size=3).filter(lambda tree: 1 <= size_of(tree) <= 9)


def size_of(tree: Tree) -> int:
    return tree if isinstance(tree, int) else sum(map(size_of, tree))


def topology_of(tree: Tree) -> tuple[Topology, list[str]]:
    """The topology, and the leaf switch of each node."""
    leaves, switches, nodes = list[str](), list[tuple[int, frozenset[int]]](), list[str]()

    def add(part: Tree) -> tuple[int, frozenset[int]]:
        if isinstance(part, int):
            leaves.append(f"s{len(leaves)}")
            nodes.extend([leaves[-1]] * part)
            return 0, frozenset({len(leaves) - 1})
        levels, below = zip(*map(add, part), strict=True)
        switches.append((1 + max(levels), frozenset[int]().union(*below)))
        return switches[-1]

    add(tree)
    return Topology(tuple(leaves), tuple(switches)), nodes


def lowest_switch(topology: Topology, leaves: Collection[str]) -> tuple[int, set[str]]:
    """The level of the lowest switch that all of these leaves have, and its leaves."""
    if len({*leaves}) == 1:
        return 0, {*leaves}
    places = {topology.leaves.index(leaf) for leaf in leaves}
    level, _, below = min((level, len(x), sorted(x)) for level, x in topology.above if x >= places)
    return level, {topology.leaves[x] for x in below}
