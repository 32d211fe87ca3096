"""What is to be done at a time that is known."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import count
from math import inf

Act = Callable[[], None]


class Appointments:
    """Acts in order of their times; those of one time in the order in which they were added."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Act, Callable[[], bool]]] = []
        self._number = count()

    def add(self, at_s: float, act: Act, is_void: Callable[[], bool] = lambda: False) -> None:
        """Once it `is_void`, it is dropped."""
        heapq.heappush(self._heap, (at_s, next(self._number), act, is_void))

    @property
    def first_s(self) -> float:
        """Infinite if there is none."""
        heap = self._heap
        while heap and heap[0][3]():
            heapq.heappop(heap)
        return heap[0][0] if heap else inf

    def due(self, now_s: float) -> Iterator[Act]:
        while self._heap and self.first_s <= now_s:
            yield heapq.heappop(self._heap)[2]
