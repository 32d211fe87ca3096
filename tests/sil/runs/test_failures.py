"""What fails in experiments, and what is slow: racks, flapping, slow machines, jobs that fail."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from scheduler.mapping.etc import EtcMatrix
from scheduler.model import DispatchOrder, Job, JobId, RunId
from scheduler.ports import METHOD_OF, Notice, RunEnded, RunLost
from scheduler.resource_manager import RequeueLimit, ResourceManager
from sil.experiment.databases import Identity, batches
from sil.outcome.invariants.checker import REQUEUED_WITHIN_LIMIT, Capacity, first_violation
from sil.outcome.jobs import failed_job_table, job_table
from sil.outcome.metrics import run_metrics
from sil.outcome.trace_inspection import sentence
from sil.runs.scenario import Scenario, scenario_of
from sil.runs.simulation import RunKey
from sil.settings import experiment_file
from sil.site.site_in_use import SiteSource
from sil.trace.facts import FAILED, Fact, RunTables
from sil.trace.held import MACHINES_AS_TEXT
from sil.trace.recorder import TraceRecorder
from sil.world.actual_runtimes import ActualRuntimes, Variation
from sil.world.events import EventQueue, Rounds, SimClock, StateChange
from sil.world.failures import FailingRuns, Hindrances, RandomFailures, TimedChange, failing_runs
from sil.world.harness import World
from sil.world.machines.execution import DedicatedMachines, SimDispatcher
from sil.world.monitors import SimMonitor
from site_db.jobs.records import JobState
from tests.builders import description, site, tiny_experiment, trace
from tests.commands import sil, the_sentence
from tests.sil.experiment.test_experiment import facts_of, run
from tests.sil.runs.test_experiment_on_nodes import SITE as NODES
from tests.sil.runs.test_shared_experiment import EXPERIMENT as TIME_SHARED
from tests.sil.runs.test_shared_experiment import SITE as LAB
from tests.sil.slurm.installed import needs_slurm

pytestmark = pytest.mark.usefixtures("without_reports")

POISON = "[failures.jobs.poison]\nshare = 0.25\n"
ONLY_LONG = "mix = { long = 1 }\n"


def scenario(path: Path) -> Scenario:
    experiment = experiment_file.read_experiment(path)
    return scenario_of(
        experiment, SiteSource(experiment, path.parent, None).snapshot(path.parent / "site.db")
    )


def of(facts: pl.DataFrame, *kinds: Fact) -> pl.DataFrame:
    return facts.filter(pl.col("event").is_in(list(kinds)))


def failures(facts: pl.DataFrame) -> pl.DataFrame:
    return of(facts, Fact.RUN_LOST).filter(pl.col("detail") == FAILED)


# -- what goes down and comes back ---------------------------------------------------------------------------


def up_share(changes: Iterator[TimedChange], horizon_s: float) -> float:
    """Of the time of one group."""
    up_s, since_s, is_up = 0.0, 0.0, True
    for time_s, change in itertools.takewhile(lambda change: change[0] < horizon_s, changes):
        assert isinstance(change, StateChange)
        assert change.up is not is_up
        up_s += (time_s - since_s) * is_up
        since_s, is_up = time_s, change.up
    return up_s / since_s


@pytest.mark.parametrize("flapping", [(), (3, 2.0)])
def test_a_rack_is_available_for_its_time_between_failures_in_the_time_of_a_whole_cycle(
    flapping: tuple[Any, ...],
) -> None:
    process = RandomFailures(100.0, 25.0, *flapping)
    measured = up_share(process.changes([(0, 1, 2)], np.random.default_rng(1)), 1e6)
    flaps_s = process.times * process.each_s
    # Some 8,000 cycles: the standard deviation of the share is about 0.0025.
    assert measured == pytest.approx((100.0 + flaps_s) / (125.0 + 2 * flaps_s), abs=0.01)


def test_after_its_repair_a_flapping_machine_is_up_and_down_so_many_times() -> None:
    process = RandomFailures(1e6, 500.0, 2, 3.0)
    times_s = [time_s for time_s, _ in itertools.islice(process.changes([(0,)], np.random.default_rng(5)), 7)]
    steps_s = np.diff(times_s)
    assert steps_s[1:5] == pytest.approx([3.0] * 4)  # up, down, up, down, after the repair
    assert steps_s[5] > 1_000.0


def test_the_machines_of_a_rack_go_down_and_come_back_at_the_same_instants(tmp_path: Path) -> None:
    rack = (
        "[failures.groups.rack]\nsize = 2\nmean_time_between_failures_s = 200\nmean_time_to_repair_s = 30\n"
    )
    facts = facts_of(tiny_experiment(tmp_path, rack, jobs="40"), "pjs")
    changes = of(facts, Fact.MACHINE_DOWN, Fact.MACHINE_UP)
    of_machine = [
        changes.filter(pl.col("resource") == machine).select("time_s", "event").rows() for machine in range(4)
    ]
    assert len(of_machine[0]) > 2
    assert of_machine[0] == of_machine[1] != of_machine[2] == of_machine[3]


class Jumping(ResourceManager):
    """Starts its job on the other machine as soon as it is lost, and again at 9.5 s."""

    def __init__(self, dispatcher: SimDispatcher) -> None:
        self._dispatcher = dispatcher
        self._runs = itertools.count()
        self._job: Job | None = None
        self.losses: list[RunLost] = []

    def on_job_arrived(self, job: Job) -> str | None:
        self._job = job
        self._start(0)
        return None

    def on_run_lost(self, loss: RunLost) -> None:
        self.losses.append(loss)
        if len(self.losses) == 1:
            self._start(1)
            self.wakes_at_s = 9.5

    def on_time_passed(self) -> None:
        self.wakes_at_s = None
        self._start(1)

    def on_run_ended(self, completion: RunEnded) -> None:
        return

    def run_round(self) -> None:
        return

    def _start(self, machine: int) -> None:
        assert self._job is not None
        run = RunId(next(self._runs))
        self._dispatcher.dispatch(DispatchOrder(run, self._job, machine, (machine,), 10.0))


def test_when_a_run_is_lost_all_machines_of_the_rack_are_down_already() -> None:
    clock, events, recorder = SimClock(), EventQueue(), TraceRecorder()
    actual = ActualRuntimes(EtcMatrix.from_dense(np.full((1, 2), 10.0)), Variation(), np.full(1, 0.5))
    machines = DedicatedMachines(site(2), actual, events, ((0,), (1,)))
    changes = iter([(5.0, StateChange((0, 1), False)), (9.0, StateChange((0, 1), True))])
    world = World(clock, events, recorder, machines, SimMonitor(clock), Rounds(), changes)
    manager = Jumping(world.dispatcher)
    world.run([Job(JobId(0), "work", 0.0)], manager)
    assert [loss.found_down for loss in manager.losses] == [(0, 1), (1,)]
    facts = recorder.frame(0, 0, "jumping")
    ends = of(facts, Fact.RUN_LOST, Fact.ORDER_OVERTAKEN, Fact.RUN_ENDED)
    assert ends.select("time_s", "event").rows() == [
        (5.0, Fact.RUN_LOST),
        (5.0, Fact.ORDER_OVERTAKEN),
        (19.5, Fact.RUN_ENDED),
    ]


def test_more_kinds_of_failures_leave_the_others_as_they_were(tmp_path: Path) -> None:
    means = "mean_time_between_failures_s = 300\nmean_time_to_repair_s = 50\n"
    few = f"[failures]\n{means}"
    more = f"{few}[failures.interconnects]\n{means}[failures.groups.rack]\nsize = 4\n{means}{POISON}"
    changes = []
    for text in (few, more):
        of_both = scenario(tiny_experiment(tmp_path, text)).outages({"f1": 0, "f2": 1, "s1": 2, "s2": 3})
        changes.append(list(itertools.takewhile(lambda change: change[0] < 5_000.0, of_both)))
    alone, among_others = changes
    assert [change for change in among_others if change in alone] == alone
    assert len({time_s for time_s, _ in among_others}) == len(among_others), "the draws are the same"
    subjects = Counter(change.subjects for _, change in among_others if isinstance(change, StateChange))
    assert min(subjects["lan",], subjects[0, 1, 2, 3], subjects[0,]) > 5


# -- slow machines -------------------------------------------------------------------------------------------


def run_times(facts: pl.DataFrame, ending: Fact) -> pl.DataFrame:
    """The resource of each run with that ending, when it started, how long it took (run_s) and was expected
    to."""
    started = of(facts, Fact.RUN_STARTED).select("run", "expected_s", since_s="time_s")
    over = of(facts, ending).select("run", "job", "resource", "time_s").join(started, on="run")
    return over.with_columns(run_s=pl.col("time_s") - pl.col("since_s"))


def ratios(facts: pl.DataFrame) -> set[tuple[int, float]]:
    """The resources of completed runs, and their times in relation to the manager's estimates."""
    ratio = (pl.col("run_s") / pl.col("expected_s")).round(9)
    return set(run_times(facts, Fact.RUN_ENDED).select("resource", ratio).iter_rows())


