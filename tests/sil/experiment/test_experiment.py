"""End-to-end experiments on four machines: traces, determinism, faults and resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from scheduler import rules
from scheduler.mapping.greedy import Sjs
from sil.experiment.run import JOBS, Definition, SiteChoice, run_experiment
from sil.outcome.comparison import Comparison
from sil.runs.machines_scenario import MachinesScenario
from sil.runs.scenario import DoesNotFit, scenario_of
from sil.runs.simulation import RunKey
from sil.settings import experiment_file
from sil.site.site_in_use import SiteSource
from sil.trace.facts import Fact, RunTables
from sil.workers.executor import Inline, Interrupted, Listener
from sil.workers.processes import Processes
from sil.workers.store import Store
from sil.world.guard.faults import KILLED
from tests import faulty
from tests.builders import TINY_SITE, tiny_experiment
from tests.commands import sil

pytestmark = pytest.mark.usefixtures("without_reports")

ROOT = Path(__file__).parents[3]
FAULTY_IN_AN_EXPERIMENT = {
    kind: rule
    for kind, rule in faulty.BROKEN_RULE.items()
    if kind not in (faulty.FailsOnLargeProblems, faulty.WritesIntoTheProblem, faulty.WorksOnlyOnce)
}
"""All but those whose fault these small experiments give no occasion for."""


def run(path: Path, out: Path, workers: int = 1) -> Comparison:
    with Processes(workers) if workers > 1 else Inline() as executor:
        return run_experiment(
            Definition(experiment_file.read_experiment(path), path), out, executor, SiteChoice(), Listener()
        )


def facts_of(path: Path, scheduler: str, replication: int = 0) -> pl.DataFrame:
    experiment = experiment_file.read_experiment(path)
    in_use = SiteSource(experiment, path.parent, None).snapshot(path.parent / "site.db")
    experiment = experiment.model_copy(update={"schedulers": (scheduler,)})
    return scenario_of(experiment, in_use).at(0).run(RunKey(0, replication, scheduler)).facts


def timed_events(facts: pl.DataFrame) -> list[tuple[float, str, int | None, int | None]]:
    return facts.select("time_s", "event", "job", "resource").rows()


TWO_QUEUES = """
[[queues]]
name = "high"
priority = 2
displaces = ["low"]

[[queues]]
name = "low"
priority = 1
"""


def test_golden_trace_of_one_job_that_gets_the_whole_pair(tmp_path: Path) -> None:
    path = tiny_experiment(tmp_path, "mix = { short = 1 }", jobs="1")
    assert timed_events(facts_of(path, "pjs")) == [
        (0.0, Fact.JOB_ARRIVED, 0, None),
        (0.0, Fact.RUN_STARTED, 0, 4),
        (6.0, Fact.RUN_ENDED, 0, 4),
    ]


def test_golden_trace_of_three_jobs_for_which_the_pair_does_not_pay(tmp_path: Path) -> None:
    # Alone on f1 and f2: 10 + 10 + 20 = 40. With job 0 on the pair, the others follow at 16, 16: 6 + 32 = 38,
    # so that is taken; with job 1 on the pair as well: 6 + 12 + 22 = 40, which is worse, and PJS stops.
    path = tiny_experiment(tmp_path, "mix = { short = 1 }", jobs="3")
    assert timed_events(facts_of(path, "pjs")) == [
        (0.0, Fact.JOB_ARRIVED, 0, None),
        (0.0, Fact.JOB_ARRIVED, 1, None),
        (0.0, Fact.JOB_ARRIVED, 2, None),
        (0.0, Fact.RUN_STARTED, 0, 4),
        (6.0, Fact.RUN_ENDED, 0, 4),
        (6.0, Fact.RUN_STARTED, 1, 0),
        (6.0, Fact.RUN_STARTED, 2, 1),
        (16.0, Fact.RUN_ENDED, 1, 0),
        (16.0, Fact.RUN_ENDED, 2, 1),
    ]


def test_a_high_job_displaces_a_low_one_which_restarts_from_zero(tmp_path: Path) -> None:
    one_machine = TINY_SITE.replace("f[1-2]", "f1").replace('"f1", "f2"', '"f1"').replace("s[1-2]", "s1")
    workload = """
