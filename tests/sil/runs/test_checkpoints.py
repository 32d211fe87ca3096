"""Checkpoints: what a job has saved when its run is lost or preempted, and what that loses."""

from __future__ import annotations

from dataclasses import replace
from math import expm1, sqrt
from pathlib import Path
from random import Random

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model import DispatchOrder, Job, JobId, RunId
from scheduler.node_request import Node, Partition, Request
from scheduler.priority.policy import Preempted, PreemptMode, SitePolicy
from sil.experiment.replay import replay_all
from sil.experiment.replay_folder import read
from sil.outcome.jobs import job_table, run_table
from sil.outcome.metrics import run_metrics
from sil.outcome.run_parts import run_parts
from sil.report.analysis import ALL_JOBS
from sil.report.replay.page import schedule_sections
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.settings.files import FIXTURES
from sil.settings.log_events import Events, NodesUpdated
from sil.settings.replays import Engine
from sil.trace.facts import Fact, RunTables
from sil.workers.executor import Inline, Listener
from sil.workload.job_log import log_on_nodes
from sil.world.failures import Checkpoints, Hindrances, SlowMachines
from site_db.site_file.cluster import SiteNodes
from tests.builders import description, tiny_experiment
from tests.commands import sil, succeeded, the_sentence
from tests.examples import up_to
from tests.sil.experiment.test_experiment import facts_of
from tests.sil.experiment.test_replay import shown_by
from tests.sil.runs import test_suspension_on_nodes as suspension
from tests.sil.runs.test_engines import log_of
from tests.sil.runs.test_shared_experiment import EXPERIMENT as TIME_SHARED
from tests.sil.runs.test_shared_experiment import SITE as LAB

pytestmark = pytest.mark.usefixtures("in_this_process", "without_reports")

RUNS = (Fact.RUN_STARTED, Fact.RUN_LOST, Fact.RUN_PREEMPTED, Fact.RUN_ENDED)
Outages = list[tuple[float, float]]


def outages_of(outages: Outages) -> Events:
    states = [(at_s, state) for pair in outages for at_s, state in zip(pair, ("DOWN", "RESUME"), strict=True)]
    return Events(on_nodes=tuple(NodesUpdated(at_s, "n", state) for at_s, state in states))


def on_one_node(
    jobs: list[tuple[float, float]], outages: Outages, interval_s: float, cost_s: float
) -> Replay:
    """Jobs (arrival, work) for the only node, which is down from a time to another."""
    node, request = Node(1, partitions=frozenset({"p"})), Request()
    rows = [(k, at_s, work_s, 1, 3 * work_s, 0, 0) for k, (at_s, work_s) in enumerate(jobs, start=1)]
    log = log_on_nodes("x", rows, SiteNodes({"n": node}, {"p": Partition("p")}, {}), [request])
    events = outages_of(outages)
    return Replay(log, events=events, checkpoint_interval_s=interval_s, checkpoint_cost_s=cost_s)


def times_of(facts: pl.DataFrame) -> list[tuple[str, int, float]]:
    found = facts.filter(pl.col("event").is_in(RUNS)).select("event", "job", "time_s")
    return [(Fact(event).value, job, time_s) for event, job, time_s in found.iter_rows()]


def test_a_job_restarts_from_its_last_complete_checkpoint(tmp_path: Path) -> None:
    """Of 100 s of work, with checkpoints of 5 s after each 30 s; the second is not complete at 69 s."""
    replay = on_one_node([(0, 100)], [(69, 80)], 30, 5)
    facts = replay.facts(resolve("fcfs"), tmp_path / "printed")
    assert times_of(facts) == [
        ("run_started", 1, 0),
        ("run_lost", 1, 69),
        ("run_started", 1, 80),
        ("run_ended", 1, 80 + (100 - 30) + 2 * 5),
    ]
    assert facts.filter(event=Fact.RUN_LOST)["expected_s"].to_list() == [69 - 35]