SLOW = "[failures.slow_machines.one]\nmachines = ['f2']\nfactor = 1.5\n"


def test_a_run_takes_the_factor_longer_on_a_slow_machine_than_the_manager_expects(tmp_path: Path) -> None:
    facts = facts_of(tiny_experiment(tmp_path, SLOW, jobs="40"), "mct")
    assert ratios(facts) == {(0, 1.0), (1, 1.5), (2, 1.0), (3, 1.0)}


def test_a_cluster_is_as_slow_as_its_slowest_member(tmp_path: Path) -> None:
    path = tiny_experiment(tmp_path, "mix = { short = 1 }\n" + SLOW, jobs="1")
    assert ratios(facts_of(path, "pjs")) == {(4, 1.5)}


def test_factors_of_several_tables_multiply_while_their_periods_last(tmp_path: Path) -> None:
    slow = (
        "[failures.slow_machines.all]\nshare = 1.0\nfactor = 2.0\nfrom_s = 100\nto_s = 320\n"
        "[failures.slow_machines.worse]\nmachines = ['f1']\nfactor = 1.5\nfrom_s = 290\n"
    )
    facts = facts_of(tiny_experiment(tmp_path, ONLY_LONG + slow, jobs="40"), "olb")
    found = set()
    for machine, begins_s, run_s in (
        run_times(facts, Fact.RUN_ENDED).select("resource", "since_s", "run_s").rows()
    ):
        factors = (
            2.0 if 100.0 <= begins_s < 320.0 else 1.0,
            1.5 if machine == 0 and begins_s >= 290.0 else 1.0,
        )
        assert run_s == pytest.approx(factors[0] * factors[1] * (100.0 if machine < 2 else 300.0))
        found.add(factors)
    assert found == {(1.0, 1.0), (2.0, 1.0), (1.0, 1.5), (2.0, 1.5)}


