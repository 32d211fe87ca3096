"""Costs of decisions by name: none, fixed(seconds=0.5), measured(factor=10), modelled(...), replayed(...)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl

from scheduler import UserError, naming
from sil.settings.replays import NONE
from sil.trace.facts import RUN, TRACE, Fact
from sil.trace.reading import read_facts
from sil.world.guard.decision_cost import DecisionCost, Measured, fixed, modelled, replayed

KINDS: dict[str, Callable[..., DecisionCost]] = {"fixed": fixed, "measured": Measured, "modelled": modelled}
REPLAYED = "replayed"


def check_decision_cost(name: str) -> str:
    """The name itself. Raises UserError if it is invalid."""
    kind, parameters = _split(name)
    if kind == REPLAYED:
        path = _trace(name, parameters)
        if not path.is_file():
            raise UserError(f"decision cost '{name}': there is no file {path}")
    elif kind != NONE or parameters:
        _make(name, kind, parameters)
    return name


def replayed_trace(name: str) -> Path | None:
    """The trace whose costs are charged again, if any. Raises UserError."""
    kind, parameters = _split(name)
    return _trace(name, parameters) if kind == REPLAYED else None


def decision_cost(name: str, point: int, replication: int, scheduler: str) -> DecisionCost | None:
    """The decision cost in one run, None for nothing. Raises UserError and NoTrace.

    `replayed(trace="OUT")` charges the same run's costs in the trace in folder OUT.
    """
    kind, parameters = _split(name)
    if kind == NONE and not parameters:
        return None
    if kind != REPLAYED:
        return _make(name, kind, parameters)
    facts = read_facts(_trace(name, parameters))
    run = dict(zip(RUN, (point, replication, scheduler), strict=True))
    charged = facts.filter(pl.col("event") == Fact.DECISION_CHARGED, **run)
    return replayed(iter(charged["expected_s"].to_list()))


def _split(name: str) -> tuple[str, dict[str, naming.Value]]:
    try:
        return naming.split(name)
    except naming.Misnamed as error:
        raise UserError(f"decision cost: {error}") from None


def _make(name: str, kind: str, parameters: dict[str, naming.Value]) -> DecisionCost:
    if kind not in KINDS:
        known = ", ".join((NONE, *KINDS, REPLAYED))
        raise UserError(f"unknown decision cost '{name}'; expected one of {known}")
    try:
        naming.check(name, KINDS[kind], parameters)
        return KINDS[kind](**parameters)
    except (naming.Misnamed, ValueError) as error:
        raise UserError(f"decision cost: {error}") from None
    except TypeError:
        raise UserError(f"decision cost '{name}': seconds are missing, as in {kind}(seconds=0.5)") from None


def _trace(name: str, parameters: dict[str, naming.Value]) -> Path:
    """The named file, or the trace in the named folder."""
    if parameters.keys() != {"trace"}:
        message = f"decision cost '{name}': name a folder of results, as in replayed(trace='OUT')"
        raise UserError(message)
    path = Path(str(parameters["trace"]))
    return path / TRACE if path.is_dir() else path
