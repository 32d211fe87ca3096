"""The cost of decisions in simulated time, calculated by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scheduler import UserError
from scheduler.free_nodes.rigid import Rigid
from scheduler.free_nodes.runtime_estimates import UserEstimates
from scheduler.managers.rigid_allocation import RigidAllocation
from scheduler.managers.starting_manager import NodeManager
from scheduler.resource_manager import OnFreeNodes
from sil.runs.on_log import Replay
from sil.settings.decision_costs import check_decision_cost, decision_cost
from sil.trace.facts import TIMINGS, TRACE, Fact
from sil.trace.reading import NoTrace
from sil.trace.recorder import TraceRecorder
from sil.workers.executor import Inline, Listener
from sil.workload.arrivals import LoggedRuns
from sil.workload.lublin import Lublin
from sil.world.events import EventQueue, Rounds, SimClock, StateChange
from sil.world.guard.decision_time import STEPS_PER_S, Charge, fixed, modelled
from sil.world.guard.faults import COST_IS_KNOWN
from sil.world.guard.scheduler import Guard, GuardedScheduler, TimedScheduler
from sil.world.harness import World
from sil.world.machines.nodes import SpaceSharedMachines
from sil.world.monitors import SimMonitor
from tests.builders import tiny_experiment
from tests.sil.experiment.replaying import replay_all
from tests.sil.experiment.test_experiment import run
from tests.sil.experiment.test_replay import Row, facts_of, log_of, starts

pytestmark = pytest.mark.usefixtures("without_reports")

ONE_NODE: list[Row] = [(1, 0.0, 10.0, 1, 20.0, 1), (2, 1.0, 5.0, 1, 10.0, 1)]


def charges(facts: pl.DataFrame) -> list[tuple[float, float]]:
    """When decisions were asked for, and how long they took."""
    return facts.filter(pl.col("event") == Fact.DECISION_CHARGED).select("time_s", "expected_s").rows()


def test_a_fixed_cost_delays_each_start_and_events_during_it_are_sent_afterwards(tmp_path: Path) -> None:
    replay = Replay(log_of(ONE_NODE, 1), decision_cost="fixed(seconds=3)")
    facts = facts_of(replay, "fcfs", tmp_path)
    # Asked at 0 s, job 1 starts at 3 s and ends at 13 s. Job 2 arrives at 1 s and is reported at 3 s: that
    # decision ends at 6 s, and starts nothing. The one after the end of job 1 ends at 16 s.
    assert charges(facts) == [(0.0, 3.0), (3.0, 3.0), (13.0, 3.0)]
    assert starts(facts) == {1: 3.0, 2: 16.0}


def test_an_end_during_a_decision_keeps_its_time_and_its_node_is_used_later(tmp_path: Path) -> None:
    log = log_of([(1, 0.0, 10.0, 1, 20.0, 1), (2, 12.0, 5.0, 1, 10.0, 1)], 1)
    facts = facts_of(Replay(log, decision_cost="fixed(seconds=3)"), "fcfs", tmp_path)
    # Job 1 runs from 3 s to 13 s. Job 2 comes at 12 s: the decision asked for then takes job 1 to be there,
    # and ends at 15 s; only the next one, asked for at 15 s, knows better.
    assert charges(facts) == [(0.0, 3.0), (12.0, 3.0), (15.0, 3.0)]
    assert starts(facts) == {1: 3.0, 2: 18.0}
    ends = facts.filter(pl.col("event") == Fact.RUN_ENDED)["time_s"].to_list()
    assert ends == [13.0, 23.0]


def test_a_node_that_fails_and_recovers_during_a_decision_is_reused() -> None:
    clock, events, trace = SimClock(), EventQueue(), TraceRecorder()
    jobs = LoggedRuns(log_of([(1, 0.0, 100.0, 2, 100.0, 1), (2, 50.0, 100.0, 1, 100.0, 1)], 2).jobs)
    machines, monitor = SpaceSharedMachines(2, lambda job, _: jobs.run_s(job), events), SimMonitor(clock)
    charge = Charge(fixed(10.0), clock, trace.note_charge)
    guard = Guard(clock, 60.0, charge=charge)
    scheduler = GuardedScheduler(TimedScheduler(Rigid(), guard), guard)
    outages = iter([(53.0, StateChange((1,), False)), (56.0, StateChange((1,), True))])
    world = World(clock, events, trace, machines, monitor, Rounds(), outages)
    ports = OnFreeNodes(clock, world.dispatcher, 2, UserEstimates(), monitor)
    world.run(jobs.arrivals(), NodeManager(ports, RigidAllocation(ports), scheduler))
    # Job 1 runs from 10 s on and is lost at 53 s, while the scheduler considers job 2, for which there is no
    # room, until 60 s. Then all of this is reported, and it considers job 1, which is first and needs both.
    assert starts(trace.frame(0, 0, "rigid")) == {1: 70.0, 2: 180.0}


@pytest.mark.parametrize("cost_s", [0.001, 0.128, 0.3, 1 / 3])
def test_with_decision_costs_exact_estimates_hold_to_the_last_bit(cost_s: float, tmp_path: Path) -> None:
    """Job 3 waits for all nodes, until job 2 ends. Job 4 would start before it only if job 2 seemed, by a
    rounding error, to outlive its estimate."""
    rows = [
        (1, 0.0, 100.0, 10, 100.0, 1),
        (2, 1.0, 1000.0, 9, 1000.0, 1),
        (3, 200.0, 100.0, 10, 100.0, 1),
        (4, 700.0, 900.0, 1, 900.0, 1),
    ]
    found = starts(
        facts_of(Replay(log_of(rows, 10), decision_cost=f"fixed(seconds={cost_s})"), "easy", tmp_path)
    )
    assert found[3] < 1110.0 < found[4]


def test_a_modelled_cost_depends_on_waiting_jobs_and_processors(tmp_path: Path) -> None:
    replay = Replay(log_of(ONE_NODE, 4), decision_cost="modelled(seconds=0.25, a=2, b=0.5)")
    assert charges(facts_of(replay, "fcfs", tmp_path)) == [(0.0, 0.5), (1.0, 0.5)]
    assert modelled(0.25, 2.0, 0.5)(3, 4, 0.0) == 4.5
    assert modelled(0.25, -1.0, 0.5)(0, 4, 0.0) == 0.0, "without jobs, a decision costs nothing"


def test_a_measured_cost_is_wall_time_without_garbage_collection_times_the_factor(tmp_path: Path) -> None:
    facts = facts_of(Replay(log_of(ONE_NODE, 1), decision_cost="measured(factor=50)"), "easy", tmp_path)
    timings = pl.read_parquet(tmp_path / TIMINGS)
    expected_s = (50 * (timings["wall_s"] - timings["gc_s"])).to_list()
    charged_s = [cost_s for _, cost_s in charges(facts)]
    assert charged_s == pytest.approx(expected_s, rel=0.0, abs=1 / STEPS_PER_S)
    assert min(expected_s) > 0.0


def test_a_run_with_measured_costs_can_be_repeated_byte_for_byte(tmp_path: Path) -> None:
    log = Lublin().jobs(300, 64, np.random.default_rng(1)).at_load(0.9)
    measured = facts_of(Replay(log, decision_cost="measured(factor=1e6)"), "easy", _folder(tmp_path, "a"))
    again = Replay(log, decision_cost=f"replayed(trace='{tmp_path / 'a'}')")
    assert facts_of(again, "easy", _folder(tmp_path, "b")).equals(measured)
    facts_of(again, "easy", _folder(tmp_path, "c"))
    assert (tmp_path / "b" / TRACE).read_bytes() == (tmp_path / "c" / TRACE).read_bytes()
    assert not facts_of(Replay(log), "easy", _folder(tmp_path, "d")).equals(measured)


def test_replayed_costs_of_a_shorter_run_are_a_fault(tmp_path: Path) -> None:
    facts_of(
        Replay(log_of(ONE_NODE[:1], 1), decision_cost="fixed(seconds=3)"), "fcfs", _folder(tmp_path, "a")
    )
    other = Replay(log_of(ONE_NODE, 1), decision_cost=f"replayed(trace='{tmp_path / 'a'}')")
    (outcome,) = replay_all(other, ["fcfs"], tmp_path / "b", Inline(), False, Listener())
    assert f"broke the rule {COST_IS_KNOWN} (at 3 s): " in str(outcome.fault)


def test_in_an_experiment_decision_costs_delay_the_first_starts(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    run(tiny_experiment(tmp_path), tmp_path / "free")
    charged = run(
        tiny_experiment(tmp_path / "x", '[guard]\ndecision_cost = "fixed(seconds=7)"\n'), tmp_path / "charged"
    )
    assert not charged.faults
    for scheduler in charged.schedulers:
        before, after = (
            pl.read_parquet(tmp_path / folder / TRACE).filter(pl.col("scheduler") == scheduler)
            for folder in ("free", "charged")
        )
        first = pl.col("event") == Fact.RUN_STARTED
        delays = after.filter(first)["time_s"].min(), before.filter(first)["time_s"].min()
        assert delays == (7.0, 0.0)
        assert charges(after)[0] == (0.0, 7.0)


def test_a_cost_may_be_charged_to_some_schedulers_only(tmp_path: Path) -> None:
    path = tiny_experiment(
        tmp_path, '[guard]\ndecision_cost = { sjs = "fixed(seconds=7)" }\n', schedulers='["mct", "sjs"]'
    )
    assert not run(path, tmp_path / "out", workers=1).faults
    facts = pl.read_parquet(tmp_path / "out" / TRACE)
    charged = facts.filter(pl.col("event") == Fact.DECISION_CHARGED)["scheduler"].unique().to_list()
    assert charged == ["sjs"]


@pytest.mark.parametrize(
    ("name", "message"),
    {
        "fixed": "'fixed': seconds are missing",
        "fixed(seconds=-1)": "'seconds' is -1; expected 0 or more",
        "fixed(seconds=slow)": "'seconds' is 'slow'; expected a number",
        "measured(speed=2)": "there is no parameter 'speed'",
        "free": "unknown decision cost 'free'; expected one of none, fixed",
        "replayed(trace='nowhere')": "there is no file nowhere",
        "replayed": "name a folder of results",
    }.items(),
)
def test_an_invalid_decision_cost_is_rejected(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_decision_cost(name)


def test_costs_cannot_be_replayed_from_a_file_that_is_not_a_trace(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no trace")
    again = Replay(log_of(ONE_NODE, 1), decision_cost=f"replayed(trace='{tmp_path / 'text'}')")
    with pytest.raises(NoTrace, match="not a trace written by"):
        replay_all(again, ["fcfs"], tmp_path / "out", Inline(), False, Listener())


def test_the_trace_whose_costs_are_replayed_is_not_overwritten(tmp_path: Path) -> None:
    log = log_of(ONE_NODE, 1)
    replay_all(Replay(log, decision_cost="fixed(seconds=3)"), ["fcfs"], tmp_path, Inline(), False, Listener())
    before = (tmp_path / "fcfs" / TRACE).read_bytes()
    again = Replay(log, decision_cost=f"replayed(trace='{tmp_path / 'fcfs'}')")
    with pytest.raises(UserError, match="name another folder with --out"):
        replay_all(again, ["fcfs"], tmp_path, Inline(), False, Listener())
    assert (tmp_path / "fcfs" / TRACE).read_bytes() == before


def test_the_default_decision_cost_is_none() -> None:
    assert decision_cost("none", 0, 0, "easy") is None


def _folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name
