"""Blocks of job classes that are about as long: what holds for a block's row need not be asked of each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.compiled import FixedFloats2, Floats, Floats2, Ints, compiled, inlined
from scheduler.mapping.kernels.table import Table

FEW = 256
"""So many job classes are not worth blocks."""

MEMBERS = 16
"""Job classes in a block."""


class Blocks(NamedTuple):
    """B blocks of job classes. In each cell the longest time of all in the block: none is done any later."""

    row_s: FixedFloats2  # (B, K)
    members: Ints  # (C,) block by block
    first: Ints  # (B + 1,)


def blocks_of(table: Table, in_order: NDArray[np.int64]) -> Blocks:
    """Blocks of neighbours in the order given."""
    n_job_classes, n_machine_classes = table.by_job_class_s.shape
    n_blocks = n_job_classes // MEMBERS if n_job_classes > FEW else 0
    first = np.arange(n_blocks + 1) * len(in_order) // max(1, n_blocks)
    row_s = np.empty((n_blocks, n_machine_classes))
    _longest(table.by_job_class_s, in_order, first, row_s)
    row_s.flags.writeable = False
    return Blocks(row_s, in_order, first)


@inlined
def row_of(table: Table, blocks: Blocks, c: int) -> Floats:
    """The times of a job class, or of block c - C."""
    n = len(table.by_job_class_s)
    row_s: Floats = table.by_job_class_s[c] if c < n else blocks.row_s[c - n]
    return row_s


@compiled
def _longest(times_s: FixedFloats2, members: Ints, first: Ints, row_s: Floats2) -> None:
    row_s[:] = 0.0
    for b in range(len(row_s)):
        for x in range(first[b], first[b + 1]):
            for k in range(row_s.shape[1]):
                row_s[b, k] = max(row_s[b, k], times_s[members[x], k])
