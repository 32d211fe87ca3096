"""Classes of equal rows of a table, compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler.core.arrays import Ints
from scheduler.core.codes import NONE

MULTIPLIER = 0x9E3779B97F4A7C15
MASK = 2**64 - 1
SHIFT = 32


def folded(bits: int) -> int:
    """Fold the upper bits onto the lower ones: integers as floats differ in their upper bits only, which a
    product does not move down."""
    return bits ^ (bits >> SHIFT)


def hashed(rows: NDArray[np.uint64], i: int) -> int:
    hash_ = 0
    for x in range(rows.shape[1]):
        hash_ = ((hash_ ^ folded(rows[i, x])) * MULTIPLIER) & MASK
    return folded(hash_)


def find_classes(rows: NDArray[np.uint64], first_row: Ints, class_of: Ints) -> int:
    """Number the classes of rows in order of appearance. A hash table with open addressing; `first_row` has
    room for twice the rows, a power of two. Returns the number of classes."""
    n_classes, room = 0, first_row.shape[0]
    for i in range(rows.shape[0]):
        place = hashed(rows, i) & (room - 1)
        while first_row[place] != NONE:
            x = 0
            while x < rows.shape[1] and rows[first_row[place], x] == rows[i, x]:
                x += 1
            if x == rows.shape[1]:
                break
            place = (place + 1) % room
        if first_row[place] == NONE:
            first_row[place] = i
            class_of[i] = n_classes
            n_classes += 1
        else:
            class_of[i] = class_of[first_row[place]]
    return n_classes


def put_in_place(class_of: Ints, at: Ints, members: Ints) -> None:
    """Write the members by class; `at` is where the next one of each class goes."""
    for i in range(class_of.shape[0]):
        members[at[class_of[i]]] = i
        at[class_of[i]] += 1
