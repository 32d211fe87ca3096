"""Custom resource managers: on machines and on free nodes, and misbehaving ones."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from scheduler import registry
from scheduler.registry import SchedulerNotLoaded
from scheduler.rules import EACH_JOB_ONCE, NODES_FREE, RAISES_NOTHING, RETURNS_IN_TIME
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.trace import recorder
from sil.trace.facts import TIMINGS, TRACE, Fact
from sil.workers.executor import Inline, Listener
from tests.sil.experiment.replaying import replay_all
from tests.sil.experiment.test_replay import FIVE, log_of, starts

pytestmark = pytest.mark.usefixtures("in_this_process", "without_reports")

MANAGERS = """
import time
from itertools import count
from tests.one_at_a_time import OneAtATime as WithoutPause

class OneAtATime(WithoutPause):
    def __init__(self, ports, pause_s: float = 0.0):
        super().__init__(ports)
        self.pause_s = pause_s
    def on_run_ended(self, completion):
        super().on_run_ended(completion)
        if self.pause_s:
            self.wakes_at_s, self.wants_round = completion.ended_s + self.pause_s, False
    def on_time_passed(self):
        self.wakes_at_s = None
        self.wants_round = True
    def run_round(self):
        self.wants_round = False
        if self.wakes_at_s is None:
            super().run_round()

class OnTheFirstMachine(OneAtATime):
    pass

class Raises(OneAtATime):
    def on_run_ended(self, completion):
        raise LookupError("lost it")

class Loops(OneAtATime):
    def run_round(self):
        while True:
            pass

class DoubleBooks(OneAtATime):
    '''And ignores the exception that reports it.'''
    def run_round(self):
        self.wants_round = False
        for job in self.waiting:
            try:
                self.start(job)
            except Exception:
                pass
        self.waiting.clear()

class NumbersRunsTwice(OneAtATime):
    def run_round(self):
        self.runs = count()
        super().run_round()

class LooksWhetherForEver(OneAtATime):
    @property
    def wants_round(self):
        while True:
            pass
    @wants_round.setter
    def wants_round(self, wanted):
        pass

class CannotBeMade(OneAtATime):
    def __init__(self, ports):
        raise OSError("no room")
"""


@pytest.fixture
def managers(importable: Path) -> str:
    (importable / "own_managers.py").write_text(MANAGERS)
    return "own_managers"


def test_a_custom_manager_replays_a_log_and_wakes_at_the_requested_time(
    managers: str, tmp_path: Path
) -> None:
    names = [f"{managers}:OneAtATime", f"{managers}:OneAtATime(pause_s=5)"]
    log = log_of([(1, 0.0, 10.0, 2, 10.0, 1), (2, 1.0, 10.0, 1, 10.0, 1), (3, 30.0, 10.0, 1, 10.0, 1)], 3)
    plain, paused = replay_all(Replay(log), names, tmp_path / "out", Inline(), False, Listener())
    assert (plain.fault, paused.fault) == (None, None)
    assert starts(pl.read_parquet(plain.folder / TRACE)) == {1: 0.0, 2: 10.0, 3: 30.0}
    assert starts(pl.read_parquet(paused.folder / TRACE)) == {1: 0.0, 2: 15.0, 3: 30.0}


def test_rounds_after_the_last_chunk_of_facts_are_timed(
    managers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last round comes after the end of the only run, with which a table of three facts is full."""
    monkeypatch.setattr(recorder, "CHUNK", 3)
    Replay(log_of([(1, 0.0, 10.0, 1, 10.0, 1)], 1)).run(resolve(f"{managers}:OneAtATime"), tmp_path)
    assert pl.read_parquet(tmp_path / TIMINGS)["time_s"].to_list() == [0.0, 10.0]


def test_a_round_of_a_custom_manager_is_charged_and_its_orders_take_effect_at_its_end(
    managers: str, tmp_path: Path
) -> None:
    log = log_of([(1, 0.0, 10.0, 2, 10.0, 1), (2, 1.0, 10.0, 1, 10.0, 1)], 3)
    replay = Replay(log, decision_cost="fixed(seconds=3)")
    (outcome,) = replay_all(replay, [f"{managers}:OneAtATime"], tmp_path, Inline(), False, Listener())
    facts = pl.read_parquet(outcome.folder / TRACE)
    # Asked at 0 s, it starts job 1 at 3 s, which ends at 13 s. Job 2 arrives at 1 s, reported at 3 s: that
    # round ends at 6 s and starts nothing. The one at 13 s starts it at 16 s.
    charged = facts.filter(pl.col("event") == Fact.DECISION_CHARGED)["time_s"].to_list()
    assert charged[:3] == [0.0, 3.0, 13.0]
    assert starts(facts) == {1: 3.0, 2: 16.0}


@pytest.mark.parametrize(
    ("kind", "rule", "message"),
    [
        ("Raises", RAISES_NOTHING, "Raises.on_run_ended raised LookupError: lost it (own_managers.py"),
        ("Loops", RETURNS_IN_TIME, "Loops.run_round did not return within 1 s"),
        ("DoubleBooks", NODES_FREE, "was dispatched to node 0 while job 1 runs there"),
        ("NumbersRunsTwice", EACH_JOB_ONCE, "run 0 was ordered twice"),
        ("CannotBeMade", RAISES_NOTHING, "raised OSError: no room"),
        ("LooksWhetherForEver", RETURNS_IN_TIME, "LooksWhetherForEver.wants_round did not return within"),
    ],
)
def test_a_misbehaving_manager_is_reported_and_the_others_continue(
    kind: str, rule: str, message: str, managers: str, tmp_path: Path
) -> None:
    replay = Replay(log_of(FIVE, 3), decision_limit_s=1.0)
    names = [f"{managers}:{kind}", "fcfs"]
    outcome, fcfs = replay_all(replay, names, tmp_path / "out", Inline(), False, Listener())
    assert fcfs.fault is None
    assert f"broke the rule {rule} (" in str(outcome.fault)
    assert message in str(outcome.fault)


def test_manager_parameters_are_checked_against_its_constructor(managers: str) -> None:
    assert registry.resolve(f"{managers}:OneAtATime(pause_s=5)").is_manager
    with pytest.raises(SchedulerNotLoaded, match="'pause_s' is 'long'; expected a number"):
        registry.resolve(f"{managers}:OneAtATime(pause_s=long)")
    with pytest.raises(SchedulerNotLoaded, match="did you mean 'pause_s'"):
        registry.resolve(f"{managers}:OneAtATime(pause=5)")
