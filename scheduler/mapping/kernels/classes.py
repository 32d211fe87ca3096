"""Which rows of a table are equal, and who belongs to which class."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler.compiled import FixedBits2, Floats, Ints, compiled, inlined, part
from scheduler.mapping.kernels.table import NOBODY

MULTIPLIER = 0x9E3779B97F4A7C15
SHIFT = 32


def classes_of_rows(rows_s: Floats) -> tuple[Ints, int]:
    """The class of each row, and how many there are: equal rows have one, numbered as they first appear."""
    n = len(rows_s)
    first_row = np.full(2 << n.bit_length(), NOBODY)
    class_of = np.empty(n, dtype=np.int64)
    return class_of, _find_classes(rows_s.view(np.uint64), first_row, class_of)


def by_class(class_of: Ints, n_classes: int) -> tuple[Ints, Ints]:
    """Members of all classes, class by class and ascending in each; and where each class begins, (n + 1,)."""
    first = np.zeros(n_classes + 1, dtype=np.int64)
    np.cumsum(np.bincount(class_of, minlength=n_classes), out=first[1:])
    members = np.empty(len(class_of), dtype=np.int64)
    _put_in_place(class_of, first[:-1].copy(), members)
    return members, first


@inlined
def folded(bits: np.uint64) -> np.uint64:
    """Whole numbers as floats differ in their upper bits only, and a product carries nothing downwards."""
    return bits ^ (bits >> np.uint64(SHIFT))


@part
def hashed(bits: NDArray[np.uint64]) -> np.uint64:
    """Four numbers at a time, since none has to wait for another."""
    factor = np.uint64(MULTIPLIER)
    a = b = c = d = np.uint64(0)
    whole = len(bits) - len(bits) % 4
    for x in range(0, whole, 4):
        a = (a ^ folded(bits[x])) * factor
        b = (b ^ folded(bits[x + 1])) * factor
        c = (c ^ folded(bits[x + 2])) * factor
        d = (d ^ folded(bits[x + 3])) * factor
    for x in range(whole, len(bits)):
        a = (a ^ folded(bits[x])) * factor
    for part_of_it in (b, c, d):
        a = (folded(a) ^ part_of_it) * factor
    return folded(a)


@compiled
def _find_classes(rows: FixedBits2, first_row: Ints, class_of: Ints) -> int:
    """A hash table with open addressing; `first_row` has room for twice the rows, a power of two."""
    n_classes = 0
    for i in range(len(rows)):
        place = np.int64(hashed(rows[i]) & np.uint64(len(first_row) - 1))
        while first_row[place] != NOBODY:
            x = 0
            while x < rows.shape[1] and rows[first_row[place], x] == rows[i, x]:
                x += 1
            if x == rows.shape[1]:
                break
            place = (place + 1) % len(first_row)
        if first_row[place] == NOBODY:
            first_row[place] = i
            class_of[i] = n_classes
            n_classes += 1
        else:
            class_of[i] = class_of[first_row[place]]
    return n_classes


@compiled
def _put_in_place(class_of: Ints, at: Ints, members: Ints) -> None:
    for i in range(len(class_of)):
        members[at[class_of[i]]] = i
        at[class_of[i]] += 1
