"""A Batsim scheduler receives the events of its protocol, and its decisions are carried out."""

from __future__ import annotations

import json
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from scheduler.registry import SchedulerNotLoaded
from scheduler.rules import (
    EACH_JOB_ONCE,
    KNOWN_JOB,
    KNOWN_NODES,
    MAKES_PROGRESS,
    NODES_FREE,
    NOT_IN_THE_PAST,
    ONE_TASK_ON_EACH_NODE,
    PREEMPTS_RUNNING_RUNS,
    RETURNS_IN_TIME,
)
from sil.experiment.replay import Outcome
from sil.runs.on_log import Replay
from sil.runs.under_test import schedulers_for_logs
from sil.trace.facts import TRACE, Fact
from sil.workers.executor import Inline, Listener
from sil.world.guard.faults import PROCESS_SURVIVES, SPEAKS_THE_PROTOCOL
from tests.sil.batsim.scripted import Answer, Event, by_script, decision, scheduler, starting_at_once
from tests.sil.experiment.replaying import jobs_under, replay_all
from tests.sil.experiment.test_replay import Row, log_of, starts

TWO: list[Row] = [(1, 0.0, 50.0, 2, 60.0, 1), (2, 10.0, 20.0, 1, 30.0, 1)]
"""On two nodes: the second job arrives while the first has both."""


def replayed(
    answer: Answer, folder: Path, rows: list[Row] = TWO, processors: int = 2, order: str = "default"
) -> tuple[Outcome, list[dict[str, Any]]]:
    """What became of a log under a scripted scheduler, and the messages that it was sent."""
    with scheduler(answer) as (name, received):
        replay = Replay(log_of(rows, processors), order=order, decision_limit_s=20.0)
        (outcome,) = replay_all(replay, [name], folder, Inline(), False, Listener())
    return outcome, received


def at_first_job(*decisions: Event, now_s: float = 0.0) -> Answer:
    return by_script({(0.0, "JOB_SUBMITTED"): (now_s, [*decisions])})


def execute(alloc: str, job_id: str = "w0!1") -> Event:
    return decision(0.0, "EXECUTE_JOB", job_id=job_id, alloc=alloc)


def told(received: list[dict[str, Any]]) -> list[tuple[float, list[str]]]:
    """The types of events of each message, with its time."""
    return [(message["now"], [event["type"] for event in message["events"]]) for message in received]


def test_all_events_of_one_time_are_sent_in_one_message(tmp_path: Path) -> None:
    outcome, received = replayed(starting_at_once(), tmp_path)
    assert outcome.fault is None
    assert told(received) == [
        (0.0, ["SIMULATION_BEGINS"]),
        (0.0, ["JOB_SUBMITTED"]),
        (10.0, ["JOB_SUBMITTED", "NOTIFY"]),
        (50.0, ["JOB_COMPLETED"]),
        (70.0, ["JOB_COMPLETED"]),
        (70.0, ["SIMULATION_ENDS"]),
    ]
    submitted, completed = received[1]["events"][0], received[3]["events"][0]
    assert submitted["data"] == {
        "job_id": "w0!1",
        "job": {"id": "w0!1", "subtime": 0.0, "walltime": 60.0, "res": 2, "profile": "w0!1"},
        "profile": {"type": "delay", "delay": 60.0},
    }, "what it is told of a job is what is believed"
    assert completed["data"] == {
        "job_id": "w0!1",
        "job_state": "COMPLETED_SUCCESSFULLY",
        "return_code": 0,
        "kill_reason": "",
        "alloc": "0-1",
    }


def test_in_batsim_order_arrivals_precede_ends_and_everything_starts_10_s_later(tmp_path: Path) -> None:
    at_one_instant: list[Row] = [(1, 0.0, 50.0, 2, 50.0, 1), (2, 50.0, 20.0, 1, 30.0, 1)]
    outcome, received = replayed(starting_at_once(), tmp_path, at_one_instant, order="batsim")
    assert outcome.fault is None
    assert told(received)[1:3] == [
        (10.0, ["JOB_SUBMITTED"]),
        (60.0, ["JOB_SUBMITTED", "NOTIFY", "JOB_COMPLETED"]),
    ]


