"""The fluid model of shared nodes and the one in detail give nearly the same times."""

from __future__ import annotations

import tomllib
from dataclasses import asdict
from pathlib import Path

import pytest
from pydantic import ValidationError

from scheduler.coscheduling.daemon import Coscheduler
from sil.settings import time_shared_table
from sil.settings.time_shared_table import CoschedulingTable
from sil.world.processes.model import NodeModel
from tests.sil.world.fluid_and_detailed import Agreement, detailed, fluid, measured, times

STORED = tomllib.loads(Path(time_shared_table.__file__).with_name("measured_coscheduling.toml").read_text())
SHORT = [("C", 2), ("D", 2), ("D", 3), ("D", 4)]


def test_without_costs_and_losses_the_fluid_model_is_close_to_nodes_in_detail() -> None:
    without_costs = list(times(detailed(NodeModel(switch_s=0.0, reload_s=0.0)), SHORT))
    found = Agreement.of(times(fluid(inflation=0.0), SHORT), without_costs)
    assert abs(found.bias) < 0.03
    assert found.rms < 0.05
    with_loss = Agreement.of(times(fluid(loss=0.5, inflation=0.0), SHORT), without_costs)
    assert with_loss.bias > found.bias + 0.03


@pytest.mark.long
@pytest.mark.parametrize("coscheduler", ["kernel", "user_space"])
def test_what_is_stored_of_coscheduling_is_what_nodes_in_detail_have(coscheduler: str) -> None:
    values, agreement = measured(Coscheduler(coscheduler))
    assert asdict(values) == STORED[coscheduler]
    assert agreement.rms < 0.06


def test_an_experiment_may_name_the_coscheduler_whose_measured_imperfections_the_fluid_model_has() -> None:
    assert CoschedulingTable.model_validate({"like": "user_space"}).model_dump() == {
        "like": "user_space",
        **STORED["user_space"],
    }
    own = CoschedulingTable.model_validate({"like": "user_space", "loss": 0.1})
    assert (own.loss, own.overhead) == (0.1, STORED["user_space"]["overhead"])
    assert CoschedulingTable() == CoschedulingTable(loss=0.0, overhead=0.0, control_delay_s=0.0)
    assert set(STORED) | {"none"} == {each.value for each in Coscheduler}
    with pytest.raises(ValidationError, match="kernel"):
        CoschedulingTable.model_validate({"like": "kernels"})
