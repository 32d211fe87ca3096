"""What a decision costs in simulated time: while the scheduler thinks, the world goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, inf
from typing import Protocol

from sil.world.clock import SimClock
from sil.world.guard.faults import COST_IS_KNOWN, SchedulerFault

STEPS_PER_S = 2**20
"""Costs are charged in whole steps, of about a microsecond, with which times in whole seconds add up exactly.
Else a run could seem to outlive its estimate by a rounding error."""


class DecisionCost(Protocol):
    def charged_s(self, n_jobs: int, n_places: int, measured_s: float) -> float:
        """Simulated seconds for a decision on so many jobs and resources that took so long in truth."""
        ...


@dataclass(frozen=True)
class Fixed:
    """The same for each decision."""

    seconds: float

    def __post_init__(self) -> None:
        _check("seconds", self.seconds)

    def charged_s(self, n_jobs: int, n_places: int, measured_s: float) -> float:
        return self.seconds


@dataclass(frozen=True)
class Measured:
    """Its wall time here, times a factor that stands for another head node. No two runs are the same."""

    factor: float = 1.0

    def __post_init__(self) -> None:
        _check("factor", self.factor)

    def charged_s(self, n_jobs: int, n_places: int, measured_s: float) -> float:
        return self.factor * measured_s


@dataclass(frozen=True)
class Modelled:
    """A growth law: seconds x jobs^a x resources^b, as `sil overhead` fits it."""

    seconds: float
    a: float = 1.0
    b: float = 1.0

    def __post_init__(self) -> None:
        _check("seconds", self.seconds)

    def charged_s(self, n_jobs: int, n_places: int, measured_s: float) -> float:
        try:
            return float(self.seconds * n_jobs**self.a * n_places**self.b)
        except OverflowError:
            return inf
        except ZeroDivisionError:
            return 0.0  # a negative exponent, and nobody to decide on


class Replayed:
    """What was charged in an earlier run, decision by decision. Infinite once all that was
    charged there has been, which is told as a fault: then this is another run."""

    def __init__(self, costs_s: Iterator[float]) -> None:
        self._costs_s = costs_s

    def charged_s(self, n_jobs: int, n_places: int, measured_s: float) -> float:
        return next(self._costs_s, inf)


class Charge:
    """Charges each decision, in whole steps, and tells `note` when it was asked for and what it cost."""

    def __init__(self, cost: DecisionCost, clock: SimClock, note: Callable[[float, float], None]) -> None:
        self._cost = cost
        self._clock = clock
        self._note = note

    def __call__(self, n_jobs: int, n_places: int, measured_s: float) -> None:
        asked_s = self._clock.now_s
        steps = STEPS_PER_S * self._cost.charged_s(n_jobs, n_places, measured_s)
        if steps == inf:
            message = f"no cost can be charged for a decision on {n_jobs} jobs and {n_places} resources"
            raise SchedulerFault(COST_IS_KNOWN, message, asked_s)
        cost_s = ceil(steps) / STEPS_PER_S
        self._note(asked_s, cost_s)
        self._clock.wait_until(asked_s + cost_s)


def _check(name: str, value: float) -> None:
    if not 0.0 <= value < inf:
        raise ValueError(f"'{name}' is {value:g}; expected 0 or more")
