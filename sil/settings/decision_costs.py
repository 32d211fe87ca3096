"""Costs of decisions, by name, such as fixed(seconds=0.5) or measured(factor=10)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import polars as pl

from scheduler import UserError, naming
from sil.settings.replays import NONE
from sil.trace.facts import RUN, TRACE, Fact
from sil.trace.reading import read_facts
from sil.world.guard.decision_time import DecisionCost, Measured, fixed, modelled, replayed

KINDS: dict[str, Callable[..., DecisionCost]] = {"fixed": fixed, "measured": Measured, "modelled": modelled}
REPLAYED = "replayed"


def check_decision_cost(name: str) -> str:
    """The name itself. Raises UserError if it is invalid."""
    path = replayed_trace(name)
    if path is None:
        _make(name)
    elif not path.is_file():
        raise UserError(f"decision cost '{name}': there is no file {path}")
    return name


def replayed_trace(name: str) -> Path | None:
    """The trace whose costs are charged again, if any: the named file, or that in the named folder. Raises
    UserError."""
    kind, parameters = _split(name)
    if kind != REPLAYED:
        return None
    if parameters.keys() != {"trace"}:
        message = f"decision cost '{name}': name a folder of results, as in replayed(trace='OUT')"
        raise UserError(message)
    path = Path(str(parameters["trace"]))
    return path / TRACE if path.is_dir() else path


def decision_cost(name: str, point: int, replication: int, scheduler: str) -> DecisionCost | None:
    """The decision cost in one run, None for nothing. Raises UserError and NoTrace.

    `replayed(trace="OUT")` charges the same run's costs in the trace in folder OUT.
    """
    path = replayed_trace(name)
    if path is None:
        return _make(name)
    run = dict(zip(RUN, (point, replication, scheduler), strict=True))
    charged = read_facts(path).filter(pl.col("event") == Fact.DECISION_CHARGED, **run)
    return replayed(iter(charged["expected_s"].to_list()))


def _split(name: str) -> tuple[str, dict[str, naming.Value]]:
    try:
        return naming.split(name)
    except naming.Misnamed as error:
        raise UserError(f"decision cost: {error}") from None


def _make(name: str) -> DecisionCost | None:
    kind, parameters = _split(name)
    if kind == NONE and not parameters:
        return None
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


class DecisionRules(Protocol):
    """Limits and costs of decisions, and whether schedulers that are not built in are asked twice."""

    @property
    def decision_limit_s(self) -> float: ...

    @property
    def ask_twice(self) -> bool: ...

    @property
    def reasons(self) -> bool:
        """Whether the trace says why jobs wait."""

    def cost_of(self, scheduler: str) -> str:
        """The decision cost, by name."""
