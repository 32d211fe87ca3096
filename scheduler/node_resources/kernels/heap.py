"""A heap of numbers: by their keys, then by what breaks ties among these."""

from __future__ import annotations

from scheduler.compiled import Floats, Ints, inlined, part


@inlined
def comes_first(keys: Floats, ties: Ints, a: int, b: int) -> bool:
    return bool(keys[a] < keys[b] or (keys[a] == keys[b] and ties[a] < ties[b]))


@part
def push(heap: Ints, n: Ints, keys: Floats, ties: Ints, item: int) -> None:
    """Add to a heap of n[0] numbers."""
    x = n[0]
    n[0] += 1
    while x > 0:
        up = (x - 1) >> 1
        if not comes_first(keys, ties, item, heap[up]):
            break
        heap[x] = heap[up]
        x = up
    heap[x] = item


@part
def pop(heap: Ints, n: Ints, keys: Floats, ties: Ints) -> int:
    """Take the first out of a heap of n[0] numbers."""
    last = n[0] - 1
    n[0] = last
    first, item, x = heap[0], heap[last], 0
    while True:
        down = 2 * x + 1
        if down >= last:
            break
        if down + 1 < last and comes_first(keys, ties, heap[down + 1], heap[down]):
            down += 1
        if comes_first(keys, ties, item, heap[down]):
            break
        heap[x] = heap[down]
        x = down
    heap[x] = item
    return int(first)
