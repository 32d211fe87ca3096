"""The metrics of a replay that only programme committees ask for, against plain Python."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sil
from scheduler import UserError
from sil.outcome.backlog import Backlog
from sil.outcome.metrics import DETAILS
from sil.trace.facts import FACT_SCHEMA, Fact, FactColumns
from tests.commands import sil as command
from tests.sil.planning.nodes_site import SITE, accounting

PROCESSORS = 8


def a_log(seed: int, jobs: int = 300) -> sil.JobLog:
    rng = np.random.default_rng(seed)
    run_s = rng.integers(1, 400, jobs)
    return sil.log_from(
        pl.DataFrame(
            {
                "job": np.arange(1, jobs + 1),
                "submit_s": np.cumsum(rng.integers(0, 60, jobs)).astype(float),
                "run_s": run_s.astype(float),
                "processors": rng.integers(1, PROCESSORS + 1, jobs),
                "estimate_s": (run_s * rng.integers(1, 4, jobs)).astype(float),
            }
        ),
        processors=PROCESSORS,
    )


def in_plain_python(jobs: list[dict[str, float]], bound_s: float) -> dict[str, float]:
    """The definitions, word for word."""
    slowdowns, per_processor = [], []
    for job in jobs:
        least = max(job["execution_time"], bound_s)
        slowdowns.append(max(job["turnaround_time"] / least, 1.0))
        per_processor.append(
            max(job["turnaround_time"] / (least * job["requested_number_of_resources"]), 1.0)
        )
    areas = [job["requested_number_of_resources"] * job["execution_time"] for job in jobs]
    waits = [job["waiting_time"] for job in jobs]
    turnarounds = [job["turnaround_time"] for job in jobs]
    overtook = 0
    for k, job in enumerate(jobs):
        overtook += any(earlier["starting_time"] > job["starting_time"] for earlier in jobs[:k])
    times = sorted({job[at] for job in jobs for at in ("submission_time", "starting_time", "finish_time")})
    lost_s = 0.0
    for from_s, until_s in pairwise(times):
        held = sum(
            job["requested_number_of_resources"]
            for job in jobs
            if job["starting_time"] <= from_s < job["finish_time"]
        )
        if any(job["submission_time"] <= from_s < job["starting_time"] for job in jobs):
            lost_s += (PROCESSORS - held) * (until_s - from_s)
    makespan_s = times[-1] - times[0]
    return {
        "waiting_time_mean": sum(waits) / len(jobs),
        "waiting_time_median": sorted(waits)[(len(jobs) - 1) // 2],
        "waiting_time_p95": sorted(waits)[(95 * len(jobs) - 1) // 100],
        "waiting_time_max": max(waits),
        "turnaround_time_mean": sum(turnarounds) / len(jobs),
        "turnaround_time_median": sorted(turnarounds)[(len(jobs) - 1) // 2],
        "makespan": makespan_s,
        "utilisation": 100 * sum(areas) / (PROCESSORS * makespan_s),
        "bounded_slowdown_mean": sum(slowdowns) / len(jobs),
        "per_processor_slowdown_mean": sum(per_processor) / len(jobs),
        "weighted_waiting_time_mean": sum(a * w for a, w in zip(areas, waits, strict=True)) / sum(areas),
        "backfilled_share": 100 * overtook / len(jobs),
        "loss_of_capacity": 100 * lost_s / (PROCESSORS * makespan_s),
    }


@pytest.mark.parametrize("engine", ["compiled", "harness"])
@pytest.mark.parametrize("bound_s", [10.0, 60.0])
def test_metrics_of_a_replay_equal_their_definitions(engine: str, bound_s: float) -> None:
    found = sil.replay(a_log(1), ["fcfs", "easy", "sjf"], engine=engine, bound_s=bound_s, progress=False)
    metrics = {row["scheduler"]: row for row in found.metrics.iter_rows(named=True)}
    for scheduler, of in metrics.items():
        expected = in_plain_python(found.jobs(scheduler).sort("job_id").to_dicts(), bound_s)
        assert {name: of[name] for name in expected} == pytest.approx(expected, rel=1e-12), scheduler
    assert metrics["fcfs"]["backfilled_share"] == 0.0
    assert metrics["easy"]["loss_of_capacity"] < metrics["fcfs"]["loss_of_capacity"]


def facts(*rows: tuple[float, Fact, int | None, int | None, int | None, int | None]) -> FactColumns:
    schema = {name: FACT_SCHEMA[name] for name in ("time_s", "event", "job", "run", "resource", "tasks")}
    return FactColumns(pl.DataFrame(rows, schema, orient="row"))


ROWS = (
    (0.0, Fact.JOB_ARRIVED, 1, None, None, None),
    (0.0, Fact.RUN_STARTED, 1, 1, None, 2),
    (0.0, Fact.JOB_ARRIVED, 2, None, None, None),  # waits until 30 for three processors
    (5.0, Fact.JOB_ARRIVED, 3, None, None, None),
    (5.0, Fact.RUN_STARTED, 3, 2, None, 1),  # overtakes job 2
    (10.0, Fact.MACHINE_DOWN, None, None, 2, None),
    (10.0, Fact.RUN_LOST, 3, 2, None, None),  # waits again, and is no first start thereafter
    (20.0, Fact.MACHINE_UP, None, None, 2, None),
    (20.0, Fact.RUN_STARTED, 3, 3, None, 1),
    (30.0, Fact.RUN_ENDED, 1, 1, None, None),
    (30.0, Fact.RUN_ENDED, 3, 3, None, None),
    (30.0, Fact.RUN_STARTED, 2, 4, None, 3),
    (40.0, Fact.RUN_ENDED, 2, 4, None, None),
)


@pytest.mark.parametrize("parts", [1, 2, 5, len(ROWS)])
def test_what_is_down_is_neither_idle_nor_to_be_used(parts: int) -> None:
    backlog = Backlog(np.ones(3, np.int64))
    for rows in np.array_split(np.arange(len(ROWS)), parts):
        backlog.add(facts(*(ROWS[k] for k in rows)))
    held_s = 2 * 30 + 1 * 5 + 1 * 10 + 3 * 10
    found = backlog.metrics(0.0, 40.0, held_s)
    assert found["backfilled_share"] == pytest.approx(100 / 3)
    assert found["loss_of_capacity"] == pytest.approx(100 * 5 / (3 * 40)), "only from 0 to 5 s"
    assert found["utilisation_of_up"] == pytest.approx(100 * held_s / (3 * 40 - 10))


def test_a_job_overtakes_those_of_its_own_partition_only() -> None:
    of = pl.DataFrame({"job": [1, 2], "partition": ["a", "b"]})
    rows = (
        (0.0, Fact.JOB_ARRIVED, 1, None, None, None),
        (1.0, Fact.JOB_ARRIVED, 2, None, None, None),
        (1.0, Fact.RUN_STARTED, 2, 1, None, 1),
        (2.0, Fact.RUN_STARTED, 1, 2, None, 1),
    )
    apart, together = Backlog(np.ones(2, np.int64), of), Backlog(np.ones(2, np.int64))
    apart.add(facts(*rows))
    together.add(facts(*rows))
    assert apart.metrics(0.0, 2.0, 1.0)["backfilled_share"] == 0.0
    assert together.metrics(0.0, 2.0, 1.0)["backfilled_share"] == 50.0


@pytest.mark.usefixtures("in_this_process", "without_figures")
def test_the_threshold_is_in_the_summary_and_printed_tables_stay_short(tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    of_jobs = [f"{n} {n} -1 {9 * n} {1 + n % 4} -1 -1 {1 + n % 4} {9 * n}" for n in range(1, 30)]
    log.write_text("; MaxProcs: 4\n" + "".join(f"{job} -1 1{' -1' * 7}\n" for job in of_jobs))
    done = command(
        "replay", log, "--bounded-slowdown-threshold", "60", "--scheduler", "easy", "--out", tmp_path / "out"
    )
    assert done.exit_code == 0, done.output
    assert "Loss of capacity" not in done.output
    assert '"bounded_slowdown_threshold_s": 60' in (tmp_path / "out" / "summary.json").read_text()
    assert "threshold of 60 s" in (tmp_path / "out" / "report.html").read_text()
    assert "Loss of capacity" in (tmp_path / "out" / "report.html").read_text()


def test_a_sweep_has_the_same_metrics_and_threshold() -> None:
    of = sil.sweep(a_log(3), ["easy"], bound_s=np.int64(60), progress=False, workers=1)
    whole = sil.replay(a_log(3), ["easy"], bound_s=60, progress=False).metrics
    for name in ("bounded_slowdown_mean", "backfilled_share", "loss_of_capacity"):
        assert of.table[name][0] == whole[name][0]


@pytest.mark.parametrize("bound_s", [0, -1.0, float("nan"), "10"])
def test_a_threshold_that_is_no_positive_number_is_refused(bound_s: object) -> None:
    with pytest.raises(UserError, match="expected seconds, more than 0"):
        sil.replay(a_log(1, 3), ["easy"], bound_s=bound_s, progress=False)  # type: ignore[arg-type]


@pytest.mark.usefixtures("in_this_process", "without_reports")
def test_an_experiment_has_the_metrics_of_a_replay_of_the_same_log(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(SITE)
    log = accounting(tmp_path / "sacct.txt", 2)
    experiment = 'name = "e"\nsite = "site.toml"\nschedulers = ["sjf"]\n[log]\nfile = "sacct.txt"\nload = 4\n'
    (tmp_path / "e.toml").write_text(experiment)
    rest = ("--bounded-slowdown-threshold", "60", "--json")
    ran = command("run", tmp_path / "e.toml", *rest, "--out", tmp_path / "e")
    replay = (log, "--nodes", tmp_path / "site.toml", "--load", "4", "--scheduler", "sjf")
    replayed = command("replay", *replay, *rest, "--out", tmp_path / "r")
    assert (ran.exit_code, replayed.exit_code) == (0, 0), ran.output + replayed.output
    summary = json.loads((tmp_path / "e" / "summary.json").read_text())
    of_experiment = summary["points"][0]["schedulers"]["sjf"]
    of_replay = json.loads((tmp_path / "r" / "summary.json").read_text())["schedulers"]["sjf"]
    keys = {metric.key: metric.key for metric in DETAILS} | {"mean_bounded_slowdown": "bounded_slowdown_mean"}
    assert of_experiment.pop("utilisation_of_up", None) is None
    assert summary["absent"] == {"utilisation_of_up": "nothing was down"}
    assert summary["bounded_slowdown_threshold_s"] == 60
    for key, name in keys.items():
        found = of_experiment[key]["value"]["mean"] if key in of_experiment else None
        assert found == pytest.approx(of_replay.get(name)), key
    assert of_replay["loss_of_capacity"] > 0


@pytest.mark.usefixtures("in_this_process", "without_reports")
def test_metrics_that_do_not_apply_to_an_experiment_are_absent_with_a_reason(tmp_path: Path) -> None:
    experiment = (
        'name = "e"\nsite = "hcs-2001"\nschedulers = ["olb"]\nreplications = 2\n[workload]\njobs = 20\n'
    )
    failures = "[failures]\nmean_time_between_failures_s = 3000\nmean_time_to_repair_s = 600\n"
    (tmp_path / "e.toml").write_text(experiment + failures)
    assert command("run", tmp_path / "e.toml", "--out", tmp_path / "e").exit_code == 0
    summary = json.loads((tmp_path / "e" / "summary.json").read_text())
    found = summary["points"][0]["schedulers"]["olb"]
    details = {metric.key for metric in DETAILS}
    assert details & found.keys() == {"utilisation_of_up"}, "machines were down"
    assert found["utilisation_of_up"]["value"]["mean"] > found["utilisation"]["value"]["mean"]
    reason = "jobs are mapped to machines, and request no processors"
    assert summary["absent"] == dict.fromkeys(details - {"utilisation_of_up"}, reason)
