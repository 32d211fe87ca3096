"""Why a job waited: reasons worked by hand, and a job's timeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import sil
from scheduler.free_nodes.rigid import Rigid
from scheduler.mapping.placer import NOWHERE_TO_RUN
from scheduler.model import NodeSchedule
from scheduler.rules import NO_JOB_FORGOTTEN, all_in_detail, in_detail
from sil.outcome.trace_inspection import timeline
from sil.runs.on_log import Replay
from sil.trace.facts import SCHEMA, TRACE, Fact
from sil.workload.swf_writing import write_swf
from tests.builders import tiny_experiment
from tests.commands import sil as command
from tests.commands import the_sentence
from tests.sil.experiment.test_experiment import run
from tests.sil.experiment.test_replay import Row, facts_of, log_of

pytestmark = pytest.mark.usefixtures("in_this_process", "without_reports")

ROWS: list[Row] = [
    (1, 0.0, 50.0, 2, 60.0, 1),
    (2, 1.0, 50.0, 3, 50.0, 1),
    (3, 2.0, 10.0, 1, 10.0, 1),
    (4, 3.0, 90.0, 1, 90.0, 1),
]
"""On three nodes: job 2 waits for job 1, job 3 ends before that, job 4 would not."""


def reasons(scheduler: str, folder: Path) -> list[tuple[float, int, str]]:
    facts = facts_of(Replay(log_of(ROWS, 3), reasons=True), scheduler, folder)
    passed_over = facts.filter(pl.col("event") == Fact.PASSED_OVER)
    return passed_over.select("time_s", "job", "detail").rows()


def test_under_easy_wait_reasons_name_nodes_or_the_reservation(tmp_path: Path) -> None:
    told = reasons("easy", tmp_path)
    assert told[:5] == [
        (1.0, 2, "first of the queue: it requests 3 nodes, 1 free; reserved for 60 s"),
        (2.0, 2, "first of the queue: it requests 3 nodes, 0 free; reserved for 60 s"),
        (3.0, 4, "it requests 1 node, 0 free"),
        (12.0, 2, "first of the queue: it requests 3 nodes, 1 free; reserved for 60 s"),
        (12.0, 4, "it requests 1 node, 1 free; but it would delay job 2, which is reserved for 60 s"),
    ]


def test_under_fcfs_no_job_overtakes_and_under_sjf_the_shortest_is_first(tmp_path: Path) -> None:
    fcfs, sjf = reasons("fcfs", tmp_path), reasons("sjf", tmp_path)
    assert (2.0, 3, "it requests 1 node, 1 free; but job 2 comes first") in fcfs
    assert (50.0, 3, "first of the queue: it requests 1 node, 0 free") in fcfs
    assert (3.0, 4, "it requests 1 node, 0 free") in sjf


def test_under_conservative_backfilling_each_job_has_a_reservation(tmp_path: Path) -> None:
    assert reasons("conservative", tmp_path)[:3] == [
        (1.0, 2, "reserved for 60 s"),
        (3.0, 4, "reserved for 110 s"),
        (50.0, 4, "reserved for 100 s"),
    ]


def test_recording_reasons_does_not_change_decisions(tmp_path: Path) -> None:
    plain = facts_of(Replay(log_of(ROWS, 3)), "easy", tmp_path)
    told = facts_of(Replay(log_of(ROWS, 3), reasons=True), "easy", tmp_path)
    assert told.filter(pl.col("event") != Fact.PASSED_OVER).equals(plain)


def test_a_lost_run_counts_as_waiting_time() -> None:
    facts = pl.DataFrame(
        [
            (0.0, "job_arrived", 0, None),
            (5.0, "run_started", 0, 0),
            (30.0, "run_lost", 0, 0),
            (50.0, "run_started", 0, 1),
            (90.0, "run_ended", 0, 1),
        ],
        schema={name: SCHEMA[name] for name in ("time_s", "event", "job", "run")},
        orient="row",
    )
    facts = facts.with_columns(pl.lit(None, kind).alias(n) for n, kind in SCHEMA.items() if n not in facts)
    found, until_then = timeline(facts, 0), timeline(facts[:3], 0)
    assert found is not None
    assert found.waited_s == 50.0
    assert until_then is not None
    assert until_then.waited_s is None


def test_the_timeline_of_a_job_is_in_order_and_names_overtaking_jobs(tmp_path: Path) -> None:
    facts = facts_of(Replay(log_of(ROWS, 3), reasons=True), "easy", tmp_path)
    found = timeline(facts, 2)
    assert found is not None
    assert found.overtaken_by == (3,)
    assert found.waited_s == 49.0
    assert found.events[0] == (1.0, "job 2 arrives and requests 3 nodes")
    assert found.events[-2:] == (
        (50.0, "job 2 starts on 0-2, estimated run time 50 s"),
        (100.0, "job 2 ends"),
    )
    assert timeline(facts, 99) is None


def test_a_refused_job_was_overtaken_by_none_and_its_refusal_is_the_reason() -> None:
    rows = [
        {"event": Fact.JOB_ARRIVED, "job": 1, "time_s": 0.0},
        {"event": Fact.JOB_REFUSED, "job": 1, "time_s": 0.0, "detail": "job 1 requests 9 nodes"},
        {"event": Fact.JOB_ARRIVED, "job": 2, "time_s": 1.0},
        {"event": Fact.RUN_STARTED, "job": 2, "time_s": 1.0, "run": 0, "machines": [{"first": 0, "last": 0}]},
    ]
    empty = dict.fromkeys(SCHEMA)
    found = timeline(pl.DataFrame([empty | row for row in rows], schema=SCHEMA), 1)
    assert found is not None
    assert found.events[-1] == (0.0, "refused: job 1 requests 9 nodes")
    assert (found.overtaken_by, found.waited_s, found.has_reasons) == ((), None, True)


def test_the_command_prints_the_timeline_and_reports_missing_reasons(tmp_path: Path) -> None:
    folder = tmp_path / "easy"
    folder.mkdir()
    facts_of(Replay(log_of(ROWS, 3)), "easy", folder)
    done = command("why", folder, "--job", "2")
    assert done.exit_code == 0
    assert "50 s  job 2 starts on 0-2" in done.output
    assert "Waiting time: 49 s." in done.output
    assert "Overtaken by: job 3." in done.output
    assert "This trace has no wait reasons" in done.output
    unknown = the_sentence(command("why", folder / TRACE, "--job", "7"))
    assert f"there is no job 7 in {folder / TRACE}" in unknown
    told = json.loads(command("why", folder, "--job", "2", "--json").stdout)
    assert (told["job"], told["waited_s"], told["overtaken_by"]) == (2, 49.0, [3])
    assert told["events"][-1] == {"time_s": 100.0, "event": "job 2 ends"}
    above = the_sentence(command("why", tmp_path, "--job", "2"))
    assert "each scheduler has its own trace; name one of the subfolders easy" in above


def test_an_experiment_records_reasons_on_request(tmp_path: Path) -> None:
    outages = [
        f'[[outages]]\nmachine = "{name}"\nfrom_s = 0\nto_s = 50\n' for name in ("f1", "f2", "s1", "s2")
    ]
    path = tiny_experiment(tmp_path, "[guard]\nreasons = true\n" + "".join(outages))
    assert not run(path, tmp_path / "out").faults
    facts = pl.read_parquet(tmp_path / "out" / TRACE)
    passed_over = facts.filter((pl.col("event") == Fact.PASSED_OVER) & (pl.col("time_s") == 0.0))
    assert set(passed_over["detail"]) == {
        f"{NOWHERE_TO_RUN}: its class runs on 4 machines and 1 cluster, of which 0 are available",
        f"{NOWHERE_TO_RUN}: its class runs on 4 machines, of which 0 are available",
    }


def test_a_forgotten_job_is_a_fault_without_a_wait_reason(tmp_path: Path) -> None:
    own = '["tests.faulty:ForgetsToPlaceAJob"]'
    path = tiny_experiment(tmp_path, "[guard]\nreasons = true\n", schedulers=own, replications="1")
    assert run(path, tmp_path / "out").faults
    (fault,) = facts_in(tmp_path / "out", Fact.FAULT)
    assert fault["detail"] == NO_JOB_FORGOTTEN
    shown = command("why", tmp_path / "out", "--job", str(fault["job"])).output
    assert "available" not in shown


def facts_in(folder: Path, event: Fact) -> list[dict[str, object]]:
    return pl.read_parquet(folder / TRACE).filter(pl.col("event") == event).to_dicts()


def test_the_timeline_names_mappings_starts_displacements_and_machines(tmp_path: Path) -> None:
    queues = """
