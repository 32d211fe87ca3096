"""Costs of decisions by name: none, fixed(seconds=0.5), measured(factor=10), modelled(...), replayed(...)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl

from scheduler import naming
from sil.outcome.trace import RUN, Fact
from sil.world.decision_cost import DecisionCost, Fixed, Measured, Modelled, Replayed

NONE = "none"
KINDS: dict[str, Callable[..., DecisionCost]] = {"fixed": Fixed, "measured": Measured, "modelled": Modelled}
REPLAYED = "replayed"
TRACE = "trace.parquet"


class BadDecisionCost(ValueError):
    """A cost cannot be charged. The message is one sentence for the user."""


def check_decision_cost(name: str) -> str:
    """The name itself. Raises BadDecisionCost for one that means nothing."""
    decision_cost(name, 0, 0, "")
    return name


def decision_cost(name: str, point: int, replication: int, scheduler: str) -> DecisionCost | None:
    """What a decision costs in one run, None for nothing. Raises BadDecisionCost.

    `replayed(trace="OUT")` charges what that run was charged in the trace in folder OUT.
    """
    try:
        kind, parameters = naming.split(name)
    except naming.Misnamed as error:
        raise BadDecisionCost(f"cost of decisions: {error}") from None
    if kind == NONE and not parameters:
        return None
    if kind == REPLAYED:
        return _replayed(name, parameters, point, replication, scheduler)
    if kind not in KINDS:
        known = ", ".join((NONE, *KINDS, REPLAYED))
        raise BadDecisionCost(f"there is no cost of decisions '{name}'; known are {known}")
    try:
        naming.check(name, KINDS[kind], parameters)
        return KINDS[kind](**parameters)
    except (naming.Misnamed, ValueError) as error:
        raise BadDecisionCost(f"cost of decisions: {error}") from None
    except TypeError:
        raise BadDecisionCost(
            f"cost of decisions '{name}': seconds are missing, as in {kind}(seconds=0.5)"
        ) from None


def _replayed(
    name: str, parameters: dict[str, naming.Value], point: int, replication: int, scheduler: str
) -> DecisionCost:
    if parameters.keys() != {"trace"}:
        raise BadDecisionCost(
            f"cost of decisions '{name}': name a folder of results, as in replayed(trace=\"OUT\")"
        )
    path = Path(str(parameters["trace"]))
    if path.is_dir():
        path = path / TRACE
    if not scheduler:
        if not path.is_file():
            raise BadDecisionCost(f"cost of decisions '{name}': there is no file {path}")
        return Replayed(iter(()))
    run = dict(zip(RUN, (point, replication, scheduler), strict=True))
    facts = pl.scan_parquet(path).filter(pl.col("event") == Fact.DECISION_CHARGED, **run)
    return Replayed(iter(facts.select("expected_s").collect()["expected_s"].to_list()))