def test_a_greater_share_of_slow_machines_has_those_of_a_smaller_one(tmp_path: Path) -> None:
    found = []
    for share in (0.25, 0.5):
        slow = f"[failures.slow_machines.some]\nshare = {share}\nfactor = 2\n"
        facts = facts_of(tiny_experiment(tmp_path, slow, jobs="40"), "mct")
        found.append({machine for machine, ratio in ratios(facts) if ratio == 2.0})
    assert [len(machines) for machines in found] == [1, 2]
    assert found[0] < found[1]


def on_nodes(folder: Path, more: str) -> Path:
    (folder / "shared.toml").write_text(NODES)
    path = folder / "nodes.toml"
    path.write_text(f"name = 'nodes'\nsite = 'shared.toml'\nschedulers = ['fcfs']\n{more}")
    return path


def test_a_slow_node_does_not_let_a_job_run_past_its_time_limit(tmp_path: Path) -> None:
    """Its limit is 40 s, and without that it would take 60 s; the other class has a limit of 1,000 s."""
    workload = "[workload]\njobs = 8\norder = 'cyclic'\nmix = {core = 1, wide = 1}\n"
    slow = "[failures.slow_machines.one]\nmachines = ['n1']\nfactor = 1.5\n"
    facts = facts_of(on_nodes(tmp_path, workload + slow), "fcfs")
    jobs = job_table(facts, 3).select("job_class", MACHINES_AS_TEXT, "execution_time")
    assert jobs.unique().sort(pl.all()).rows() == [("core", "0", 150.0), ("wide", "0-1", 40.0)]


# -- jobs that fail ------------------------------------------------------------------------------------------


def test_a_poison_job_runs_once_more_than_it_is_requeued_and_then_is_given_up(tmp_path: Path) -> None:
    more = "[failures.jobs.poison]\njob_classes = ['short']\nafter = 0.5\n"
    path = tiny_experiment(tmp_path, more, schedulers='["mct", "sjs"]\nmax_batch_requeue = 2', jobs="20")
    facts = facts_of(path, "sjs")
    classes = dict(of(facts, Fact.JOB_ARRIVED).select("job", "job_class").iter_rows())
    starts = Counter(of(facts, Fact.RUN_STARTED)["job"].to_list())
    assert {(classes[job], n) for job, n in starts.items()} == {("short", 3), ("long", 1)}
    given_up = of(facts, Fact.JOB_REFUSED)
    assert set(given_up["job"]) == {job for job, kind in classes.items() if kind == "short"}
    assert set(given_up["detail"]) == {"it failed 3 times, and is requeued 2 times at most"}
    lost = run_times(facts, Fact.RUN_LOST)
    assert lost["run_s"].to_list() == pytest.approx((lost["expected_s"] / 2).to_list())


