"""The time of the next scheduling round after a request."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import Protocol


class RoundPolicy(Protocol):
    def due_s(self, now_s: float, last_s: float | None) -> float:
        """The time of the round requested now; `last_s` is the time of the previous round, if any."""
        ...


@dataclass(frozen=True, slots=True)
class EveryQuantum:
    """At the next multiple of the quantum, as in Collins and George (10 s)."""

    quantum_s: float

    def due_s(self, now_s: float, last_s: float | None) -> float:
        boundary = floor(now_s / self.quantum_s)
        while boundary * self.quantum_s < now_s or boundary * self.quantum_s == last_s:
            boundary += 1
        return boundary * self.quantum_s


@dataclass(frozen=True, slots=True)
class OnRequest:
    """At once, but at least `least_distance_s` after the previous round."""

    least_distance_s: float = 0.0

    def due_s(self, now_s: float, last_s: float | None) -> float:
        if last_s is None or last_s + self.least_distance_s <= now_s:
            return now_s
        return last_s + self.least_distance_s
