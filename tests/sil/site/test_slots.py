"""Whole experiments on machines with several slots."""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats
from sqlalchemy import select
from sqlalchemy.orm import Session

from scheduler.mapping.problem import MappingProblem
from scheduler.model import Assignment, MachineReading, Schedule
from sil.outcome.jobs import job_table
from sil.planning.load import load
from sil.planning.options import retirements
from sil.planning.plan_file import RetireTable
from sil.runs.scenario import Scenario, scenario_of
from sil.runs.simulation import RunKey
from sil.settings.experiment_file import read_experiment
from sil.settings.notional import NotionalTable
from sil.site.site_in_use import SiteInUse, SiteSource
from sil.site.what_if_site import Absence, InapplicableChange
from sil.trace.facts import Fact
from sil.trace.held import MACHINES_AS_TEXT
from sil.trace.reading import read_trace
from sil.world.events import SimClock
from sil.world.monitors import Noisy, SimMonitor
from site_db import store
from site_db.schema import (
    ClusterRow,
    ExecutionHistoryRow,
    ExecutionStatisticsRow,
    JobRow,
    MachineRow,
    MachineStateRow,
)
from site_db.site_file.importing import put_site, read_site_file
from site_db.store import Address, parse_address
from tests.builders import tiny_experiment
from tests.commands import sil, succeeded, the_sentence
from tests.sil.experiment.test_experiment import facts_of, run
from tests.sil.experiment.test_learning import run as run_on
from tests.sil.planning.test_capacity import workload
from tests.sil.runs.test_queueing_theory_on_nodes import mean_wait_mdc_s, mean_wait_mmc_s
from tests.sil.site.test_notional import imagined, seconds

pytestmark = pytest.mark.usefixtures("without_reports", "in_this_process")

ONE_MACHINE = """
name = "tiny"
machine_classes = [{ name = "node" }]
machines = [{ names = ["n01"], machine_class = "node", slots = 64 }]
job_classes = [{ name = "hour", sequential_s = { node = 3600 } }]
"""
SLOTTED = """
name = "tiny"
machine_classes = [{ name = "node" }]
machines = [{ names = ["n[1-2]"], machine_class = "node", slots = 4 }]
clusters = [{ name = "pair", members = ["n[1-2]"], least_share = 0.5 }]
job_classes = [{ name = "work", sequential_s = { node = 100 }, parallel_s = { pair = 20 } }]
"""
ALONE = SLOTTED.replace(", parallel_s = { pair = 20 }", "")
N1_FAILS = '\n[[outages]]\nmachine = "n1"\nfrom_s = 50\nto_s = 500\n'


def events(facts: pl.DataFrame, *kinds: Fact) -> list[tuple[float, int, int | None]]:
    """Time, resource and job."""
    chosen = facts.filter(pl.col("event").is_in([kind.value for kind in kinds]))
    return chosen.select("time_s", "resource", "job").rows()


def scenario_in(path: Path) -> Scenario:
    experiment = read_experiment(path)
    return scenario_of(
        experiment, SiteSource(experiment, path.parent, None).snapshot(path.parent / "site.db")
    ).at(0)


# -- scheduling --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", ["mct", "olb", "sjs", "pjs"])
def test_64_jobs_of_an_hour_take_an_hour_on_64_slots(scheduler: str, tmp_path: Path) -> None:
    facts = facts_of(tiny_experiment(tmp_path, site_text=ONE_MACHINE, jobs="64"), scheduler)
    jobs = job_table(facts, 64)
    assert jobs["finish_time"].max() == 3600.0
    assert sorted(jobs["resource"]) == list(range(64))


def test_with_one_slot_each_nothing_has_another_name(tmp_path: Path) -> None:
    one = SLOTTED.replace("slots = 4", "slots = 1")
    site = imagined(tmp_path, site_text=one).site
    assert site.resource_names == ("n1", "n2", "pair")


def test_a_parallel_job_takes_all_slots_of_its_cluster(tmp_path: Path) -> None:
    facts = facts_of(tiny_experiment(tmp_path, site_text=SLOTTED, jobs="1"), "pjs")
    started = facts.filter(pl.col("event") == Fact.RUN_STARTED)
    assert started.select("resource", MACHINES_AS_TEXT, "tasks", "expected_s").rows() == [(8, "0-7", 8, 20.0)]
    assert events(facts, Fact.RUN_ENDED) == [(20.0, 8, 0)]