def test_the_same_jobs_fail_equally_often_under_every_scheduler_and_again(tmp_path: Path) -> None:
    more = f"{POISON}[failures.jobs.flaky]\nprobability = 0.4\n"
    path = tiny_experiment(tmp_path, more, jobs="40")
    found = [Counter(failures(facts_of(path, name))["job"].to_list()) for name in ("mct", "pjs", "mct")]
    assert found[0] == found[1] == found[2]
    assert {1, 2, 6} <= set(found[0].values())  # a poison job has 1 + 5 runs
    assert facts_of(path, "pjs").equals(facts_of(path, "pjs"))


def test_a_run_that_is_lost_before_it_fails_does_not_count_as_one_that_failed() -> None:
    job = Job(JobId(0), "work", 0.0)
    hindrances = Hindrances(failing={job.id: FailingRuns(1, 0.5)})
    orders = [DispatchOrder(RunId(run), job, 0, (0,), 10.0) for run in range(3)]
    times_s = [hindrances.run_s(order, 10.0, 0.0) for order in orders[:2]]  # the first one is lost
    assert hindrances.has_failed(RunId(1), job.id)
    assert [*times_s, hindrances.run_s(orders[2], 10.0, 0.0)] == [5.0, 5.0, 10.0]
    assert not hindrances.has_failed(RunId(2), job.id)


def test_each_run_fails_with_the_probability_that_is_given() -> None:
    draws = np.random.default_rng(3).random(20_000)
    counts = np.array([failing_runs(0.3, 0.5, draw).n for draw in draws])
    more_often = np.array([failing_runs(0.6, 0.5, draw).n for draw in draws])
    for n in (1, 2, 3):
        assert (counts >= n).mean() == pytest.approx(0.3**n, abs=0.01)
    assert (more_often >= counts).all()


def test_failed_jobs_are_in_jobs_csv_and_count_in_no_metric_but_their_own(tmp_path: Path) -> None:
    path = tiny_experiment(tmp_path, POISON, jobs="20", replications="1")
    comparison = run(path, tmp_path / "out")
    jobs = pl.read_csv(tmp_path / "out" / "jobs.csv")
    failed = jobs.filter(pl.col("success") == 0)
    assert 0 < len(failed) < len(jobs) == 40
    assert set(failed["final_state"]) == {"COMPLETED_FAILED"}
    assert set(failed["attempts"]) == {6}
    assert failed["metadata"].str.starts_with("it failed 6 times").all()
    cells = [comparison.cell(0, "mct", key) for key in ("failed_share", "refused_share", "mean_turnaround")]
    of_one = jobs.filter(pl.col("scheduler") == "mct")
    ended = of_one.filter(pl.col("success") == 1)
    of_all = 100 * (of_one["success"] == 0).mean()
    means = [cell.value.mean for cell in cells if cell is not None]
    assert means == pytest.approx([of_all, 0.0, ended["turnaround_time"].mean()])
    (sentence_, _) = comparison.failures
    assert sentence_.startswith(f"mct: {len(failed) // 2} of 20 jobs failed")
    assert not comparison.refusals


def test_utilisation_has_failed_runs_up_to_the_last_end_of_a_completed_job() -> None:
    facts = trace(
        *((0.0, Fact.JOB_ARRIVED, {"job": job, "job_class": "a", "user": "u"}) for job in (0, 1)),
        (0.0, Fact.RUN_STARTED, {"job": 0, "run": 0, "resource": 0, "machines": [0]}),
        (0.0, Fact.RUN_STARTED, {"job": 1, "run": 1, "resource": 1, "machines": [1]}),
        (10.0, Fact.RUN_ENDED, {"job": 0, "run": 0, "resource": 0}),
        (30.0, Fact.RUN_LOST, {"job": 1, "run": 1, "resource": 1, "detail": FAILED}),
        (30.0, Fact.JOB_REFUSED, {"job": 1, "detail": "why"}),
    )
    metrics = run_metrics(RunTables.of(facts=facts), job_table(facts, 2), description(2))
    assert metrics.select("makespan", "utilisation", "failed_share").row(0) == (10.0, 100.0, 50.0)


