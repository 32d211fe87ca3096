"""Schedulers that speak Batsim's protocol on the unlike machines of a site."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from scheduler.rules import CLASS_CAN_RUN_THERE, KNOWN_NODES, MAKES_PROGRESS
from sil.outcome.comparison import Comparison
from sil.trace.facts import Fact
from sil.trace.reading import read_facts
from sil.world.guard.faults import SPEAKS_THE_PROTOCOL
from site_db.files.input_errors import InvalidFile
from tests.builders import TINY_SITE, tiny_experiment
from tests.sil.batsim.scripted import Answer, Event, decision, scheduler, starting_at_once
from tests.sil.experiment.test_experiment import run
from tests.sil.runs.test_shared_experiment import EXPERIMENT, written

pytestmark = pytest.mark.usefixtures("in_this_process", "without_reports")

ONE_RUN = {"replications": "1"}


def facts_under(
    answer: Answer, folder: Path, more: str = "", **changes: str
) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
    """The facts of an experiment of one run under a scripted scheduler, and the messages that it was sent."""
    with scheduler(answer) as (name, received):
        path = tiny_experiment(folder, more, schedulers=json.dumps([name]), **ONE_RUN, **changes)
        run(path, folder / "out")
    return read_facts(folder / "out" / "trace.parquet"), received


def events(received: list[dict[str, Any]], kind: str) -> list[Event]:
    return [event for message in received for event in message["events"] if event["type"] == kind]


def test_machines_are_sent_with_name_and_class_and_jobs_with_estimates_per_machine(tmp_path: Path) -> None:
    _, received = facts_under(starting_at_once(), tmp_path, "mix = { short = 1 }", jobs="1")
    (begins,) = events(received, "SIMULATION_BEGINS")
    assert [(r["name"], r["properties"]["machine_class"]) for r in begins["data"]["compute_resources"]] == [
        ("f1", "fast"),
        ("f2", "fast"),
        ("s1", "slow"),
        ("s2", "slow"),
    ]
    (submitted,) = events(received, "JOB_SUBMITTED")
    assert submitted["data"]["profile"] == {
        "type": "delay",
        "delay": 30.0,
        "expected_s": [10.0, 10.0, 30.0, 30.0],
    }
    assert (submitted["data"]["job"]["res"], submitted["data"]["job"]["walltime"]) == (1, 30.0)


def test_starting_jobs_first_come_first_served_on_the_first_free_machine_is_olb(tmp_path: Path) -> None:
    """All jobs arrive at the beginning, and each takes the first machine that becomes free."""
    with scheduler(starting_at_once()) as (name, _):
        path = tiny_experiment(tmp_path, jobs="40", schedulers=json.dumps(["olb", name]), **ONE_RUN)
        comparison = run(path, tmp_path / "out")
    assert not comparison.faults
    facts = read_facts(tmp_path / "out" / "trace.parquet")
    started = facts.filter(pl.col("event") == Fact.RUN_STARTED).select(
        "scheduler", "job", "resource", "time_s"
    )
    by_name = dict(started.partition_by("scheduler", as_dict=True, include_key=False))
    assert_frame_equal(by_name[("olb",)].sort("job"), by_name[(name,)].sort("job"))


def test_a_command_is_restarted_for_each_run_and_its_output_is_kept(tmp_path: Path) -> None:
    name = f"batsim: {sys.executable} -m tests.sil.batsim.scripted tcp://127.0.0.1:{{port}}"
    comparison = run(tiny_experiment(tmp_path, schedulers=json.dumps(["olb", name])), tmp_path / "out")
    assert not comparison.faults
    printed = sorted((tmp_path / "out" / "printed").iterdir())
    assert [path.read_text() for path in printed] == ["4 machines\n"] * 3


def test_a_machine_failure_and_repair_is_sent_and_its_job_resubmitted(tmp_path: Path) -> None:
    outage = '\n[[outages]]\nmachine = "f1"\nfrom_s = 5\nto_s = 9\n'
    more = "mix = { short = 1 }\n" + outage
    facts, received = facts_under(starting_at_once(), tmp_path, more, jobs="2")
    notices = [(event["timestamp"], event["data"]) for event in events(received, "NOTIFY")]
    assert notices[1:] == [
        (5.0, {"type": "event_machine_unavailable", "resources": "0"}),
        (9.0, {"type": "event_machine_available", "resources": "0"}),
    ]
    again = [event["data"]["job_id"] for event in events(received, "JOB_SUBMITTED")]
    assert again == ["w0!0", "w0!1", "w0!0#1"]
    assert facts.filter(pl.col("event") == Fact.RUN_ENDED)["job"].sort().to_list() == [0, 1]


def test_a_job_that_fails_is_submitted_again_as_often_as_it_is_requeued_and_then_has_failed(
    tmp_path: Path,
) -> None:
    more = "mix = { short = 1 }\n[failures.jobs.poison]\nshare = 1\n"
    facts, received = facts_under(starting_at_once(), tmp_path, more, jobs="1")
    again = [event["data"]["job_id"] for event in events(received, "JOB_SUBMITTED")]
    assert again == ["w0!0", *(f"w0!0#{k}" for k in range(1, 6))]
    over = [event["data"] for event in events(received, "JOB_COMPLETED")]
    assert {one["job_state"] for one in over} == {"COMPLETED_FAILED"}
    assert len(over) == 6
    assert facts["event"].to_list().count(Fact.JOB_REFUSED) == 1


def test_an_order_to_a_down_machine_reveals_it_before_any_monitor(tmp_path: Path) -> None:
    outage = '[[outages]]\nmachine = "f1"\nfrom_s = 0\nto_s = 500\n[monitors]\ndelay_s = 1000\n'
    more = "mix = { short = 1 }\n" + outage
    facts, received = facts_under(starting_at_once(), tmp_path, more, jobs="2")
    counts = dict(facts.group_by("event").len().iter_rows())
    assert counts[Fact.ORDER_OVERTAKEN] == 1
    assert counts[Fact.RUN_ENDED] == 2
    assert events(received, "NOTIFY")[1]["data"] == {"type": "event_machine_unavailable", "resources": "0"}


def test_restarting_a_job_endlessly_on_a_down_machine_is_a_fault(tmp_path: Path) -> None:
    more = '\n[[outages]]\nmachine = "f1"\nfrom_s = 0\nto_s = 50000\n'
    facts, _ = facts_under(_deaf(starting_at_once()), tmp_path, more, jobs="1")
    fault = facts.filter(pl.col("event") == Fact.FAULT).row(0, named=True)
    assert (fault["detail"], fault["job"]) == (MAKES_PROGRESS, 0)


def test_starting_a_job_where_its_class_cannot_run_is_a_fault(tmp_path: Path) -> None:
    site = TINY_SITE + '\n[[job_classes]]\nname = "only-slow"\n[job_classes.sequential_s]\nslow = 50\n'
    (tmp_path / "out").mkdir()
    with scheduler(starting_at_once()) as (name, received):
        path = tiny_experiment(
            tmp_path, "mix = { only-slow = 1 }", schedulers=json.dumps([name]), site_text=site, **ONE_RUN
        )
        comparison = run(path, tmp_path / "out")
    (fault,) = comparison.faults
    assert CLASS_CAN_RUN_THERE in str(fault)
    assert "job 0 was dispatched to f1, where jobs of class 'only-slow' cannot run" in str(fault)
    submitted = events(received, "JOB_SUBMITTED")[0]["data"]["profile"]
    assert submitted == {"type": "delay", "delay": 50.0, "expected_s": [None, None, 50.0, 50.0]}


def test_registering_new_jobs_on_machines_is_a_fault(tmp_path: Path) -> None:
    def answer(now_s: float, told: list[Event]) -> tuple[float, list[Event]]:
        profile = {"workload_name": "own", "profile_name": "p", "profile": {"type": "delay", "delay": 5}}
        new = {"res": 1, "profile": "p", "walltime": 9}
        return now_s, [
            decision(now_s, "REGISTER_PROFILE", **profile),
            decision(now_s, "REGISTER_JOB", job_id="own!1", job=new),
        ]

    facts, received = facts_under(answer, tmp_path)
    fault = facts.filter(pl.col("event") == Fact.FAULT).row(0, named=True)
    assert fault["detail"] == SPEAKS_THE_PROTOCOL
    assert "an experiment's jobs are those of its file" in fault["message"]
    assert not events(received, "SIMULATION_BEGINS")[0]["data"]["config"]["dynamic-jobs-enabled"]


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("batsim+tcp://127.0.0.1:28000", "", "listens for one run, but this experiment has"),
        (
            "mct",
            '\n[[queues]]\nname = "default"\nscheduler = "batsim: ls mine.py"\n',
            "is a whole resource manager; a queue cannot use it",
        ),
        ("batsim: there-is-no-such-command", "", "there is no executable command 'there-is-no-such-command'"),
    ],
)
def test_invalid_combinations_are_rejected_before_anything_runs(
    name: str, more: str, message: str, tmp_path: Path
) -> None:
    path = tiny_experiment(tmp_path, more, schedulers=json.dumps([name]))
    with pytest.raises(InvalidFile, match=message):
        run(path, tmp_path / "out")


def _deaf(answer: Answer) -> Answer:
    """The same scheduler, which is never told of machines."""
    return lambda now_s, told: answer(now_s, [event for event in told if event["type"] != "NOTIFY"])


def on_shared_nodes(folder: Path, schedulers: list[str]) -> Comparison:
    text = EXPERIMENT.replace('["normal_easy", "uniform"]', json.dumps(schedulers))
    text = text.replace("replications = 2", "replications = 1").replace(
        "share_of_nodes = 0.5", "share_of_nodes = 0"
    )
    return run(written(folder, text), folder / "out")


def test_on_shared_nodes_a_batsim_scheduler_equals_loras_with_one_job_per_node(tmp_path: Path) -> None:
    with scheduler(starting_at_once()) as (name, received):
        comparison = on_shared_nodes(tmp_path, ["loras(most_jobs=1)", name])
    assert not comparison.faults
    facts = read_facts(tmp_path / "out" / "trace.parquet").filter(pl.col("event") == Fact.RUN_STARTED)
    ours, theirs = (
        facts.filter(scheduler=s).select("time_s", "job", "machines") for s in comparison.schedulers
    )
    assert_frame_equal(ours, theirs)
    profile = events(received, "JOB_SUBMITTED")[0]["data"]["profile"]
    assert profile in (
        {"type": "delay", "delay": 30.0, "cpu": 0.9, "memory_mb": 110.0},
        {"type": "delay", "delay": 20.0, "cpu": 0.4, "memory_mb": 60.0},
        {"type": "delay", "delay": 8.0, "cpu": 0.4, "memory_mb": 30.0},
    )


MANAGER = """
from scheduler.resource_manager import OnSharedNodes
from tests.one_at_a_time import OneAtATime as OnFirstNodes

