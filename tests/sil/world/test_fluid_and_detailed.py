"""The fluid model of shared nodes and the one in detail give nearly the same times."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from scheduler.coscheduling.daemon import Coscheduler
from sil.settings.time_shared_table import CoschedulingTable
from sil.world.processes.model import NodeModel
from tests.sil.world.fluid_and_detailed import Agreement, detailed, fluid, measured, times

DOCUMENT = Path(__file__).parents[3] / "docs" / "explanation" / "how-nodes-are-shared.md"
SHORT = [("C", 2), ("D", 2), ("D", 3), ("D", 4)]


def test_without_costs_and_losses_the_fluid_model_is_close_to_nodes_in_detail() -> None:
    without_costs = list(times(detailed(NodeModel(switch_s=0.0, reload_s=0.0)), SHORT))
    found = Agreement.of(times(fluid(inflation=0.0), SHORT), without_costs)
    assert abs(found.bias) < 0.03
    assert found.rms < 0.05
    with_loss = Agreement.of(times(fluid(loss=0.5, inflation=0.0), SHORT), without_costs)
    assert with_loss.bias > found.bias + 0.03


def documented() -> dict[str, list[str]]:
    """The cells of the document's table, by coscheduler."""
    section = DOCUMENT.read_text(encoding="utf-8").partition("## How well the two models agree")[2]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    return {name.strip(" `"): [cell.strip() for cell in cells] for name, *cells in rows}


def test_what_is_documented_of_coscheduling_is_valid_for_the_fluid_model() -> None:
    found = documented()
    assert set(found) == {each.value for each in Coscheduler} - {"none", "user_space_stopping"}
    for loss, overhead, delay_s, _ in found.values():
        table = CoschedulingTable(loss=float(loss), overhead=float(overhead), control_delay_s=float(delay_s))
        assert table.loss < 1


@pytest.mark.long
@pytest.mark.parametrize("coscheduler", ["kernel", "user_space"])
def test_what_is_documented_of_coscheduling_is_what_nodes_in_detail_have(coscheduler: str) -> None:
    values, agreement = measured(Coscheduler(coscheduler))
    assert [
        *(f"{value:g}" for value in asdict(values).values()),
        f"{100 * agreement.bias:+.1f} %, {100 * agreement.rms:.1f} %",
    ] == documented()[coscheduler]