def test_events_during_a_decision_are_sent_after_it(tmp_path: Path) -> None:
    rows: list[Row] = [(1, 0.0, 8.0, 1, 10.0, 1), (2, 3.0, 5.0, 1, 5.0, 1), (3, 6.0, 5.0, 1, 5.0, 1)]
    outcome, received = replayed(starting_at_once(later_s=5.0), tmp_path, rows, processors=3)
    assert outcome.fault is None
    assert [now_s for now_s, _ in told(received)] == [0.0, 0.0, 5.0, 10.0, 15.0, 20.0, 25.0]
    assert told(received)[2:] == [
        (5.0, ["JOB_SUBMITTED"]),  # job 2 came at 3 s
        (10.0, ["JOB_SUBMITTED", "NOTIFY"]),  # job 3 at 6 s
        (15.0, ["JOB_COMPLETED", "JOB_COMPLETED"]),  # job 1 ended at 13 s; job 2, started at 10 s, ends now
        (20.0, ["JOB_COMPLETED"]),  # job 3, started at 15 s
        (25.0, ["SIMULATION_ENDS"]),
    ]
    assert starts(pl.read_parquet(outcome.folder / TRACE)) == {1: 5.0, 2: 10.0, 3: 15.0}
    assert jobs_under(outcome)["finish_time"].to_list() == [13.0, 15.0, 20.0], (
        "ends are where they are in truth"
    )


def test_a_decision_takes_effect_at_its_own_timestamp(tmp_path: Path) -> None:
    answer = at_first_job(decision(4.0, "EXECUTE_JOB", job_id="w0!1", alloc="0"), now_s=9.0)
    outcome, received = replayed(answer, tmp_path, [(1, 0.0, 50.0, 1, 60.0, 1)])
    assert outcome.fault is None
    assert starts(pl.read_parquet(outcome.folder / TRACE)) == {1: 4.0}
    assert told(received)[2] == (54.0, ["JOB_COMPLETED"])


def test_a_scheduler_is_called_at_the_requested_time(tmp_path: Path) -> None:
    calls = [decision(0.0, "CALL_ME_LATER", timestamp=30.5)] * 2
    start = decision(30.5, "EXECUTE_JOB", job_id="w0!1", alloc="1")
    answer = by_script({(0.0, "SIMULATION_BEGINS"): (0.0, calls), (30.5, "REQUESTED_CALL"): (30.5, [start])})
    outcome, received = replayed(answer, tmp_path, [(1, 0.0, 50.0, 1, 60.0, 1)])
    assert outcome.fault is None
    assert (30.5, ["REQUESTED_CALL", "REQUESTED_CALL"]) in told(received)
    assert starts(pl.read_parquet(outcome.folder / TRACE)) == {1: 30.5}


def test_a_killed_job_is_reported_with_its_progress_and_counts_as_killed(tmp_path: Path) -> None:
    described = decision(0.0, "SET_JOB_METADATA", job_id="w0!1", metadata="the first")
    kill = decision(10.0, "KILL_JOB", job_ids=["w0!1"])
    reject = decision(10.0, "REJECT_JOB", job_id="w0!2")
    answer = by_script(
        {
            (0.0, "JOB_SUBMITTED"): (0.0, [execute("0-1"), described]),
            (10.0, "JOB_SUBMITTED"): (10.0, [kill, reject]),
        }
    )
    outcome, received = replayed(answer, tmp_path)
    assert outcome.fault is None
    killed = received[3]["events"]
    assert [event["type"] for event in killed] == ["JOB_COMPLETED", "JOB_KILLED"]
    assert killed[0]["data"]["job_state"] == "COMPLETED_KILLED"
    assert killed[1]["data"] == {
        "job_ids": ["w0!1"],
        "job_progress": {"w0!1": {"profile": "w0!1", "progress": 0.2}},
    }
    columns = ("job_id", "success", "final_state", "finish_time", "metadata")
    assert jobs_under(outcome).select(columns).rows() == [(1, 0, "COMPLETED_KILLED", 10.0, "the first")]
    facts = pl.read_parquet(outcome.folder / TRACE).filter(pl.col("event") == Fact.JOB_REFUSED)
    assert facts.select("job", "detail").rows() == [
        (2, "rejected by its scheduler"),
        (1, "killed by its scheduler"),
    ]