queues = { high = 1, low = 1 }
mix = { long = 1 }
arrivals = { kind = "poisson", jobs_per_quantum = 1.0, quantum_s = 40.0 }
"""
    path = tiny_experiment(tmp_path, workload, site_text=one_machine + TWO_QUEUES, jobs="8")
    facts = facts_of(path, "mct")
    queue_of = dict(facts.filter(pl.col("event") == Fact.JOB_ARRIVED).select("job", "queue").rows())
    preempted = facts.filter(pl.col("event") == Fact.RUN_PREEMPTED)
    assert len(preempted) > 0
    assert {queue_of[job] for job in preempted["job"]} == {"low"}
    started = facts.filter(pl.col("event") == Fact.RUN_STARTED)
    ended = facts.filter(pl.col("event") == Fact.RUN_ENDED)
    whole = started.join(ended, on="run", suffix="_end").with_columns(
        run_s=(pl.col("time_s_end") - pl.col("time_s")).round(6)
    )
    assert set(whole["run_s"]) <= {100.0, 300.0}


def test_jobs_of_users_without_access_to_a_queue_are_refused_with_the_reason(tmp_path: Path) -> None:
    queues = '\n[[queues]]\nname = "staff"\nusers = ["ann"]\n'
    workload = "queues = { staff = 1 }\nusers = { ann = 1, bob = 1 }\n"
    path = tiny_experiment(tmp_path, workload, site_text=TINY_SITE + queues)
    facts = facts_of(path, "mct")
    refused = facts.filter(pl.col("event") == Fact.JOB_REFUSED)
    assert 0 < len(refused) < 12
    assert set(refused["detail"]) == {"user 'bob' may not submit to queue 'staff'"}


def test_outages_lose_runs_and_every_job_still_ends(tmp_path: Path) -> None:
    outages = """
[[outages]]
machine = "f1"
from_s = 5
to_s = 200

[[outages]]
interconnect = "lan"
from_s = 1
to_s = 3

[failures]
mean_time_between_failures_s = 400
mean_time_to_repair_s = 50

[monitors]
delay_s = 20
misread_share = 0.2
"""
    path = tiny_experiment(tmp_path, outages, jobs="40")
    for scheduler in ("pjs", "olb", "sufferage"):
        facts = facts_of(path, scheduler)
        counts = dict(facts.group_by("event").len().iter_rows())
        assert counts[Fact.RUN_ENDED] == 40
        assert counts[Fact.RUN_LOST] > 0
        assert Fact.FAULT not in counts


def test_an_order_sent_to_a_down_machine_by_a_stale_monitor_is_not_a_fault(tmp_path: Path) -> None:
    more = """
arrivals = { kind = "poisson", jobs_per_quantum = 1.0, quantum_s = 30.0 }

[[outages]]
machine = "f1"
from_s = 0
to_s = 5000

[monitors]
delay_s = 10000
"""
    facts = facts_of(tiny_experiment(tmp_path, more), "mct")
    counts = dict(facts.group_by("event").len().iter_rows())
    assert counts[Fact.ORDER_OVERTAKEN] == 1  # after the first one it is believed down
    assert counts[Fact.RUN_ENDED] == 12


ONLY_PARALLEL = TINY_SITE + '\n[[job_classes]]\nname = "wide"\n[job_classes.parallel_s]\npair = 5\n'


class OwnSjs(Sjs):
    """A plug-in that uses no clusters, without declaring it."""


def test_a_job_that_the_scheduler_can_never_run_is_a_fault_that_names_it(tmp_path: Path) -> None:
    path = tiny_experiment(
        tmp_path, "mix = { wide = 1 }", site_text=ONLY_PARALLEL, schedulers=f'["{__name__}:OwnSjs", "pjs"]'
    )
    facts = facts_of(path, f"{__name__}:OwnSjs")
    fault = facts.filter(pl.col("event") == Fact.FAULT).row(0, named=True)
    assert (fault["detail"], fault["job"]) == (rules.MAKES_PROGRESS, 0)
    assert "no available machine can run it" in fault["message"]
    assert facts_of(path, "pjs").filter(pl.col("event") == Fact.RUN_ENDED).height == 12


@pytest.mark.parametrize("name", ["mct", "scheduler.mapping.greedy:Sjs"])
def test_a_scheduler_without_clusters_is_refused_for_jobs_that_run_only_on_them(
    name: str, tmp_path: Path
) -> None:
    with pytest.raises(DoesNotFit) as caught:
        facts_of(tiny_experiment(tmp_path, site_text=ONLY_PARALLEL), name)
    assert str(caught.value) == (
        f"scheduler '{name}' maps jobs to single machines, but jobs of the class 'wide' run only on "
        f"clusters; use pjs or gsa, or leave the class out of workload.mix"
    )


def test_settings_of_nodes_are_refused_on_machines(tmp_path: Path) -> None:
    with pytest.raises(DoesNotFit, match="nodes has no effect on machines"):
        facts_of(tiny_experiment(tmp_path, '[nodes]\ntime_limits = "ignored"\n'), "mct")


def test_a_scheduler_without_clusters_may_run_the_other_classes(tmp_path: Path) -> None:
    path = tiny_experiment(tmp_path, "mix = { short = 1, long = 1 }", site_text=ONLY_PARALLEL)
    assert facts_of(path, "mct").filter(pl.col("event") == Fact.RUN_ENDED).height == 12


def test_learning_from_completions_changes_a_schedulers_estimates(tmp_path: Path) -> None:
    more = """
