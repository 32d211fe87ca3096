"""Decision cost in simulated time: the world continues while the scheduler decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, inf

from sil.world.events import SimClock
from sil.world.guard.faults import COST_IS_KNOWN, SchedulerFault

STEPS_PER_S = 2**20
"""Costs are charged in whole steps of about a microsecond, which add exactly to times in whole seconds.
Otherwise a rounding error could make a run exceed its estimate."""

DecisionCost = Callable[[int, int, float], float]
"""Simulated seconds of a decision, by its numbers of jobs and resources and its seconds of wall time."""


def fixed(seconds: float) -> DecisionCost:
    """The same for each decision."""
    _check("seconds", seconds)
    return lambda n_jobs, n_places, measured_s: seconds


@dataclass(frozen=True)
class Measured:
    """The wall time, times a factor that represents another head node. It differs from run to run."""

    factor: float = 1.0

    def __post_init__(self) -> None:
        _check("factor", self.factor)

    def __call__(self, n_jobs: int, n_places: int, measured_s: float) -> float:
        return self.factor * measured_s


def modelled(seconds: float, a: float = 1.0, b: float = 1.0) -> DecisionCost:
    """A growth law: seconds x jobs^a x resources^b, as `sil overhead` fits it."""
    _check("seconds", seconds)

    def charged_s(n_jobs: int, n_places: int, measured_s: float) -> float:
        try:
            return float(seconds * n_jobs**a * n_places**b)
        except OverflowError:
            return inf
        except ZeroDivisionError:
            return 0.0  # a negative exponent and no jobs

    return charged_s


def replayed(costs_s: Iterator[float]) -> DecisionCost:
    """The costs of an earlier run, decision by decision; after its last one infinite, and so a fault."""
    return lambda n_jobs, n_places, measured_s: next(costs_s, inf)


class Charge:
    """Charges each decision, in whole steps; calls `note` with the time of the request and the cost."""

    def __init__(self, cost: DecisionCost, clock: SimClock, note: Callable[[float, float], None]) -> None:
        self.cost = cost
        self._clock = clock
        self._note = note

    def __call__(self, n_jobs: int, n_places: int, measured_s: float) -> None:
        asked_s = self._clock.now_s
        steps = STEPS_PER_S * self.cost(n_jobs, n_places, measured_s)
        if steps == inf:
            message = f"no cost can be charged for a decision on {n_jobs} jobs and {n_places} resources"
            raise SchedulerFault(COST_IS_KNOWN, message, asked_s)
        cost_s = ceil(steps) / STEPS_PER_S
        self._note(asked_s, cost_s)
        self._clock.wait_until(asked_s + cost_s)


def _check(name: str, value: float) -> None:
    if not 0.0 <= value < inf:
        raise ValueError(f"'{name}' is {value:g}; expected 0 or more")