def test_killing_a_job_that_ended_during_the_decision_is_not_a_fault(tmp_path: Path) -> None:
    answer = by_script(
        {
            (0.0, "JOB_SUBMITTED"): (0.0, [execute("0-1")]),
            (10.0, "JOB_SUBMITTED"): (60.0, [decision(55.0, "KILL_JOB", job_ids=["w0!1"])]),
            (60.0, "JOB_COMPLETED"): (60.0, [decision(60.0, "EXECUTE_JOB", job_id="w0!2", alloc="0")]),
        }
    )
    outcome, received = replayed(answer, tmp_path)
    assert outcome.fault is None
    assert jobs_under(outcome)["success"].to_list() == [1, 1]
    ended, killed = received[3]["events"]
    assert (received[3]["now"], ended["data"]["job_state"]) == (60.0, "COMPLETED_SUCCESSFULLY")
    assert killed["data"] == {"job_ids": ["w0!1"], "job_progress": {}}


def test_a_scheduler_may_submit_its_own_jobs(tmp_path: Path) -> None:
    def answer(now_s: float, events: list[Event]) -> tuple[float, list[Event]]:
        decisions = []
        for event in events:
            if event["type"] == "SIMULATION_BEGINS":
                profile = {"type": "delay", "delay": 7.0}
                decisions += [
                    decision(
                        now_s, "REGISTER_PROFILE", workload_name="dyn", profile_name="p", profile=profile
                    )
                ]
            elif event["type"] == "JOB_SUBMITTED":
                job_id = event["data"]["job_id"]
                decisions += [decision(now_s, "EXECUTE_JOB", job_id=job_id, alloc="0")]
            elif event["type"] == "JOB_COMPLETED" and event["data"]["job_id"] == "w0!1":
                job = {"id": "dyn!x", "res": 1, "profile": "p", "walltime": 9.0, "subtime": now_s}
                decisions += [decision(now_s, "REGISTER_JOB", job_id="dyn!x", job=job)]
        return now_s, decisions

    outcome, received = replayed(answer, tmp_path, [(1, 0.0, 50.0, 1, 60.0, 1)])
    assert outcome.fault is None
    assert received[3]["events"][0]["data"]["job"]["id"] == "dyn!x", "it is acknowledged"
    assert jobs_under(outcome).select("job_id", "starting_time", "finish_time").rows() == [
        (1, 0.0, 50.0),
        (2, 50.0, 57.0),
    ]


def test_a_scheduler_that_registers_a_job_in_each_message_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sil.batsim.manager.MAX_REGISTERED", 30)
    profile = {"type": "delay", "delay": 1.0}

    def answer(now_s: float, events: list[Event]) -> tuple[float, list[Event]]:
        job = {"res": 1, "profile": "p", "walltime": 9.0}
        return now_s, [
            decision(now_s, "REGISTER_PROFILE", workload_name="dyn", profile_name="p", profile=profile),
            decision(now_s, "REGISTER_JOB", job_id=f"dyn!{len(received)}", job=job),
        ]

    with scheduler(answer) as (name, received):
        replay = Replay(log_of([(1, 0.0, 50.0, 1, 60.0, 1)], 1), decision_limit_s=20.0)
        (outcome,) = replay_all(replay, [name], tmp_path, Inline(), False, Listener())
    assert outcome.fault is not None
    assert f"{MAKES_PROGRESS} (at 0 s): " in outcome.fault
    assert "it registered more than 40 jobs of its own" in outcome.fault