arrivals = { kind = "poisson", jobs_per_quantum = 2.0, quantum_s = 10.0 }
[run_times]
kind = "lognormal"
coefficient_of_variation = 1.5
"""
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    plain = facts_of(tiny_experiment(tmp_path / "a", more, jobs="40"), "mct")
    learned = facts_of(
        tiny_experiment(tmp_path / "b", more + '[experience]\nlearning = "run"', jobs="40"), "mct"
    )
    assert not plain.equals(learned)
    assert learned.filter(pl.col("event") == Fact.RUN_ENDED).height == 40


def test_a_seed_gives_the_same_bytes_with_any_number_of_workers(tmp_path: Path) -> None:
    more = """
arrivals = { kind = "poisson", jobs_per_quantum = 2.0 }
[run_times]
kind = "lognormal"
coefficient_of_variation = 0.5
[failures]
mean_time_between_failures_s = 500
mean_time_to_repair_s = 50
[monitors]
misread_share = 0.1
[grid]
"workload.jobs" = [3, 9]
"""
    path = tiny_experiment(tmp_path, more)
    for name, workers in (("first", 1), ("again", 1), ("two", 2)):
        run(path, tmp_path / name, workers)
    for file in ("trace.parquet", "jobs.csv"):
        contents = {(tmp_path / name / file).read_bytes() for name in ("first", "again", "two")}
        assert len(contents) == 1, file


def test_another_seed_gives_another_experiment(tmp_path: Path) -> None:
    path = tiny_experiment(tmp_path)
    first = scenario_of(*_prepared(path, seed=1)).run(RunKey(0, 0, "mct")).facts
    second = scenario_of(*_prepared(path, seed=2)).run(RunKey(0, 0, "mct")).facts
    assert not first.equals(second)


def _prepared(path: Path, seed: int) -> tuple[experiment_file.Experiment, object]:
    experiment = experiment_file.changed(experiment_file.read_experiment(path), seed=seed)
    source = SiteSource(experiment, path.parent, None)
    return experiment.at(0), source.snapshot(path.parent / f"{seed}.db")


def test_all_schedulers_get_the_same_jobs(tmp_path: Path) -> None:
    path = tiny_experiment(tmp_path)
    arrivals = [
        facts_of(path, name).filter(pl.col("event") == Fact.JOB_ARRIVED).drop("scheduler")
        for name in ("mct", "olb")
    ]
    assert arrivals[0].equals(arrivals[1])


@pytest.mark.parametrize("kind", FAULTY_IN_AN_EXPERIMENT, ids=lambda kind: kind.__name__)
def test_a_fault_is_the_last_fact_of_its_run(kind: type, tmp_path: Path) -> None:
    more = """
[[outages]]
machine = "s1"
from_s = 0
to_s = 100000