def test_the_results_of_a_replay_say_what_was_lost(tmp_path: Path) -> None:
    replay = on_one_node([(0, 100), (0, 50)], [(69, 80)], 30, 5)
    found = replay.run(resolve("fcfs"), tmp_path).statistics
    assert (found["interrupted_runs"], found["lost_hours"]) == (1, 34 / 3600)
    jobs = pl.read_csv(tmp_path / "jobs.csv").select("job_id", "restarts", "lost_time", "execution_time")
    assert jobs.rows() == [(1, 1, 34.0, 80.0), (2, 0, 0.0, 55.0)]
    said = " ".join(succeeded("why", tmp_path / "trace.parquet", "--job", "1").stdout.split())
    assert "the run of job 1 is lost; 34 s since its last checkpoint" in said
    assert "Work lost with interrupted runs: 34 s." in said


def test_without_checkpoints_all_work_of_a_run_is_lost(tmp_path: Path) -> None:
    replay = replace(on_one_node([(0, 100)], [(69, 80)], 30, 0), checkpoint_interval_s=None)
    facts = replay.facts(resolve("fcfs"), tmp_path / "printed")
    assert times_of(facts)[-1] == ("run_ended", 1, 180)
    assert run_table(facts)["lost_s"].to_list() == [69.0, 0.0]


def in_tiers(
    rows: list[suspension.ROW], policy: SitePolicy, interval_s: float, down: Outages | None = None
) -> Replay:
    """Jobs for all of the only node, in partitions of rising tiers."""
    tiers = suspension.TIERS
    node = replace(Node(4), partitions=frozenset(tiers))
    cluster = SiteNodes({"n": node}, {name: Partition(name) for name in tiers}, {}, policy=policy)
    numbered = [(k, at_s, run_s, 4, most_s, 0, x) for k, (at_s, run_s, most_s, x) in enumerate(rows, start=1)]
    log = log_on_nodes("x", numbered, cluster, [suspension.within(tier, cores=4) for tier in tiers])
    return Replay(log, events=outages_of(down or []), checkpoint_interval_s=interval_s)


def test_a_run_does_no_work_while_it_is_suspended(tmp_path: Path) -> None:
    """It runs until 10 s and from 30 s on, and is lost at 50 s: of 30 s of work, 25 s are saved."""
    replay = in_tiers([(0, 100, 100, 0), (10, 20, 20, 1)], suspension.policy(), 25, [(50, 60)])
    facts = replay.facts(resolve("easy"), tmp_path / "printed")
    lost = run_table(facts).filter(ending=Fact.RUN_LOST).select("suspended_s", "lost_s")
    assert lost.rows() == [(20, 5)]
    assert times_of(facts)[-1] == ("run_ended", 1, 50 + 121 + 75)


def test_a_preempted_job_keeps_what_it_has_saved(tmp_path: Path) -> None:
    requeue = suspension.policy(Preempted(PreemptMode.REQUEUE))
    facts = in_tiers([(0, 100, 100, 0), (45, 10, 10, 1)], requeue, 20).facts(resolve("easy"), tmp_path / "x")
    assert times_of(facts)[1] == ("run_preempted", 1, 45)
    assert times_of(facts)[-2:] == [("run_started", 1, 45 + 121), ("run_ended", 1, 45 + 121 + 60)]


def test_on_a_slow_machine_checkpoints_are_as_slow_as_work() -> None:
    hindrances = Hindrances([SlowMachines(frozenset({1}), 3.0)], checkpoints=Checkpoints(10.0))
    slow, usual = (
        DispatchOrder(RunId(machine), Job(JobId(0), "work", 0.0), machine, (machine,), 100.0)
        for machine in (1, 0)
    )
    assert hindrances.run_s(slow, 100.0, 0.0) == 300.0
    assert hindrances.lost_s(slow, 300.0 - 65.0) == 5.0
    assert hindrances.run_s(usual, 100.0, 65.0) == 80.0


