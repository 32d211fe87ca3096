"""How the nodes of a site are connected, as far as it decides which of them a job gets together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from scheduler.node_resources.core.codes import NONE
from scheduler.node_resources.core.switches import Switches


@dataclass(frozen=True)
class Topology:
    """Leaf switches or base blocks by name, which nodes state (`Node.switch`), and the switches or blocks
    `above` them: the level of each, and the places of the leaves below it. Of equal ones the first is
    preferred.

    * `block_sizes`: the nodes of a block of each level, for planning; empty: these are switches.
    * `is_optional`: only jobs that limit their leaf switches are placed by switches (`TopoOptional`).
    * `max_wait_s`: how long a job waits for few leaf switches, at most (`max_switch_wait`).
    """

    leaves: tuple[str, ...]
    above: tuple[tuple[int, frozenset[int]], ...] = ()
    block_sizes: tuple[int, ...] = ()
    is_optional: bool = False
    max_wait_s: float = 300.0

    @classmethod
    def of_blocks(cls, names: Sequence[str], sizes: Sequence[int]) -> Self:
        """Base blocks, aggregated ones of as many consecutive ones as have each of the `sizes`, and one of
        all. Of equal ones Slurm prefers the last."""
        n = len(names)
        above = [
            (level, frozenset(n - 1 - x for x in range(begin, min(begin + step, n))))
            for level, step in enumerate((*(size // sizes[0] for size in sizes[1:]), n), start=1)
            for begin in range(0, n, step)
        ]
        return cls((*reversed(names),), (*reversed(above),), (*sizes,))

    def connect(self, switch_of: Sequence[str]) -> Switches:
        """The switches of nodes, in order, of which each has a leaf."""
        place, n = {name: x for x, name in enumerate(self.leaves)}, len(self.leaves)
        levels, leaves = zip(*((0, frozenset({x})) for x in range(n)), *self.above, strict=True)
        has = np.array([[x in each for x in range(n)] for each in leaves])
        leaf_of = np.array([place.get(name, NONE) for name in switch_of])
        return Switches(leaf_of, np.array(levels), has, np.array(self.block_sizes, np.int64))