def test_a_parallel_job_takes_twice_as_long_on_one_of_two_machines(tmp_path: Path) -> None:
    outage = '\n[[outages]]\nmachine = "n1"\nfrom_s = 0\nto_s = 1000\n'
    facts = facts_of(tiny_experiment(tmp_path, outage, site_text=SLOTTED, jobs="1"), "pjs")
    started = facts.filter(pl.col("event") == Fact.RUN_STARTED).tail(1)
    assert started.select(MACHINES_AS_TEXT, "expected_s").rows() == [("4-7", 40.0)]
    assert events(facts, Fact.RUN_ENDED) == [(40.0, 8, 0)]


def test_utilisation_counts_slots(tmp_path: Path) -> None:
    comparison = run(tiny_experiment(tmp_path, site_text=ALONE, jobs="4"), tmp_path / "out")
    cell = comparison.cell(0, "mct", "utilisation")
    assert cell is not None
    assert cell.value.mean == pytest.approx(50.0), "four of eight slots"


class OnIdleSlots:
    """First come, first served, on slots without a run. MCT also considers runs that exceed their estimate,
    which may end at any moment."""

    kind = "mapping"

    def schedule(self, problem: MappingProblem) -> Schedule:
        busy = {j for running in problem.running.values() for j in running.machines}
        idle = [j for j in range(problem.ready_times.n_machines) if j not in busy]
        now_s, n = problem.now_s, len(problem.jobs)
        pairs = list(zip(range(n), idle, strict=False))
        waiting = dict.fromkeys(range(len(pairs), n), "no slot is free")
        return Schedule.of([Assignment(i, j, now_s, now_s + problem.etc[i, j]) for i, j in pairs], waiting)


@pytest.mark.parametrize(
    ("run_times", "scheduler", "mean_wait_s", "replications"),
    [
        pytest.param(
            'kind = "gamma"\ncoefficient_of_variation = 1.0',
            f"{__name__}:OnIdleSlots",
            mean_wait_mmc_s,
            40,
            marks=pytest.mark.long,
            id="exponential",
        ),
        pytest.param('kind = "exact"', "mct", mean_wait_mdc_s, 25, marks=pytest.mark.long, id="fixed"),
    ],
)
def test_the_mean_wait_on_the_slots_of_a_machine_is_that_of_theory(
    run_times: str,
    scheduler: str,
    mean_wait_s: Callable[[int, float, float], float],
    replications: int,
    tmp_path: Path,
) -> None:
    """Every job waits as in the recursion of Kiefer and Wolfowitz; the mean is within the 99 % interval of
    the replications: M/M/c (Erlang C) and M/D/c (Crommelin)."""
    slots, service_s, at_load, warm_up = 8, 1000.0, 0.8, 100
    site = ONE_MACHINE.replace("64", str(slots)).replace("3600", f"{service_s:g}")
    more = f"""
arrivals = {{ kind = "poisson", jobs_per_quantum = {slots * at_load}, quantum_s = {service_s} }}
[run_times]
{run_times}
[guard]
ask_twice = false
"""
    path = tiny_experiment(
        tmp_path,
        more,
        site_text=site,
        jobs="600",
        replications=str(replications),
        schedulers=f'["{scheduler}"]',
    )
    scenario = scenario_in(path)
    waits_s = []
    for replication in range(replications):
        jobs = job_table(scenario.run(RunKey(0, replication, scheduler)).facts, slots)
        free_s, expected_s = [0.0] * slots, []
        for arrival_s, run_s in jobs.select("submission_time", "execution_time").rows():
            start_s = max(arrival_s, heapq.heappop(free_s))
            heapq.heappush(free_s, start_s + run_s)
            expected_s.append(start_s - arrival_s)
        assert jobs["waiting_time"].to_list() == pytest.approx(expected_s, abs=1e-6)
        waits_s.append(np.mean(expected_s[warm_up:]))
    theory_s = mean_wait_s(slots, at_load, service_s)
    low, high = stats.t.interval(0.99, replications - 1, np.mean(waits_s), stats.sem(waits_s))
    assert low <= theory_s <= high, (low, theory_s, high)
    assert high - low < theory_s, "the interval says something"


# -- failures ----------------------------------------------------------------------------------------------


