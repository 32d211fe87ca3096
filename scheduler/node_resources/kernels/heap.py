"""A heap of numbers, by keys of theirs and then the numbers themselves."""

from __future__ import annotations

from scheduler.compiled import Floats, Ints, inlined, part


@inlined
def comes_first(keys: Floats, a: int, b: int) -> bool:
    return bool(keys[a] < keys[b] or (keys[a] == keys[b] and a < b))


@part
def push(heap: Ints, n: int, keys: Floats, item: int) -> None:
    """Add to a heap of n numbers."""
    x = n
    while x > 0:
        up = (x - 1) >> 1
        if not comes_first(keys, item, heap[up]):
            break
        heap[x] = heap[up]
        x = up
    heap[x] = item


@part
def pop(heap: Ints, n: int, keys: Floats) -> int:
    """Take the first out of a heap of n numbers."""
    first, item, x = heap[0], heap[n - 1], 0
    while True:
        down = 2 * x + 1
        if down >= n - 1:
            break
        if down + 1 < n - 1 and comes_first(keys, heap[down + 1], heap[down]):
            down += 1
        if comes_first(keys, item, heap[down]):
            break
        heap[x] = heap[down]
        x = down
    heap[x] = item
    return int(first)