@pytest.mark.usefixtures("in_this_process")
def test_utilisation_of_gpus_has_failed_runs(tmp_path: Path) -> None:
    """One of the two GPUs for half of the 30 s of a job that fails, within the 100 s of the other."""
    more = "max_batch_requeue = 0\n[workload]\njobs = 2\norder = 'cyclic'\nmix = {core = 1, gpu = 1}\n"
    poison = "[failures.jobs.poison]\njob_classes = ['gpu']\n"
    cell = run(on_nodes(tmp_path, more + poison), tmp_path / "out").cell(0, "fcfs", "gpu_utilisation")
    assert cell is not None
    assert cell.value.mean == pytest.approx(100 * 15 / 200)


def test_failed_runs_are_not_recorded_as_experience(tmp_path: Path) -> None:
    """Jobs of a class fail after a tenth of their time, which would shorten its estimates."""
    more = "mix = { short = 1 }\n[experience]\nlearning = 'run'\n"
    more += "[failures.jobs.poison]\nshare = 0.8\nafter = 0.1\n"
    facts = facts_of(tiny_experiment(tmp_path, more, jobs="60"), "mct")
    starts = of(facts, Fact.RUN_STARTED).filter(pl.col("resource") < 2)
    assert len(failures(facts)) > 60
    assert starts["expected_s"].round(9).unique().to_list() == [10.0]


def test_on_nodes_failed_runs_are_not_in_the_history_of_a_user(tmp_path: Path) -> None:
    workload = "nodes = {estimates = 'history'}\n[workload]\njobs = 30\nmix = {core = 1}\nusers = {ann = 1}\n"
    workload += "arrivals = {kind = 'poisson', jobs_per_quantum = 0.5}\n"
    poison = "[failures.jobs.poison]\nshare = 0.7\nafter = 0.1\n"
    facts = facts_of(on_nodes(tmp_path, workload + poison), "fcfs")
    expected_s = set(of(facts, Fact.RUN_STARTED)["expected_s"].round(6))
    assert expected_s == {1000.0, 100.0}  # the limit, until the user has completed two runs; then theirs
    assert len(failures(facts)) > 60