def test_an_outage_of_a_machine_loses_the_runs_in_all_its_slots(tmp_path: Path) -> None:
    facts = facts_of(tiny_experiment(tmp_path, N1_FAILS, site_text=ALONE, jobs="8"), "mct")
    assert events(facts, Fact.MACHINE_DOWN) == [(50.0, slot, None) for slot in range(4)]
    assert events(facts, Fact.MACHINE_UP) == []  # all is over before
    lost = events(facts, Fact.RUN_LOST)
    assert [(time_s, slot) for time_s, slot, _ in lost] == [(50.0, slot) for slot in range(4)]
    assert events(facts, Fact.ORDER_OVERTAKEN) == []
    again = [event for event in events(facts, Fact.RUN_STARTED) if event[0] > 0.0]
    assert [time_s for time_s, *_ in again] == [100.0] * 4
    assert {job for _, _, job in again} == {job for _, _, job in lost}


def test_an_outage_of_a_member_loses_the_run_of_its_cluster_once(tmp_path: Path) -> None:
    outage = N1_FAILS.replace("50\n", "5\n", 1)
    facts = facts_of(tiny_experiment(tmp_path, outage, site_text=SLOTTED, jobs="1"), "pjs")
    assert events(facts, Fact.RUN_LOST) == [(5.0, 8, 0)]
    assert events(facts, Fact.RUN_ENDED) == [(45.0, 8, 0)]


def test_an_order_for_a_slot_that_is_down_tells_of_all_slots_of_its_machine(tmp_path: Path) -> None:
    more = N1_FAILS.replace("50\n", "0\n", 1).replace("500", "5000") + "\n[monitors]\ndelay_s = 10000\n"
    facts = facts_of(tiny_experiment(tmp_path, more, site_text=ALONE, jobs="4"), "mct")
    # All four are planned in n1 in the first round; in the second, n1 is known to be down.
    assert events(facts, Fact.ORDER_OVERTAKEN) == [(0.0, slot, slot) for slot in range(4)]
    assert {slot for _, slot, _ in events(facts, Fact.RUN_STARTED)} == {4, 5, 6, 7}


