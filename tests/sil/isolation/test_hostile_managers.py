"""What resource managers order and return is checked, value by value, before anything computes with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.settings.engines import Engine
from sil.trace.facts import Fact
from tests import hostile_managers
from tests.sil.test_replay import FIVE, log_of

REPLAY = Replay(log_of(FIVE, 3), decision_limit_s=2.0, engine=Engine.HARNESS)


@pytest.mark.usefixtures("isolated")
@pytest.mark.parametrize("name", hostile_managers.RULES)
def test_its_fault_is_the_last_fact_and_names_the_rule(name: str, tmp_path: Path) -> None:
    scheduler = resolve(f"{hostile_managers.__name__}:{name}")
    *_, last = REPLAY.facts(scheduler, tmp_path / "printed").to_dicts()
    rule, broken = hostile_managers.RULES[name], last["detail"] if last["event"] == Fact.FAULT else None
    assert broken == rule, last["message"]
    if rule is not None:
        assert len(last["message"]) < 2_000
        assert last["job"] in (None, *range(1, 6), 999)
    assert REPLAY.results(scheduler, tmp_path / "printed").fault is None or rule is not None