def test_on_time_shared_nodes_slow_nodes_and_failing_jobs_are_followed(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(LAB)
    path = tmp_path / "experiment.toml"
    more = "[failures.slow_machines.all]\nshare = 1\nfactor = 2\n\n[failures.jobs.poison]\nshare = 0.5\n\n"
    path.write_text(TIME_SHARED.replace("[shared_nodes]", f"{more}[shared_nodes]"))
    scheduler = experiment_file.read_experiment(path).schedulers[0]
    facts = facts_of(path, scheduler)
    assert not len(of(facts, Fact.FAULT))
    n_runs = Counter(of(facts, Fact.RUN_STARTED)["job"].to_list())
    assert {n_runs[job] for job in of(facts, Fact.JOB_REFUSED)["job"]} == {6}


def test_a_database_has_failed_jobs_as_failed_and_without_a_run(tmp_path: Path) -> None:
    path = tiny_experiment(tmp_path, POISON, jobs="20")
    made = scenario(path)
    tables = made.run(RunKey(0, 0, "mct"))
    ((_, records),) = batches(tables, made.resources, Identity.of(made))
    states = Counter(record.state for record in records)
    assert states[JobState.FAILED] == len(of(tables.facts, Fact.JOB_REFUSED)) > 0
    assert states[JobState.DONE] == 20 - states[JobState.FAILED]
    assert all(record.run_time_s is None for record in records if record.state is JobState.FAILED)


def test_a_failed_run_is_told_from_one_that_was_lost() -> None:
    columns: dict[str, Any] = {"job": 1, "run": 2, "resource": 0}
    rows = trace((1.0, Fact.RUN_LOST, columns | {"detail": FAILED}), (2.0, Fact.RUN_LOST, columns))
    told = [sentence(row) for row in rows.iter_rows(named=True)]
    assert told == ["the run of job 1 fails", "the run of job 1 is lost"]


# -- the limit of requeues -----------------------------------------------------------------------------------


class Noting(ResourceManager):
    def __init__(self) -> None:
        self.notices: list[RunEnded | RunLost] = []

    def on_job_arrived(self, job: Job) -> str | None:
        return None

    def on_run_ended(self, completion: RunEnded) -> None:
        self.notices.append(completion)

    def on_run_lost(self, loss: RunLost) -> None:
        self.notices.append(loss)

    def run_round(self) -> None:
        return


def test_the_last_failure_becomes_an_end_for_any_manager_and_lost_runs_do_not_count() -> None:
    manager, given_up = Noting(), list[JobId]()
    limited = RequeueLimit(manager, 1, lambda job, why: given_up.append(job))
    job = JobId(7)
    notices = [
        RunLost(RunId(0), 1.0, failed_job=job),
        RunLost(RunId(1), 2.0, found_down=(0,)),
        RunLost(RunId(2), 3.0, found_down=(0,)),
        RunLost(RunId(3), 4.0, failed_job=job),
    ]
    for loss in notices:
        limited.handle(loss)
    assert manager.notices == [*notices[:3], RunEnded(RunId(3), 4.0, failed=True)]
    assert given_up == [job]


def test_all_other_notices_reach_the_manager() -> None:
    kinds = [kind for kind in METHOD_OF if kind is not RunLost]
    manager, told = Noting(), list[Notice]()
    manager.handle = told.append  # type: ignore[assignment,method-assign]
    limited = RequeueLimit(manager, 1, lambda job, why: None)
    notices = [kind(*range(len(kind._fields))) for kind in kinds]
    for notice in notices:
        limited.handle(notice)
    assert told == notices


def _with_failed_runs(n: int, then: tuple[Fact, dict[str, Any]]) -> pl.DataFrame:
    rows: list[Any] = [(0.0, Fact.JOB_ARRIVED, {"job": 0, "job_class": "a", "user": "u"})]
    for k in range(n):
        rows.append((k + 1.0, Fact.RUN_STARTED, {"job": 0, "run": k, "resource": 0, "machines": [0]}))
        rows.append((k + 1.5, Fact.RUN_LOST, {"job": 0, "run": k, "resource": 0, "detail": FAILED}))
    return trace(*rows, (n + 2.0, *then))


GIVEN_UP = (Fact.JOB_REFUSED, {"job": 0, "detail": "why"})
STARTED = (Fact.RUN_STARTED, {"job": 0, "run": 9, "resource": 0, "machines": [0]})


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (_with_failed_runs(3, GIVEN_UP), None),
        (_with_failed_runs(2, GIVEN_UP), "job 0 is given up at 4 s, after 2 failed runs; 2 are allowed"),
        (_with_failed_runs(3, STARTED), "job 0 starts at 5 s after 3 failed runs; 2 are allowed"),
    ],
)
def test_a_job_is_given_up_after_one_failed_run_more_than_it_may_be_requeued(
    facts: pl.DataFrame, message: str | None
) -> None:
    breach = first_violation(facts, Capacity(1, max_batch_requeue=2))
    assert (breach and (breach.rule, breach.message)) == (message and (REQUEUED_WITHIN_LIMIT, message))


def test_the_times_of_a_failed_job_are_those_of_its_last_run() -> None:
    (row,) = failed_job_table(_with_failed_runs(3, GIVEN_UP), 1).rows(named=True)
    assert (row["starting_time"], row["finish_time"], row["attempts"], row["reason"]) == (3.0, 3.5, 3, "why")


# -- the table of the experiment file ------------------------------------------------------------------------


def test_the_share_of_failing_jobs_can_vary_over_a_grid(tmp_path: Path) -> None:
    more = f'{POISON}[grid]\n"failures.jobs.poison.share" = [0.0, 0.2, 1.0]\n'
    path = tiny_experiment(tmp_path, more, jobs="20", replications="1", schedulers='["mct"]')
    comparison = run(path, tmp_path / "out")
    cells = [comparison.cell(point, "mct", "failed_share") for point in range(3)]
    means = [cell.value.mean for cell in cells if cell is not None]
    assert (means[0], means[2]) == (0.0, 100.0)
    assert 0.0 < means[1] < 100.0


@pytest.mark.usefixtures("in_this_process")
@needs_slurm
def test_slurm_is_refused_where_runs_fail(tmp_path: Path) -> None:
    path = on_nodes(tmp_path, "[workload]\njobs = 2\nmix = {core = 1}\n" + POISON)
    path.write_text(path.read_text().replace("'fcfs'", "'slurm'"))
    told = the_sentence(sil("run", path, "--out", tmp_path / "out"))
    assert "Slurm's controller does not learn of runs that fail (failures.jobs)" in " ".join(told.split())