def test_questions_and_states_are_answered(tmp_path: Path) -> None:
    asked = [
        decision(0.0, "QUERY", requests={"consumed_energy": {}}),
        decision(0.0, "SET_RESOURCE_STATE", resources="0-1", state="3"),
        decision(0.0, "NOTIFY", type="registration_finished"),
        decision(0.0, "ANSWER", estimate_waiting_time={}),
    ]
    of_job = {
        (at_s, "JOB_SUBMITTED"): (
            at_s,
            [
                decision(at_s, "CHANGE_JOB_STATE", job_id=job_id, job_state=state)
                for state in ("RUNNING", "COMPLETED_SUCCESSFULLY")
            ],
        )
        for at_s, job_id in ((0.0, "w0!1"), (10.0, "w0!2"))
    }
    answer = by_script({(0.0, "SIMULATION_BEGINS"): (0.0, asked), **of_job})
    outcome, received = replayed(answer, tmp_path)
    assert outcome.fault is None
    assert [event["type"] for event in received[1]["events"]] == [
        "JOB_SUBMITTED",
        "ANSWER",
        "RESOURCE_STATE_CHANGED",
    ]
    assert received[1]["events"][1]["data"] == {"consumed_energy": 0.0}


# -- faults ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "rule", "message"),
    [
        (at_first_job(execute("0-1", "w0!7")), KNOWN_JOB, "job w0!7 is unknown; it was never submitted"),
        (at_first_job(execute("0-1"), execute("0-1")), EACH_JOB_ONCE, "job w0!1 was started, but is running"),
        (at_first_job(execute("0")), ONE_TASK_ON_EACH_NODE, "asks for 2 nodes, but was started on 1: 0"),
        (at_first_job(execute("1-2")), KNOWN_NODES, "on 1-2; there are nodes 0 to 1"),
        (
            at_first_job(execute("zero")),
            SPEAKS_THE_PROTOCOL,
            "on 'zero'; expected a set of nodes like '0-3 5'",
        ),
        (at_first_job(decision(0.0, "DANCE")), SPEAKS_THE_PROTOCOL, "the unknown type DANCE; known are"),
        (at_first_job(decision(0.0, "EXECUTE_JOB", job_id="w0!1")), SPEAKS_THE_PROTOCOL, "alloc is wrong"),
        (
            at_first_job(decision(-1.0, "REJECT_JOB", job_id="w0!1")),
            NOT_IN_THE_PAST,
            "for -1.0 s, when it was",
        ),
        (at_first_job(now_s=-5.0), NOT_IN_THE_PAST, "it answered that it is -5.0 s, when it was 0.0 s"),
        (
            at_first_job(decision(0.0, "CALL_ME_LATER", timestamp=0.0)),
            NOT_IN_THE_PAST,
            "it wants to be called at 0.0 s, when it was 0.0 s",
        ),
        (at_first_job(decision(0.0, "KILL_JOB", job_ids=["w0!1"])), PREEMPTS_RUNNING_RUNS, "does not run"),
        (lambda now_s, events: "{not json", SPEAKS_THE_PROTOCOL, "not valid JSON: {not json"),
        (lambda now_s, events: "[]", SPEAKS_THE_PROTOCOL, "a message in which the message is wrong"),
        (lambda now_s, events: [b"{", b"}"], SPEAKS_THE_PROTOCOL, "it sent an answer of 2 parts"),
        (lambda now_s, events: '{"now": NaN, "events": []}', SPEAKS_THE_PROTOCOL, "now is wrong"),
        (at_first_job(now_s=2e15), SPEAKS_THE_PROTOCOL, "now is wrong"),
        (
            at_first_job(decision(0.0, "CALL_ME_LATER", timestamp=1e300)),
            SPEAKS_THE_PROTOCOL,
            "timestamp is wrong",
        ),
        (
            at_first_job(decision(0.0, "REGISTER_JOB", job_id="d!1", job={"res": 2**31, "profile": "p"})),
            SPEAKS_THE_PROTOCOL,
            "res is wrong",
        ),
        (
            lambda now_s, events: (now_s, []),
            MAKES_PROGRESS,
            "nothing can happen any more; left waiting are job 1",
        ),
    ],
)
def test_a_protocol_violation_is_reported(answer: Answer, rule: str, message: str, tmp_path: Path) -> None:
    outcome, _ = replayed(answer, tmp_path)
    assert outcome.fault is not None
    assert f"broke the rule {rule} (" in outcome.fault
    assert message in outcome.fault


