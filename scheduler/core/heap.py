"""A heap of numbers."""

from __future__ import annotations

from scheduler.core.arrays import floats, integers, larger


class Heap:
    """A heap of distinct numbers below `n_items`, ordered by key, then by a second key."""

    def __init__(self, n_items: int) -> None:
        self.n = 0
        self.items, self.ties, self.keys = integers(n_items), integers(n_items), floats(n_items)

    def make_room(self, n_items: int) -> None:
        if n_items > self.items.shape[0]:
            self.items, self.ties = larger(self.items, n_items), larger(self.ties, n_items)
            self.keys = larger(self.keys, n_items)

    def first_key(self) -> float:
        return self.keys[self.items[0]]

    def comes_first(self, a: int, b: int) -> bool:
        return self.keys[a] < self.keys[b] or (self.keys[a] == self.keys[b] and self.ties[a] < self.ties[b])

    def push(self, item: int, key: float, tie: int) -> None:
        self.keys[item], self.ties[item] = key, tie
        x = self.n
        self.n += 1
        while x > 0:
            up = (x - 1) >> 1
            if not self.comes_first(item, self.items[up]):
                break
            self.items[x] = self.items[up]
            x = up
        self.items[x] = item

    def remove(self, item: int) -> None:
        """Take an item out that is there. O(n)."""
        x = 0
        while self.items[x] != item:
            x += 1
        while x > 0:
            self.items[x] = self.items[(x - 1) >> 1]
            x = (x - 1) >> 1
        self.items[0] = item
        self.pop()

    def pop(self) -> int:
        """Take the first out."""
        self.n -= 1
        last, x = self.n, 0
        first, item = self.items[0], self.items[last]
        while True:
            down = 2 * x + 1
            if down >= last:
                break
            if down + 1 < last and self.comes_first(self.items[down + 1], self.items[down]):
                down += 1
            if self.comes_first(item, self.items[down]):
                break
            self.items[x] = self.items[down]
            x = down
        self.items[x] = item
        return first