class OneAtATime(OnFirstNodes):
    def __init__(self, ports, first: int = 0):
        assert isinstance(ports, OnSharedNodes)
        super().__init__(ports)
        self.first = first
    def order(self, job):
        self.ports.monitor.news()
        expected_s = self.ports.characterisation.requirement(job).exe_s
        nodes = range(self.first, self.first + job.n_tasks)
        return super().order(job)._replace(machines=nodes, expected_s=expected_s)
"""


def test_a_custom_manager_schedules_shared_nodes(importable: Path) -> None:
    (importable / "own_on_shared.py").write_text(MANAGER)
    names = ["basic", "own_on_shared:OneAtATime", "own_on_shared:OneAtATime(first=2)"]
    comparison = on_shared_nodes(importable, names)
    assert [(fault.scheduler, fault.rule) for fault in comparison.faults] == [(names[2], KNOWN_NODES)]
    facts = read_facts(importable / "out" / "trace.parquet").filter(scheduler=names[1])
    started = facts.filter(pl.col("event") == Fact.RUN_STARTED)["time_s"].to_list()
    ended = facts.filter(pl.col("event") == Fact.RUN_ENDED)["time_s"].to_list()
    assert len(started) == len(ended) == 12
    assert all(end <= start for end, start in zip(ended, started[1:], strict=False))
