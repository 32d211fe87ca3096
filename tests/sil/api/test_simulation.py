"""Simulations in steps, against the whole replay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import sil
from scheduler.free_nodes.rigid import Rigid
from scheduler.model import NodeSchedule
from sil.trace.facts import Fact
from tests.sil.runs.test_replay_on_nodes import accounting


@pytest.fixture(scope="module")
def log() -> sil.JobLog:
    return sil.lublin_feitelson(120, 64, load=1.1)


class Mine(Rigid):
    """As EASY, until a time."""

    def __init__(self, fails_at: float) -> None:
        super().__init__(backfilling="easy")
        self.fails_at = fails_at

    def schedule(self, problem: Any) -> NodeSchedule:
        if problem.now_s >= self.fails_at:
            raise KeyError("no such queue")
        return super().schedule(problem)


@pytest.mark.parametrize("scheduler", ["easy", "conservative", Mine(fails_at=1e9)])
@pytest.mark.parametrize("order", ["default", "archive"])
def test_steps_have_the_facts_of_the_replay(log: sil.JobLog, scheduler: object, order: str) -> None:
    simulation = sil.Simulation(log, scheduler, order=order)
    steps = [simulation.step() for _ in range(5)]
    steps += [simulation.run_until("2h"), simulation.step(events=7), simulation.run_until("1000d")]
    assert simulation.is_done
    steps += [simulation.run(), simulation.step()]
    whole = sil.replay(log, scheduler, order=order, reasons=True, engine="harness", progress=False)
    (name,) = whole.schedulers
    assert_frame_equal(pl.concat(steps), whole.trace(name).select(steps[0].columns))
    assert_frame_equal(simulation.facts, pl.concat(steps))


def test_the_state_follows_from_the_facts_up_to_its_time(log: sil.JobLog) -> None:
    simulation = sil.Simulation(log, "fcfs")
    for hour in range(0, 60, 3):
        simulation.run_until(f"{hour}h")
        state, facts = simulation.state, simulation.facts
        assert state.since_first_s == hour * 3600.0
        assert facts["time_s"].max() is None or facts["time_s"].max() <= state.time_s  # type: ignore[operator]
        of = {
            event: set(facts.filter(pl.col("event") == event)["job"])
            for event in (Fact.JOB_ARRIVED, Fact.RUN_STARTED, Fact.RUN_ENDED)
        }
        arrived, started, ended = of.values()
        assert set(state.waiting["job"]) == arrived - started
        assert set(state.running["job"]) == started - ended
        assert state.n_ended == len(ended)
        assert state.n_in_use == state.running["tasks"].sum() <= state.processors
        later = log.jobs.filter(pl.col("submit_s") <= state.time_s)
        assert len(later) == len(arrived)


def test_a_fault_is_raised_in_its_step_and_is_the_last_fact(log: sil.JobLog) -> None:
    simulation = sil.Simulation(log, {"mine": Mine(fails_at=10_000)})
    simulation.run_until(9_999)
    with pytest.raises(sil.SchedulerFault, match="no such queue") as raised:
        simulation.run_until("1d")
    assert isinstance(raised.value.__cause__, KeyError)
    assert raised.value.time_s >= 10_000
    assert simulation.run()["event"][-1] == Fact.FAULT
    assert simulation.facts["event"][-1] == Fact.FAULT


def test_a_simulation_has_one_scheduler(log: sil.JobLog) -> None:
    with pytest.raises(sil.UserError, match="2 schedulers are given; a simulation has one"):
        sil.Simulation(log, ["easy", "fcfs"])
    with pytest.raises(sil.UserError, match="order is 'spam'"):
        sil.Simulation(log, order="spam")
    assert repr(sil.Simulation(log)).startswith("Simulation at 0 s: waiting 0, running 0, ended 0; 0 of 64")


def test_on_nodes_the_state_counts_cores(tmp_path: Path) -> None:
    path = accounting(tmp_path, *[("cpu", "cpu=8,mem=4000M,node=1", "n01")] * 20)
    simulation = sil.Simulation(sil.read_log(path, nodes=tmp_path / "slurm.conf"), "fcfs")
    simulation.run_until(60)
    assert len(simulation.state.running) == 20
    assert (simulation.state.n_in_use, simulation.state.processors) == (160, 768)