[guard]
decision_limit_s = 0.3
"""
    # `odd` runs on the pair and on the slow machines, which are first in no order: all faults have occasion.
    odd = '[[job_classes]]\nname = "odd"\nsequential_s = { slow = 1 }\nparallel_s = { pair = 6 }\n'
    path = tiny_experiment(tmp_path, more, site_text=TINY_SITE + odd)
    facts = facts_of(path, f"tests.faulty:{kind.__name__}")
    last = facts.row(-1, named=True)
    assert (last["event"], last["detail"]) == (Fact.FAULT, FAULTY_IN_AN_EXPERIMENT[kind])
    assert last["message"]
    assert facts.filter(pl.col("event") == Fact.FAULT).height == 1


def test_a_faulty_scheduler_does_not_affect_the_results_of_others(tmp_path: Path) -> None:
    alone = tiny_experiment(tmp_path, schedulers='["mct"]')
    run(alone, tmp_path / "alone")
    beside = tiny_experiment(tmp_path, schedulers='["tests.faulty:Raises", "mct"]')
    comparison = run(beside, tmp_path / "beside")
    (fault,) = comparison.faults
    assert (fault.scheduler, fault.rule, fault.time_s) == ("tests.faulty:Raises", rules.RAISES_NOTHING, 0.0)
    assert "KeyError: 'the queue I hoped for' (faulty.py:" in fault.message
    facts = [pl.read_parquet(tmp_path / name / "trace.parquet") for name in ("alone", "beside")]
    assert facts[0].equals(facts[1].filter(pl.col("scheduler") == "mct"))
    cell = comparison.cell(0, "mct", "makespan")
    assert cell is not None
    assert comparison.cell(0, "tests.faulty:Raises", "makespan") is None


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.long)])
def test_after_its_first_fault_a_scheduler_is_skipped_with_any_number_of_workers(
    workers: int, tmp_path: Path
) -> None:
    path = tiny_experiment(
        tmp_path, '[grid]\n"workload.jobs" = [4, 8]', schedulers='["mct", "tests.faulty:DecidesByChance"]'
    )
    run(path, tmp_path / "out", workers)
    facts = pl.read_parquet(tmp_path / "out" / "trace.parquet")
    assert facts.filter(pl.col("event") == Fact.FAULT).height == 1


MORTAL = """
import os
from pathlib import Path
from scheduler.mapping.immediate import Mct

deaths, asked = Path(__file__).with_name("deaths"), 0

class Mortal:
    # killed in the first, the second and the first question again; then it lives
    def schedule(self, problem):
        global asked
        n = len(deaths.read_text()) if deaths.exists() else 0
        if n < 3 and asked == n % 2:
            deaths.write_text("x" * (n + 1))
            os.kill(os.getpid(), 9)
        asked += 1
        return Mct().schedule(problem)
"""


def test_others_have_results_if_one_is_killed_and_the_same_command_tries_it_again(importable: Path) -> None:
    (importable / "mortal.py").write_text(MORTAL)
    path, out = tiny_experiment(importable, schedulers='["mct", "mortal:Mortal"]'), importable / "out"
    first = run(path, out)
    (fault,) = first.faults
    assert fault.rule == KILLED
    assert str(fault).startswith("mortal:Mortal has no result: its process was killed from outside 3 times")
    assert set(pl.read_csv(out / JOBS)["scheduler"]) == {"mct"}
    again = run(path, out)
    assert not again.faults
    jobs = pl.read_csv(out / JOBS)
    mct, mortal = (jobs.filter(scheduler=name).drop("scheduler") for name in ("mct", "mortal:Mortal"))
    assert mct.equals(mortal)


def test_only_runs_without_stored_results_are_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tiny_experiment(tmp_path, replications="3")
    run(path, tmp_path / "whole")
    carried_out: list[tuple[int, str]] = []

    run_scenario = MachinesScenario.run

    def run_noted(self: MachinesScenario, key: RunKey, *how: Any) -> RunTables:
        if len(carried_out) == 4:
            raise KeyboardInterrupt
        carried_out.append((key.replication, key.scheduler))
        return run_scenario(self, key, *how)

    monkeypatch.setattr(MachinesScenario, "run", run_noted)
    interrupted = sil("run", path, "--out", tmp_path / "out", "--workers", "1")
    assert interrupted.exit_code == 130
    assert "Interrupted: 4 of 6 runs are done. Repeat the command to resume." in interrupted.stderr
    first, carried_out[:] = list(carried_out), []
    run(path, tmp_path / "out")
    assert sorted(first + carried_out) == sorted({*first, *carried_out})
    assert len(first + carried_out) == 6
    whole, resumed = (tmp_path / name / "trace.parquet" for name in ("whole", "out"))
    assert whole.read_bytes() == resumed.read_bytes()


def test_ctrl_c_while_results_are_written_says_that_all_runs_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tiny_experiment(tmp_path, replications="3")
    with monkeypatch.context() as interrupted:
        interrupted.setattr("sil.experiment.run.render", raise_keyboard_interrupt)
        with pytest.raises(Interrupted, match="6 of 6 runs are done"):
            run(path, tmp_path / "out")
    run(path, tmp_path / "out")
    assert (tmp_path / "out" / "summary.json").is_file()


def raise_keyboard_interrupt(_out: Path) -> None:
    raise KeyboardInterrupt


def test_stored_results_of_another_experiment_are_not_reused(tmp_path: Path) -> None:
    path = tmp_path / "out" / "unfinished.db"
    with Store(path) as store:
        store.put("another fingerprint/0/mct", "not even a table")
    run(tiny_experiment(tmp_path), tmp_path / "out")
    assert (tmp_path / "out" / "summary.json").is_file()
    assert not path.exists()