def test_on_machines_where_a_job_takes_longer_it_has_saved_the_same_share() -> None:
    hindrances, job = Hindrances(checkpoints=Checkpoints(10.0)), Job(JobId(0), "work", 0.0)
    orders = [DispatchOrder(RunId(run), job, 0, (0,), 100.0) for run in range(2)]
    assert hindrances.run_s(orders[0], 100.0, 0.0) == 100.0
    assert hindrances.lost_s(orders[0], 100.0 - 55.0) == 5.0
    assert hindrances.run_s(orders[1], 300.0, 0.0) == 150.0


# -- an independent small implementation ---------------------------------------------------------------------


def small_fcfs(
    jobs: list[tuple[float, float]], outages: Outages, interval_s: float, cost_s: float
) -> tuple[list[float], float]:
    """When jobs end that run one after the other on one node, and what they lose: by walking from one
    checkpoint to the next."""
    now_s, lost_s, ends_s, down = 0.0, 0.0, [], [*outages]
    for arrival_s, work_s in jobs:
        now_s, left_s = max(now_s, arrival_s), work_s
        while True:
            while down and down[0][1] <= now_s:
                down.pop(0)
            if down and down[0][0] <= now_s:
                now_s = down[0][1]
                continue
            began_s = now_s
            while left_s > 0.0:
                is_last = left_s <= interval_s
                saved_s = began_s + (left_s if is_last else interval_s + cost_s)
                if down and down[0][0] < saved_s:
                    lost_s += down[0][0] - began_s
                    break
                began_s, left_s = saved_s, 0.0 if is_last else left_s - interval_s
            now_s = began_s if left_s == 0.0 else down[0][1]
            if left_s == 0.0:
                break
        ends_s.append(now_s)
    return ends_s, lost_s


@st.composite
def days(draw: st.DrawFn) -> tuple[list[tuple[float, float]], Outages]:
    gaps = draw(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 90)), min_size=1, max_size=6))
    jobs, arrival_s = [], 0.0
    for gap, work in gaps:
        arrival_s += gap
        jobs.append((arrival_s, float(work)))
    outages, at_s = [], 0.0
    for gap, down in draw(st.lists(st.tuples(st.integers(1, 70), st.integers(1, 20)), max_size=8)):
        outages.append((at_s + gap + 0.5, at_s + gap + 0.5 + down))
        at_s += gap + down + 1
    return jobs, outages


@given(days(), st.integers(3, 40), st.integers(0, 6))
@settings(max_examples=up_to(150), deadline=None)
def test_an_independent_implementation_finds_the_same_ends_and_losses(
    day: tuple[list[tuple[float, float]], Outages], interval: int, cost: int
) -> None:
    jobs, outages = day
    facts = on_one_node(jobs, outages, interval, cost).facts(resolve("fcfs"), Path("printed"))
    ends_s, lost_s = small_fcfs(jobs, outages, interval, cost)
    assert facts.filter(event=Fact.RUN_ENDED).sort("job")["time_s"].to_list() == ends_s
    assert run_table(facts)["lost_s"].sum() == pytest.approx(lost_s)


# -- closed forms --------------------------------------------------------------------------------------------

WORK_S, COST_S, BETWEEN_S, N = 3_000.0, 20.0, 1_000.0, 60
FAILURES = f"[failures]\nmean_time_between_failures_s = {BETWEEN_S}\nmean_time_to_repair_s = 0.001\n"


def many_jobs(folder: Path, interval_s: float, n: int = N) -> pl.DataFrame:
    """A job on each of n machines, which fail at random and are back at once."""
    site = 'name = "many"\nmachine_classes = [{ name = "one" }]\n'
    site += f'machines = [{{ names = ["n[1-{n}]"], machine_class = "one" }}]\n'
    site += f'[[job_classes]]\nname = "work"\nsequential_s = {{ one = {WORK_S} }}\n'
    keys = f"checkpoint_interval_s = {interval_s}\ncheckpoint_cost_s = {COST_S}"
    changes = {"schedulers": f'["olb"]\n{keys}', "replications": "1", "jobs": str(n)}
    return facts_of(tiny_experiment(folder, FAILURES, site, **changes), "olb")


