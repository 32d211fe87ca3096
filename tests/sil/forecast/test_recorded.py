"""Forecasts from the queue that accounting records: events, policies, and Slurm's controller."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sil.cli.app import app
from sil.forecast.forward import KnownJobs, Present
from sil.forecast.questions import forecasts, past_forecasts
from sil.forecast.recorded import recorded
from sil.runs.under_test import schedulers_for_logs
from sil.settings.events_file import events_in
from sil.site.logs import LogFile
from tests.sil.slurm.installed import needs_slurm

pytestmark = pytest.mark.usefixtures("in_this_process", "without_reports")

BEGIN = 1_767_225_600  # 2026-01-01
NOW = BEGIN + 10_000
CONF = """
NodeName=n[1-2] CPUs=4
PartitionName=cpu Nodes=n[1-2] MaxTime=1-00:00:00
"""
_COLUMNS = "JobID User Account Partition Submit Eligible Start End ElapsedRaw State TimelimitRaw ReqTRES"
HEADER = "|".join((*_COLUMNS.split(), "NodeList", "SubmitLine"))


def row(number: str, state: str, submit: int, start: int = 0, run: int = 0, **more: Any) -> str:
    """A job of 4 CPUs for an hour at most. Times are seconds since the beginning."""
    ran = NOW - BEGIN - start if state == "RUNNING" else run
    times = {
        "Submit": BEGIN + submit,
        "Eligible": BEGIN + submit,
        "Start": "Unknown" if state == "PENDING" else BEGIN + start,
        "End": BEGIN + start + run if run else "Unknown",
    }
    of_job = {"JobID": number, "User": "ann", "Account": "a", "Partition": "cpu", **times, "ElapsedRaw": ran}
    of_job |= {
        "State": state,
        "TimelimitRaw": 60,
        "ReqTRES": "cpu=4,node=1",
        "NodeList": "n1",
        "SubmitLine": "",
    }
    return "|".join(map(str, (of_job | more).values()))


PAST = [row(str(k), "COMPLETED", 100 * k, 100 * k, 1_800) for k in range(12)]
"""Jobs that took half of their limits."""
RUNNING = [row("20", "RUNNING", 8_000, 9_000), row("21", "RUNNING", 8_100, 9_500, NodeList="n2")]


@pytest.fixture
def here(here: Path) -> Path:
    (here / "slurm.conf").write_text(CONF)
    return here


def known(here: Path, *rows: str, policy: str = CONF, events: str = "", scheduler: str = "easy") -> KnownJobs:
    (here / "sacct.txt").write_text("\n".join((HEADER, *PAST, *rows)) + "\n")
    (here / "policy.conf").write_text(policy)
    how = LogFile(nodes=here / "policy.conf", policy=[here / "policy.conf"] if policy != CONF else None)
    (found,) = schedulers_for_logs([scheduler], with_requests=True)
    assert how.cluster is not None
    jobs = recorded(here / "sacct.txt", how, how.cluster, found)
    if not events:
        return jobs
    (here / "events.toml").write_text(events)
    _, given = events_in([here / "events.toml"], jobs.policy.log)
    return replace(jobs, policy=jobs.policy.under(given))


def starts(jobs: KnownJobs, at_s: float | None = None) -> dict[Any, tuple[float, float] | None]:
    """From now, in all samples: the earliest and the latest start of each job that runs (None) or waits."""
    present = Present.of(jobs, jobs.now_s if at_s is None else at_s, None if at_s else len(jobs.start_s))
    found = forecasts(present, present.sampled(10, 1))
    return {x.job: None if x.start is None else (x.start.low_s, x.start.high_s) for x in found}


WAITING = [row("22", "PENDING", 9_600), row("23", "PENDING", 9_700)]


def test_waiting_jobs_start_when_those_that_run_end_after_half_of_their_limits_like_those_before(
    here: Path,
) -> None:
    """Job 20 has run for 1,000 s of 1,800, job 21 for 500 s."""
    jobs = known(here, *RUNNING, *WAITING)
    assert jobs.now_s == 10_000.0
    assert starts(jobs) == {"20": None, "21": None, "22": (800.0, 800.0), "23": (1_300.0, 1_300.0)}
    present = Present.of(jobs, jobs.now_s, len(jobs.start_s))
    assert (present.planned[2:] - jobs.now_s).tolist() == [2_600.0, 3_100.0], "by their limits of an hour"


def test_at_an_earlier_time_the_queue_is_that_of_then(here: Path) -> None:
    """At 9,650 s, job 22 waits, and job 23 is not there yet."""
    assert starts(known(here, *RUNNING, *WAITING), 9_650.0) == {
        "20": None,
        "21": None,
        "22": (1_150.0, 1_150.0),
    }


def test_rows_of_squeue_count_as_those_of_sacct_and_replace_earlier_ones(here: Path) -> None:
    names = "JOBID|STATE|USER|ACCOUNT|PARTITION|SUBMIT_TIME|ELIGIBLE_TIME|START_TIME|END_TIME|TIME|TIME_LIMIT"
    queue = f"""{names}|TRES_ALLOC|NODELIST|FEATURES|
