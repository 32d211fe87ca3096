"""Runs that take no time: tests define their measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from sil.planning.options import Option
from sil.planning.plan_file import Plan
from sil.planning.runs import OptionSamples
from sil.workers.executor import Item

Measure = Callable[[Option, int], float]
"""The value of the first goal for an option and a replication."""


def plan(**more: Any) -> Plan:
    """A plan with three offers A, B and C, of prices 10, 10 and 20."""
    offers = [
        {"name": name, "changes": [f"{k + 1} x kind-{name}"], "price": price, "limit": 3}
        for k, (name, price) in enumerate((("A", 10.0), ("B", 10.0), ("C", 20.0)))
    ]
    made = {"name": "test", "site": "none", "schedulers": ["olb"], "workload": {"jobs": 5}, "offers": offers}
    return Plan.model_validate(made | more)


class FakeRuns:
    """Executes nothing; records the requests."""

    def __init__(self, measure: Measure, key: str) -> None:
        self._measure = measure
        self._key = key
        self.done: list[tuple[str, int]] = []

    def results(self, items: Sequence[Item], kind: Any = Any) -> list[dict[str, float]]:
        found = []
        for item in items:
            option, replication = item.call()
            self.done.append((option.name, replication))
            value = self._measure(option, replication)
            found.append({self._key: value, "class work": value / 2})
        return found


class FakeScenario:
    """Instead of runs, their option and replication."""

    def __init__(self, of: Plan) -> None:
        self.plan = of

    def run(self, option: Option, scheduler: str, replication: int) -> Any:
        key = f"{option.changes} {replication}"
        return SimpleNamespace(key=key, item=Item(key, lambda: (option, replication)))

    def usable(self, option: Option, scheduler: str) -> Option:
        return option

    def load(self, option: Option) -> None:
        return None


def samples(of: Plan, measure: Measure) -> tuple[OptionSamples, FakeRuns]:
    runs = FakeRuns(measure, of.goals[0].key)
    return OptionSamples(FakeScenario(of), runs, "olb"), runs


def noise(seed: int, replication: int, name: str = "all", deviation: float = 1.0) -> float:
    """Deterministic."""
    key = [seed, replication, *name.encode()]
    return deviation * float(np.random.default_rng(key).standard_normal())