def expected_s(interval_s: float) -> float:
    """The expected turnaround: each part of it is tried again until no failure interrupts it (Daly 2006)."""
    n = WORK_S / interval_s
    assert n == round(n)
    whole, last = (expm1(part_s / BETWEEN_S) for part_s in (interval_s + COST_S, interval_s))
    return BETWEEN_S * ((n - 1) * whole + last)


def test_work_lost_and_turnaround_are_those_expected_with_failures_at_random(tmp_path: Path) -> None:
    facts = many_jobs(tmp_path, 300.0)
    jobs, runs = job_table(facts, N), run_table(facts)
    turnaround_s = jobs["turnaround_time"].to_numpy()
    error_s = 4 * turnaround_s.std() / sqrt(N)
    assert turnaround_s.mean() == pytest.approx(expected_s(300.0), abs=error_s)
    # Of the time to a failure, what exceeds whole periods; only the last part of a job is shorter.
    lost_s = runs.filter(pl.col("ending") != Fact.RUN_ENDED)["lost_s"].to_numpy()
    period_s = 300.0 + COST_S
    mean_s = BETWEEN_S - period_s / expm1(period_s / BETWEEN_S)
    assert lost_s.mean() == pytest.approx(mean_s, abs=4 * lost_s.std() / sqrt(len(lost_s)) + 1.0)
    row = run_metrics(RunTables.of(facts=facts), jobs, description(N)).row(0, named=True)
    found = row["interrupted_runs"], row["lost_hours"]
    assert found == (len(lost_s), pytest.approx(lost_s.sum() / 3600))
    assert jobs["lost_time"].to_numpy().sum() == pytest.approx(lost_s.sum())


@pytest.mark.long
def test_the_best_interval_of_a_sweep_is_that_of_young(tmp_path: Path) -> None:
    """Young 1974: the square root of twice the cost times the mean time between failures, here 200 s."""
    best_s = sqrt(2 * COST_S * BETWEEN_S)
    intervals_s = [best_s * factor for factor in (0.25, 0.5, 1.0, 2.5, 5.0)]
    tables = {each: job_table(many_jobs(tmp_path, each, 2 * N), 2 * N) for each in intervals_s}
    found = {each: float(table["turnaround_time"].to_numpy().mean()) for each, table in tables.items()}
    assert min(found, key=found.__getitem__) == best_s
    for each, mean_s in found.items():
        assert mean_s == pytest.approx(expected_s(each), rel=0.05)


# -- settings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", ["easy", "conservative"])
def test_both_engines_have_the_costs_of_checkpoints(scheduler: str) -> None:
    log = log_of([(k, 7.0 * k, 10.0 * (k % 9), 1 + k % 3, 100.0, 0) for k in range(1, 60)], 4)
    both = [
        Replay(log, engine=engine, checkpoint_interval_s=15.0, checkpoint_cost_s=2.5).facts(
            resolve(scheduler), Path("printed")
        )
        for engine in (Engine.COMPILED, Engine.HARNESS)
    ]
    assert both[0].equals(both[1])
    ran_s = run_table(both[0]).select(pl.col("until_s") - pl.col("from_s"), "job").sort("job").rows()
    assert ran_s[7:9] == [(80.0 + 5 * 2.5, 8), (0.0, 9)]


def test_a_cost_without_an_interval_is_refused(tmp_path: Path) -> None:
    sentence = "has no effect without"
    path = tiny_experiment(tmp_path, jobs="3", replications="1\ncheckpoint_cost_s = 3")
    assert f"checkpoint_cost_s {sentence} checkpoint_interval_s" in the_sentence(sil("run", path))
    result = sil("replay", FIXTURES / "logs" / "archive.swf", "--checkpoint-cost", "3")
    assert f"--checkpoint-cost {sentence} --checkpoint-interval; give both" in result.stderr