queues = { high = 0.3, low = 0.7 }
arrivals = { kind = "poisson", jobs_per_quantum = 0.5, quantum_s = 10.0 }
[guard]
reasons = true
[[queues]]
name = "high"
priority = 2
displaces = ["low"]
[[queues]]
name = "low"
priority = 1
"""
    path = tiny_experiment(tmp_path, queues, jobs="40", schedulers='["mct"]', replications="1")
    assert not run(path, tmp_path / "out").faults
    facts = pl.read_parquet(tmp_path / "out" / TRACE)
    mapped = facts.filter(pl.col("event") == Fact.JOB_MAPPED)
    started = facts.filter(pl.col("event") == Fact.RUN_STARTED)
    assert set(started["job"]) == set(mapped["job"])
    displaced = facts.filter(pl.col("event") == Fact.RUN_PREEMPTED)["job"][0]
    done = command("why", tmp_path / "out", "--job", displaced)
    told = [line.split("  ", 1)[1].split(" s  ")[-1] for line in done.output.splitlines() if " s  " in line]
    kinds = [" ".join(line.split()[2:4]) for line in told]
    at = kinds.index("is preempted")
    assert kinds[0] == "arrives"
    assert kinds[1:3] == ["is mapped", "starts on"]
    assert kinds[at + 1 : at + 3] == ["is mapped", "starts on"]
    assert kinds[-1] == "ends"
    assert any(name in told[2] for name in ("f1", "f2", "s1", "s2"))


def test_without_reasons_a_trace_has_no_mappings_and_equal_decisions(tmp_path: Path) -> None:
    facts = {}
    for told in ("false", "true"):
        path = tiny_experiment(tmp_path, f"[guard]\nreasons = {told}\n", schedulers='["sjs"]')
        run(path, tmp_path / told)
        facts[told] = pl.read_parquet(tmp_path / told / TRACE)
    more = pl.col("event").is_in([Fact.JOB_MAPPED.value, Fact.PASSED_OVER.value])
    assert facts["true"].filter(more.not_()).equals(facts["false"])
    assert len(facts["true"].filter(more))


@pytest.mark.parametrize("scheduler", ["fcfs", "sjf", "easy", "easy_sjbf", "conservative"])
def test_every_built_in_scheduler_gives_a_reason_for_each_waiting_job(scheduler: str, tmp_path: Path) -> None:
    assert {job for _, job, _ in reasons(scheduler, tmp_path)} >= {2, 4}


@pytest.mark.parametrize(
    "policy", [("fcfs", "none"), ("fcfs", "easy"), ("sjf", "none"), ("fcfs", "easy_sjbf")]
)
@pytest.mark.parametrize("on_nodes", [False, True])
def test_reasons_of_all_jobs_at_once_are_those_of_each_job(
    policy: tuple[str, str], on_nodes: bool, tmp_path: Path
) -> None:
    seen: list[int] = []

    class Compared(Rigid):
        def schedule(self, problem: Any) -> NodeSchedule:
            schedule = super().schedule(problem)
            reasons = schedule.wait_reasons
            if reasons:
                at_once = dict(all_in_detail(reasons))
                assert at_once == {i: in_detail(reasons, i) for i in reasons}
                assert problem.jobs.ids == [job.id for job in problem.jobs]
                seen.append(len(at_once))
            return schedule

    log = sil.lublin_feitelson(150, 16, load=2.0, seed=5)
    if on_nodes:
        write_swf(tmp_path / "log.swf", log)
        (tmp_path / "slurm.conf").write_text("NodeName=n[1-4] CPUs=4\nPartitionName=batch Nodes=ALL\n")
        log = sil.read_log(tmp_path / "log.swf", nodes=tmp_path / "slurm.conf")
    sil.replay(log, {"compared": lambda: Compared(*policy)}, engine="harness", progress=False)
    assert max(seen) > 20
