"""What resource managers order and return is checked, value by value, before anything computes with it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest

from scheduler.model import ON_NODES, DispatchOrder, Job, JobId, RunId
from scheduler.resource_manager import OnFreeNodes, OnMachines
from scheduler.rules import KNOWN_NODES, KNOWN_RESOURCE, MAKES_PROGRESS
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.settings.replays import Engine
from sil.trace.facts import TRACE, Fact
from sil.world.events import SimClock
from sil.world.guard import manager
from sil.world.guard.faults import SchedulerFault
from sil.world.guard.manager import Orders
from tests import hostile_managers
from tests.builders import site
from tests.sil.experiment.test_replay import FIVE, log_of

ON_TWO = {
    KNOWN_RESOURCE: OnMachines(SimClock(), None, site(2), None, None),  # type: ignore[arg-type]
    KNOWN_NODES: OnFreeNodes(SimClock(), None, 2, None),  # type: ignore[arg-type]
}
REPLAY = Replay(log_of(FIVE, 3), decision_limit_s=2.0, engine=Engine.HARNESS)


@pytest.mark.parametrize("name", hostile_managers.RULES)
def test_its_fault_is_the_last_fact_and_names_the_rule(name: str, tmp_path: Path) -> None:
    results = REPLAY.run(resolve(f"{hostile_managers.__name__}:{name}"), tmp_path)
    *_, last = pl.read_parquet(tmp_path / TRACE).to_dicts()
    rule, broken = hostile_managers.RULES[name], last["detail"] if last["event"] == Fact.FAULT else None
    assert broken == rule, last["message"]
    if rule is not None:
        assert len(last["message"]) < 2_000
        assert last["job"] in (None, *range(1, 6), 999)
    assert results.fault is None or rule is not None


@pytest.mark.parametrize("rule", ON_TWO)
@pytest.mark.parametrize("machines", [(2,), (-1,), (), (0, 7)])
def test_an_order_breaks_the_rule_of_what_it_names(rule: str, machines: tuple[int, ...]) -> None:
    orders, job = Orders(ON_TWO[rule]), Job(JobId(1), "work", 0.0)
    orders.jobs[job.id] = job
    resource = 0 if rule == KNOWN_RESOURCE else ON_NODES
    orders.dispatch(DispatchOrder(RunId(0), job, resource, machines, 1.0))
    with pytest.raises(SchedulerFault, match="job 1 was dispatched to resource ") as found:
        orders.taken()
    assert found.value.rule == rule


def test_a_manager_that_catches_the_fault_of_too_many_orders_does_not_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise it would believe in orders that do not exist."""
    monkeypatch.setattr(manager, "MAX_ORDERS", 3)
    orders = Orders(ON_TWO[KNOWN_NODES])
    for run in range(10):
        with suppress(SchedulerFault):
            orders.preempt(RunId(run))
    with pytest.raises(SchedulerFault, match="more than 3 orders at once") as found:
        orders.taken()
    assert found.value.rule == MAKES_PROGRESS