def test_random_failures_are_those_of_machines(tmp_path: Path) -> None:
    failures = "\n[failures]\nmean_time_between_failures_s = 300\nmean_time_to_repair_s = 100\n"
    paths = []
    for slots in (1, 4):
        (folder := tmp_path / str(slots)).mkdir()
        site = ALONE.replace("slots = 4", f"slots = {slots}")
        paths.append(tiny_experiment(folder, failures, site_text=site, jobs="40"))
    of_one, of_four = (facts_of(path, "mct") for path in paths)
    assert of_four.filter(pl.col("event") == Fact.RUN_ENDED).height == 40
    kinds = (Fact.MACHINE_DOWN, Fact.MACHINE_UP)
    one, four = events(of_one, *kinds), events(of_four, *kinds)
    assert len(four) > 8
    assert [(time_s, slot % 4) for time_s, slot, _ in four] == [
        (time_s, k) for time_s in dict.fromkeys(time_s for time_s, *_ in four) for k in range(4)
    ]
    assert [(time_s, slot // 4) for time_s, slot, _ in four[::4]] == [
        (time_s, machine) for time_s, machine, _ in one
    ][: len(four) // 4]


def test_a_wrong_reading_of_a_machine_is_wrong_for_all_its_slots() -> None:
    clock = SimClock()
    monitor = SimMonitor(clock, [Noisy(0.5, 60.0, np.random.default_rng(0))])
    for k in range(1, 101):
        clock.now_s = float(k)
        monitor.observe((4, 5, 6), up=bool(k % 2))
    clock.now_s = 1000.0
    readings = [reading for reading in monitor.news() if isinstance(reading, MachineReading)]
    by_slot = [
        [(reading.up, reading.measured_s) for reading in readings if reading.machine == slot]
        for slot in (4, 5, 6)
    ]
    assert by_slot[0] == by_slot[1] == by_slot[2]
    assert len(by_slot[0]) > 100, "some were corrected"
    assert any(one == other for one, other in pairwise(up for up, _ in by_slot[0])), "some were wrong"


def test_an_outage_of_a_slot_is_refused(tmp_path: Path) -> None:
    path = tiny_experiment(tmp_path, N1_FAILS.replace('"n1"', '"n1/2"'), site_text=SLOTTED)
    assert "has no machine 'n1/2'" in the_sentence(sil("run", path, "--out", tmp_path / "out"))


# -- records -----------------------------------------------------------------------------------------------


def site_address(folder: Path, site_text: str) -> Address:
    (folder / "site.toml").write_text(site_text)
    address = parse_address(f"{folder / 'site.db'}#tiny")
    engine = store.create(address)
    with store.changing(engine) as session:
        put_site(session, read_site_file(folder / "site.toml"))
    engine.dispose()
    return address


def test_learning_records_machines_not_slots(tmp_path: Path) -> None:
    address = site_address(tmp_path, ALONE)
    run_on(tiny_experiment(tmp_path, site_text=ALONE, jobs="40"), address)
    engine = store.open_database(address)
    with Session(engine) as session:
        row, kept = ExecutionHistoryRow, ExecutionStatisticsRow
        names = select(MachineRow.name).join(row, row.machine_id == MachineRow.id)
        assert {*session.scalars(names)} == {"n1", "n2"}
        counts = select(MachineRow.name, kept.count).join(kept, kept.machine_id == MachineRow.id)
        # Three replications of two schedulers, with five rounds of eight jobs each.
        assert sorted(map(tuple, session.execute(counts))) == [("n1", 120), ("n2", 120)]
    engine.dispose()


def test_results_have_machines_with_one_state_each_and_clusters_with_members(tmp_path: Path) -> None:
    outage = N1_FAILS.replace("50\n", "30\n", 1).replace("500", "35")
    path = tiny_experiment(tmp_path, outage, site_text=SLOTTED, jobs="3", schedulers='["pjs"]')
    run(path, tmp_path / "out")
    facts, description = read_trace(tmp_path / "out" / "trace.parquet")
    assert description.machines == tuple(f"n{j}/{k}" for j in (1, 2) for k in range(1, 5))
    engine = store.open_file(tmp_path / "out" / "results.db")
    with Session(engine) as session:
        row, state = ExecutionHistoryRow, MachineStateRow
        states = select(MachineRow.name, state.since_unix_s, state.up).join(state).order_by(state.id)
        assert [tuple(one) for one in session.execute(states)] == 3 * [
            ("n1", 30.0, False),
            ("n1", 35.0, True),
        ]
        runs = select(ClusterRow.name, row.members).join(row, row.cluster_id == ClusterRow.id)
        in_parallel = [tuple(one) for one in session.execute(runs)]
        assert {("pair", 2)} <= set(in_parallel) <= {("pair", 1), ("pair", 2)}
        jobs = select(MachineRow.name).join(JobRow, JobRow.machine_id == MachineRow.id)
        alone = session.scalars(jobs).all()
        assert set(alone) <= {"n1", "n2"}
        assert len(in_parallel) + len(alone) == facts.filter(pl.col("event") == Fact.RUN_ENDED).height
    engine.dispose()


def test_why_names_the_slot_in_which_a_job_ran(tmp_path: Path) -> None:
    path = tiny_experiment(tmp_path, site_text=ALONE, schedulers='["mct"]')
    run(path, tmp_path / "out")
    assert "starts on n1/4" in sil("why", tmp_path / "out", "--job", "3").stdout


def test_the_machines_of_a_site_are_listed_with_their_slots(tmp_path: Path) -> None:
    address = site_address(tmp_path, ALONE)
    shown = sil("db", "show", "--db", str(address)).stdout
    assert "slots" in shown
    (row,) = json.loads(sil("db", "show", "--db", str(address), "--json").stdout)["machines"]
    assert (row["machines"], row["slots"]) == (2, 8)


# -- planning ----------------------------------------------------------------------------------------------


def slots_of(in_use: SiteInUse) -> dict[str, int]:
    return dict(zip(in_use.layout.machines, in_use.layout.slots.of_machine, strict=True))


def test_an_added_machine_has_the_slots_of_its_class(tmp_path: Path) -> None:
    in_use = imagined(tmp_path, {"add": "1 x node"}, site_text=ALONE)
    assert slots_of(in_use) == {"n1": 4, "n2": 4, "new-node-1": 4}
    assert seconds(in_use, "work")["new-node-1/4"] == 100.0


def test_an_added_machine_of_a_new_class_has_the_slots_that_are_given(tmp_path: Path) -> None:
    new = {"add": "1 x wide", "like": "node", "times_as_fast": 2.0}
    assert slots_of(imagined(tmp_path, new, site_text=ALONE))["new-wide-1"] == 1
    in_use = imagined(tmp_path, new | {"slots": 16}, site_text=ALONE)
    assert slots_of(in_use)["new-wide-1"] == 16
    assert seconds(in_use, "work")["new-wide-1/16"] == 50.0


def test_the_slots_of_a_class_with_different_ones_have_to_be_given(tmp_path: Path) -> None:
    mixed = ALONE.replace(
        "machines = [", 'machines = [{ names = ["n3"], machine_class = "node", slots = 2 }, '
    )
    with pytest.raises(InapplicableChange, match="class 'node' have 2 or 4 slots; give 'slots'"):
        imagined(tmp_path, {"add": "1 x node"}, site_text=mixed)
    assert slots_of(imagined(tmp_path, {"add": "1 x node", "slots": 2}, site_text=mixed))["new-node-1"] == 2


def test_a_machine_is_removed_and_upgraded_with_all_its_slots(tmp_path: Path) -> None:
    assert slots_of(imagined(tmp_path, {"remove": "1 x node"}, site_text=SLOTTED)) == {"n1": 4}
    faster = {"upgrade": "1 x node to new", "like": "node", "times_as_fast": 2.0}
    in_use = imagined(tmp_path, faster, site_text=ALONE)
    assert slots_of(in_use) == {"n1": 4, "n2": 4}
    assert [seconds(in_use, "work")[name] for name in ("n1/4", "n2/1", "n2/4")] == [100.0, 50.0, 50.0]
    changed = {"change": "node", "times_as_fast": 4.0}
    assert set(seconds(imagined(tmp_path, changed, site_text=ALONE), "work").values()) == {25.0}


def test_an_absent_machine_is_absent_with_all_its_slots(tmp_path: Path) -> None:
    in_use = imagined(tmp_path, {"remove": "n1", "from_s": 50.0}, site_text=ALONE)
    assert in_use.absences == (Absence("n1", 50.0, float("inf")),)
    path = tiny_experiment(tmp_path, '[[notional]]\nremove = "n1"\nfrom_s = 50\n', site_text=ALONE, jobs="8")
    facts = facts_of(path, "mct")
    assert [(time_s, slot) for time_s, slot, _ in events(facts, Fact.RUN_LOST)] == [
        (50.0, slot) for slot in range(4)
    ]


def test_a_machine_that_is_down_at_the_site_is_down_with_all_its_slots(tmp_path: Path) -> None:
    address = site_address(tmp_path, ALONE)
    succeeded("db", "state", "n2", "down", "--db", str(address))
    run_on(tiny_experiment(tmp_path, site_text=ALONE, jobs="8"), address)
    facts, _ = read_trace(tmp_path / "out" / "trace.parquet")
    assert set(facts.filter(pl.col("event") == Fact.RUN_STARTED)["resource"]) == {0, 1, 2, 3}


def test_capacity_counts_slots_and_a_cluster_takes_them_all(tmp_path: Path) -> None:
    table = workload(0.04, work=1.0)
    alone, with_pair = (imagined(tmp_path, site_text=text) for text in (ALONE, SLOTTED))
    found = [load(table, in_use) for in_use in (alone, with_pair)]
    # Eight slots carry 0.08 jobs/s; the pair would do 0.05.
    assert [one and one.rho for one in found] == pytest.approx([0.5, 0.5])


def test_machines_are_retired_as_a_whole(tmp_path: Path) -> None:
    options = retirements(RetireTable(count=1), imagined(tmp_path, site_text=ALONE))
    assert [(option.name, option.changes) for option in options] == [
        ("without 1 x node of pair", (NotionalTable(remove="n2"),))
    ]


def test_indices_of_slots_lead_to_machines_and_those_of_clusters_to_clusters(tmp_path: Path) -> None:
    scenario = scenario_in(tiny_experiment(tmp_path, site_text=SLOTTED))
    held = ((0, 1), (7, 1), (8, 8), (8, 4), (None, 1))
    assert [scenario.resources.recorded(*of_run) for of_run in held] == [
        ("n1", 1), ("n2", 1), ("pair", 2), ("pair", 1), (None, 1),
    ]  # fmt: skip