20|RUNNING|ann|a|cpu|2026-01-01T02:13:20|2026-01-01T02:13:20|2026-01-01T02:30:00|2026-01-01T03:30:00|16:40|1:00:00|\
cpu=4,node=1|n1|(null)|
21|RUNNING|ann|a|cpu|2026-01-01T02:15:00|2026-01-01T02:15:00|2026-01-01T02:38:20|2026-01-01T03:38:20|8:20|1:00:00|\
cpu=4,node=1|n2|(null)|
22|PENDING|ann|a|cpu|2026-01-01T02:40:00|2026-01-01T02:40:00|2026-01-01T03:30:00|N/A|0:00|1:00:00|cpu=4,node=1||(null)|
23|PENDING|ann|a|cpu|2026-01-01T02:41:40|2026-01-01T02:41:40|N/A|N/A|0:00|1:00:00|cpu=4,node=1||(null)|"""
    rows = queue.replace("\\\n", "").splitlines()
    before = row("20", "PENDING", 8_000)
    assert starts(known(here, before, *rows)) == starts(known(here, *RUNNING, *WAITING))


def test_tasks_of_an_array_wait_for_each_other_as_its_throttle_says(here: Path) -> None:
    tasks = row("30_[1-2%1]", "PENDING", 9_600, SubmitLine="sbatch --array=1-2%1 x")
    found = starts(known(here, *RUNNING, tasks))
    assert (found["30_1"], found["30_2"]) == ((800.0, 800.0), (2_600.0, 2_600.0))


def test_a_job_that_is_not_eligible_starts_when_it_is_released_or_the_job_ends_that_it_depends_on(
    here: Path,
) -> None:
    held = row("22", "PENDING", 9_600, Eligible="Unknown")
    jobs = known(here, *RUNNING, held)
    assert starts(jobs)["22"] == (float("inf"), float("inf"))
    assert jobs.policy.log.notes[-1].endswith(": 1 waiting job")
    released = known(here, *RUNNING, held, events="[[release]]\nat = 15_000\njobs = [22]\n")
    assert starts(released)["22"] == (5_000.0, 5_000.0)
    after = row("22", "PENDING", 9_600, Eligible="Unknown", SubmitLine="sbatch -d afterok:21 x")
    assert starts(known(here, *RUNNING, after))["22"] == (1_300.0, 1_300.0)


def test_drains_last_until_their_ends_and_later_ones_are_not_known_at_an_earlier_time(here: Path) -> None:
    drain = """[[drain]]\nat = 9_900\nnodes = "n1"\nuntil = 12_000\n"""
    drained = known(here, *RUNNING, *WAITING, events=drain)
    assert starts(drained) == {"20": None, "21": None, "22": (1_300.0, 1_300.0), "23": (2_000.0, 2_000.0)}
    assert starts(drained, 9_650.0)["22"] == (1_150.0, 1_150.0)
    assert starts(drained, 9_950.0)["23"] == (2_050.0, 2_050.0), "the end of a drain is known with it"


def test_jobs_wait_for_the_end_of_a_maintenance_before_which_they_would_not_end(here: Path) -> None:
    maintenance = """[[reservation]]\nstart = 10_500\nend = 20_000\nnodes = "ALL"\nflags = ["MAINT"]\n"""
    assert starts(known(here, *RUNNING, *WAITING, events=maintenance))["22"] == (10_000.0, 10_000.0)


PRIORITIES = CONF.replace(
    "cpu Nodes", "fast Nodes=n[1-2] PriorityJobFactor=10 MaxTime=1-0\nPartitionName=cpu Nodes"
)


@pytest.mark.parametrize(("age", "first"), [(1_000, "22"), (100, "23")])
def test_age_counts_from_the_submission_and_not_from_now(here: Path, age: int, first: str) -> None:
    """Job 22 is as old as counts; job 23 has a partition that is worth half of that."""
    policy = f"{PRIORITIES}PriorityType=priority/multifactor\nPriorityMaxAge=01:00:00\n"
    policy += f"PriorityWeightAge={age}\nPriorityWeightPartition=500\n"
    waiting = row("22", "PENDING", 3_000), row("23", "PENDING", 9_990, Partition="fast")
    found = starts(known(here, *RUNNING, *waiting, policy=policy))
    assert found[first] == (800.0, 800.0)


def test_a_job_that_preempts_starts_at_once_and_the_preempted_one_ends_later(here: Path) -> None:
    policy = f"{PRIORITIES}PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n"
    policy = policy.replace("PriorityJobFactor", "PriorityTier")
    jobs = known(here, *RUNNING, row("22", "PENDING", 9_600, Partition="fast"), policy=policy)
    assert starts(jobs)["22"] == (0.0, 0.0)
    present = Present.of(jobs, jobs.now_s, 15)
    ends = [x.end.low_s for x in forecasts(present, present.sampled(10, 1))]
    assert sorted(end > 1_800.0 for end in ends) == [False, False, True]


def test_forecasts_are_scored_by_what_accounting_recorded(here: Path) -> None:
    """Jobs that waited for 50 s, although nodes were free."""
    late = (row(str(k), "COMPLETED", 3_000 + 100 * k, 3_050 + 100 * k, 60) for k in range(50, 60))
    for one in past_forecasts(known(here, *late), 5, 10, 1):
        submit_s = 3_000.0 + 100 * (38 + one.job)
        assert one.true_s - submit_s == (50.0 if one.of == "start" else 110.0)


def predict(*arguments: str) -> Result:
    return CliRunner().invoke(
        app, ["predict", "sacct.txt", "--nodes", "slurm.conf", "--samples", "10", *arguments]
    )


def test_the_command_lists_jobs_that_wait_and_with_all_those_that_run(here: Path) -> None:
    known(here, *RUNNING, *WAITING, row("30_[1-2]", "PENDING", 9_800))
    assert "4 other jobs" not in predict().stdout
    assert "2 other jobs run or wait; --all lists them." in predict().stdout
    assert predict("--all").stdout.count("runs") == 2
    assert "30_2" in predict("--job", "30_2").stdout
    assert "job 5 neither runs nor waits then" in predict("--job", "5").stderr
    assert "no job has been submitted at 2020-01-01" in predict("--at", "2020-01-01").stderr
    found = json.loads(predict("--json").stdout)["jobs"]
    assert [one["job"] for one in found] == ["20", "21", "22", "23", "30_1", "30_2"]


def test_waits_ahead_are_told_by_partition(here: Path) -> None:
    (here / "slurm.conf").write_text(PRIORITIES)
    past = [row(str(900 + k), "COMPLETED", 86_400 * (k - 10), 86_400 * (k - 10), 60, Partition=name)
            for k, name in enumerate(["cpu", "fast"] * 5)]  # fmt: skip
    known(here, *past, *RUNNING)
    waits = json.loads(predict("--json", "--horizon", "2d").stdout)["waits"]
    assert [*waits] == ["all", "cpu", "fast"]
    assert waits["all"]["jobs"]["median_s"] == 2.0
    assert "fast" in predict("--horizon", "2d").stdout


@pytest.mark.long
@needs_slurm
def test_slurms_controller_goes_on_from_the_recorded_queue(here: Path) -> None:
    jobs = known(here, *RUNNING, *WAITING, scheduler=f"slurm: {here / 'slurm.conf'}")
    found = starts(jobs)
    assert found["22"] is not None
    assert found["23"] is not None
    assert 800.0 <= found["22"][0] <= found["22"][1] < 900.0
    assert 1_300.0 <= found["23"][0] <= found["23"][1] < 1_400.0