def test_on_time_shared_nodes_checkpoints_are_refused(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(LAB)
    (tmp_path / "e.toml").write_text("checkpoint_interval_s = 60\n" + TIME_SHARED)
    assert "checkpoint_interval_s has no effect" in the_sentence(sil("run", tmp_path / "e.toml"))


# -- charts --------------------------------------------------------------------------------------------------


def test_the_parts_of_runs_leave_out_suspensions_and_have_lost_runs(tmp_path: Path) -> None:
    replay = in_tiers([(0, 100, 100, 0), (10, 20, 20, 1)], suspension.policy(), 25, [(50, 60)])
    facts = replay.facts(resolve("easy"), tmp_path / "printed")
    rows = run_parts(facts, [4]).sort("from_s").rows()
    assert rows == [
        (1, 0.0, 10.0, 0, 4, True),
        (2, 10.0, 30.0, 0, 4, False),
        (1, 30.0, 50.0, 0, 4, True),
        (1, 171.0, 246.0, 0, 4, False),
    ]


def test_a_gantt_chart_of_nodes_has_the_parts_of_runs(tmp_path: Path) -> None:
    replay = in_tiers([(0, 100, 100, 0), (10, 20, 20, 1)], suspension.policy(), 25)
    replay_all(replay, [resolve("easy")], tmp_path / "out", Inline(), ALL_JOBS, Listener())
    replayed = read(tmp_path / "out")
    (section,) = schedule_sections(replayed)
    assert section.parts[0].chart is not None
    drawn = shown_by(section.parts[0].chart).sort("from").with_columns(pl.col("from", "until") * 86_400)
    columns = [drawn[name].round(3).to_list() for name in ("from", "until")]
    assert [drawn["job"].to_list(), *columns] == [[1, 2, 1], [0, 10, 30], [10, 30, 120]]


@pytest.mark.long
def test_a_log_of_100_000_jobs_with_preemption_outages_and_checkpoints_keeps_its_invariants(
    tmp_path: Path,
) -> None:
    """`fault` would name an invariant that is broken; the harness takes 75 s."""
    rng, tiers, at_s = Random(1), suspension.TIERS, 0.0
    nodes = {f"n{k}": Node(16, partitions=frozenset(tiers)) for k in range(64)}
    how = suspension.policy(Preempted(PreemptMode.REQUEUE), Preempted(PreemptMode.SUSPEND))
    cluster = SiteNodes(nodes, {name: Partition(name) for name in tiers}, {}, policy=how)
    requests = [suspension.within(tier, chunks=n, cores=k) for tier in tiers for n in (1, 2) for k in (2, 8)]
    rows = []
    for job in range(1, 100_001):
        at_s += float(rng.randrange(121))
        which, run_s = rng.choices(range(12), [4] * 8 + [1] * 4)[0], float(rng.choice([600, 3_600, 7_200]))
        rows.append((job, at_s, run_s, int(requests[which].cpus), 2 * run_s, 0, which))
    downs = sorted((float(rng.randrange(int(at_s))), f"n{rng.randrange(64)}") for _ in range(500))
    states = [NodesUpdated(s, node, "DOWN") for s, node in downs]
    states += [NodesUpdated(s + 7_200.0, node, "RESUME") for s, node in downs]
    log, events = log_on_nodes("x", rows, cluster, requests), Events(on_nodes=tuple(sorted(states)))
    replay = Replay(log, events=events, checkpoint_interval_s=1_800.0, checkpoint_cost_s=30.0)
    results = replay.results(resolve("easy"), tmp_path / "printed")
    assert results.fault is None
    assert results.statistics["interrupted_runs"] > 500
    assert results.statistics["lost_hours"] > 500
