"""Predictors by name: `aware`, `blind mpl-mpl`, `hybrid cpu-cpu`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scheduler.naming import Misnamed
from scheduler.ports import Scheduler
from scheduler.time_shared.loras import Loras, Method
from scheduler.time_shared.prediction.algorithm_1 import Algorithm1
from scheduler.time_shared.prediction.forecast import ErrorHistory, Hybrid, Predictor, WithInterval
from scheduler.time_shared.prediction.policy_aware import Blind, PolicyAware, methods_of

AWARE, BLIND, HYBRID = "aware", "blind", "hybrid"


@dataclass(frozen=True, slots=True)
class PredictorName:
    """A parsed name: Algorithm 1 that follows the live policy (aware) or serves the queue in order (blind),
    or the first corrected by its past errors (hybrid); and the methods of estimation."""

    kind: str
    remaining: Method
    cpu_time: Method

    def __str__(self) -> str:
        """The same for all names of the same predictor."""
        return f"{self.kind} {self.remaining}-{self.cpu_time}"

    @property
    def uncorrected(self) -> PredictorName:
        """The predictor whose past errors correct this one."""
        return PredictorName(AWARE, self.remaining, self.cpu_time) if self.kind == HYBRID else self


def read(name: str) -> PredictorName:
    """Parse a kind, optionally followed by the methods for remaining time and CPU time (default cpu-cpu).

    Raises Misnamed.
    """
    kind, _, methods = name.strip().partition(" ")
    if kind not in (AWARE, BLIND, HYBRID):
        raise Misnamed(f"unknown predictor '{kind}'; expected {AWARE}, {BLIND} or {HYBRID}")
    remaining, _, cpu_time = (methods.strip() or "cpu-cpu").partition("-")
    try:
        methods_of(remaining, cpu_time)
    except ValueError as error:
        raise Misnamed(f"predictor '{name}': {error}") from None
    return PredictorName(kind, Method(remaining), Method(cpu_time))


def make(
    name: PredictorName, scheduler: Scheduler, errors_of: Callable[[PredictorName], ErrorHistory]
) -> Predictor:
    """The named predictor of the decisions of `scheduler`, with intervals if enough errors are recorded.

    `scheduler` is a separate instance, not the live one. Raises Misnamed for a blind predictor of a scheduler
    other than LoRaS.
    """
    predictor: Predictor
    if not isinstance(scheduler, Loras):
        if name.kind == BLIND:
            raise Misnamed(f"the predictor '{BLIND}' is for LoRaS only; this is another scheduler")
        predictor = Algorithm1(scheduler, name.remaining, name.cpu_time)
    elif name.kind == BLIND:
        predictor = Blind(scheduler, name.remaining, name.cpu_time)
    else:
        predictor = PolicyAware(scheduler, name.remaining, name.cpu_time)
    errors = errors_of(name.uncorrected)
    with_interval = WithInterval(predictor, errors)
    return Hybrid(with_interval, errors) if name.kind == HYBRID else with_interval