def test_an_allocation_of_a_busy_resource_names_the_job_that_uses_it(tmp_path: Path) -> None:
    second = decision(10.0, "EXECUTE_JOB", job_id="w0!2", alloc="1")
    answer = by_script(
        {(0.0, "JOB_SUBMITTED"): (0.0, [execute("0-1")]), (10.0, "JOB_SUBMITTED"): (10.0, [second])}
    )
    outcome, _ = replayed(answer, tmp_path)
    assert outcome.fault is not None
    assert (
        f"{NODES_FREE} (job 2, at 10 s): job w0!2 was started on 1, where job w0!1 is running"
        in outcome.fault
    )


def test_a_silent_scheduler_times_out_and_the_others_continue(tmp_path: Path) -> None:
    def answer(now_s: float, events: list[Event]) -> tuple[float, list[Event]]:
        if now_s == 10.0:
            time.sleep(3.0)
        return now_s, []

    with scheduler(answer) as (silent, _), scheduler(starting_at_once()) as (good, _):
        replay = Replay(log_of(TWO, 2), decision_limit_s=1.0)
        names = [silent, good, "fcfs"]
        outcomes = replay_all(replay, names, tmp_path, Inline(), False, Listener())
    assert [outcome.fault is None for outcome in outcomes] == [False, True, True]
    assert f"{RETURNS_IN_TIME} (at 10 s): no answer from tcp://127.0.0.1:" in str(outcomes[0].fault)
    assert jobs_under(outcomes[1]).equals(jobs_under(outcomes[2]))


def test_a_missing_listener_is_reported(tmp_path: Path) -> None:
    replay = Replay(log_of(TWO, 2), decision_limit_s=1.0)
    (outcome,) = replay_all(replay, ["batsim+tcp://127.0.0.1:9"], tmp_path, Inline(), False, Listener())
    assert "no answer from tcp://127.0.0.1:9 within 1 s" in str(outcome.fault)


# -- commands ----------------------------------------------------------------------------------------------


def python(script: str) -> str:
    return f"batsim: {sys.executable} -c {json.dumps(script)}"


def test_a_process_that_dies_is_reported_with_its_output(tmp_path: Path) -> None:
    name = python("import sys; print('not today'); sys.exit(3)")
    (outcome,) = replay_all(Replay(log_of(TWO, 2)), [name], tmp_path, Inline(), False, Listener())
    ended = "its process ended with exit code 3 and this last line of output: not today"
    assert f"{PROCESS_SURVIVES} (at 0 s): {ended}" in str(outcome.fault)


def test_a_command_without_a_port_needs_port_28000(tmp_path: Path) -> None:
    with socket.socket() as other:
        with suppress(OSError):  # somebody else has it, which is as good
            other.bind(("0.0.0.0", 28_000))
            other.listen()
        replay = Replay(log_of(TWO, 2))
        (outcome,) = replay_all(replay, [python("pass")], tmp_path, Inline(), False, Listener())
    assert (
        "port 28000, at which the scheduler is to listen, is in use; end the process that uses it, or write"
        in str(outcome.fault)
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("batsim:", "the command is missing"),
        ("batsim: 'unclosed", "the command cannot be parsed: No closing quotation"),
        ("batsim: no-such-command-here", "there is no executable command 'no-such-command-here'"),
        ("batsim+tcp://nowhere", "is not an address like tcp://localhost:28000"),
    ],
)
def test_an_invalid_name_is_rejected_before_anything_runs(name: str, message: str) -> None:
    with pytest.raises(SchedulerNotLoaded, match=message.replace("(", r"\(")):
        schedulers_for_logs([name])
