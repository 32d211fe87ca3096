"""This package's schedulers over Batsim's protocol: the simulator gets the same decisions as without it."""

from __future__ import annotations

import json
import socket
import sys
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import zmq
from polars.testing import assert_frame_equal

from scheduler import UserError
from scheduler.free_nodes.runtime_estimates import UserEstimates
from scheduler.registry import resolve
from sil.batsim.serving import ServedScheduler, listening
from sil.runs.on_log import Replay
from sil.trace.facts import TRACE
from sil.workers.executor import Inline, Listener
from sil.workload.lublin import Lublin
from tests.commands import sil, the_sentence
from tests.sil.experiment.replaying import replay_all


@pytest.mark.parametrize(
    "name",
    ["easy_sjbf", *(pytest.param(name, marks=pytest.mark.long) for name in ("fcfs", "sjf", "conservative"))],
)
def test_a_served_scheduler_writes_the_same_trace_as_in_process(name: str, tmp_path: Path) -> None:
    log = Lublin().jobs(600, 64, np.random.default_rng(3)).at_load(0.95)
    command = f"batsim: {sys.executable} -m sil serve-scheduler {name} --bind tcp://127.0.0.1:{{port}}"
    outcomes = replay_all(Replay(log), [name, command], tmp_path, Inline(), False, Listener())
    here, outside = (pl.read_parquet(outcome.folder / TRACE).drop("scheduler") for outcome in outcomes)
    assert outcomes[1].fault is None
    assert_frame_equal(outside, here)


def message(now_s: float, *events: dict[str, Any]) -> bytes:
    return json.dumps({"now": now_s, "events": list(events)}).encode()


def event(kind: str, **data: object) -> dict[str, Any]:
    return {"timestamp": 0.0, "type": kind, "data": data}


BEGIN = event("SIMULATION_BEGINS", nb_resources=3, nb_compute_resources=2)


def submitted(job_id: str, at_s: float = 0.0, walltime: float = 50.0) -> dict[str, Any]:
    job = {"id": job_id, "res": 1, "walltime": walltime, "profile": "p"}
    return {**event("JOB_SUBMITTED", job_id=job_id, job=job), "timestamp": at_s}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def served(name: str = "easy") -> ServedScheduler:
    spec = resolve(name)
    return ServedScheduler(lambda _: spec.make(), UserEstimates(), spec.memoryless)


def test_a_job_larger_than_the_machine_is_rejected_and_others_start() -> None:
    easy = served()
    submissions = [
        event(
            "JOB_SUBMITTED",
            job_id=f"w0!{n}",
            job={"id": f"w0!{n}", "res": n, "walltime": 50.0, "profile": "p"},
        )
        for n in (1, 3)
    ]
    reply = json.loads(easy.answer(message(5.0, BEGIN, *submissions)))
    assert reply == {
        "now": 5.0,
        "events": [
            {"timestamp": 5.0, "type": "REJECT_JOB", "data": {"job_id": "w0!3"}},
            {"timestamp": 5.0, "type": "EXECUTE_JOB", "data": {"job_id": "w0!1", "alloc": "0"}},
            {"timestamp": 5.0, "type": "CALL_ME_LATER", "data": {"timestamp": 55.0}},
        ],
    }, "it wants to be called when the job should be over"


@pytest.mark.parametrize(
    ("request_", "message_"),
    [
        (b"{", "sent a message in which its whole is wrong"),
        (message(0.0, event("SIMULATION_BEGINS")), "sent SIMULATION_BEGINS in which nb_resources is wrong"),
        (message(0.0, event("REQUESTED_CALL")), "sent an event before SIMULATION_BEGINS"),
        (
            message(0.0, BEGIN, event("JOB_SUBMITTED", job_id="a", job={"res": 0})),
            "in which job.res is wrong",
        ),
        (
            message(0.0, BEGIN, event("JOB_SUBMITTED", job_id="a", job={"res": 2**63})),
            "in which job.res is wrong",
        ),
        (message(nan, BEGIN), "in which now is wrong: input should be a finite number"),
        (message(inf, BEGIN), "in which now is wrong: input should be a finite number"),
        (message(1e16, BEGIN), "in which now is wrong: input should be less than or equal to"),
        (message(-1.0, BEGIN), "the time goes back from 0 s to -1 s"),
        (
            message(5.0, BEGIN, submitted("a", at_s=4.0), submitted("b", at_s=3.0)),
            "the time goes back from 4 s to 3 s",
        ),
        (message(5.0, BEGIN, submitted("a", at_s=6.0)), "the time goes back from 6 s to 5 s"),
        (message(0.0, BEGIN, submitted("a", walltime=nan)), "in which job.walltime is wrong"),
        (message(0.0, BEGIN, submitted("a"), submitted("a")), "submitted job 'a' twice"),
        (message(0.0, BEGIN, BEGIN), "sent a second SIMULATION_BEGINS"),
        (message(0.0, BEGIN, event("JOB_COMPLETED", job_id="a")), "for job 'a', which does not run"),
        (message(0.0, event("SIMULATION_BEGINS", nb_resources=10**12)), "in which nb_resources is wrong"),
    ],
)
def test_an_unreadable_message_is_reported_in_one_sentence(request_: bytes, message_: str) -> None:
    with pytest.raises(UserError, match=message_):
        served().answer(request_)


@pytest.mark.parametrize("name", ["conservative", "easy"])
def test_a_message_without_a_time_stops_no_scheduler_in_its_compiled_code(name: str) -> None:
    """With NaN as the time, conservative backfilling ended in a segmentation fault."""
    scheduler = served(name)
    scheduler.answer(message(0.0, BEGIN))
    with pytest.raises(UserError, match="now is wrong"):
        scheduler.answer(message(nan, submitted("a", at_s=1.0)))


def test_messages_that_go_back_in_time_are_reported() -> None:
    easy = served()
    easy.answer(message(5.0, BEGIN))
    with pytest.raises(UserError, match="sent a message of 4 s after one of 5 s"):
        easy.answer(message(6.0, submitted("a", at_s=4.0)))


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ([b"{}", b"{}"], "the simulator sent a message of 2 parts; expected one part"),
        ([b"[]"], "the simulator sent a message in which its whole is wrong"),
    ],
)
def test_a_simulator_is_told_why_it_is_not_served_any_longer(parts: list[bytes], sentence: str) -> None:
    context = zmq.Context()
    simulator = context.socket(zmq.REQ)
    address = "tcp://127.0.0.1:" + str(free_port())
    simulator.connect(address)
    simulator.send_multipart(parts)
    try:
        with pytest.raises(UserError, match=sentence), listening(address) as (receive, _):
            served().answer(receive())
        assert simulator.poll(5_000)
        assert json.loads(simulator.recv())["error"].startswith(sentence)
    finally:
        context.destroy(linger=0)


def test_an_unusable_address_is_reported_in_one_sentence() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"tcp://127.0.0.1:{other.getsockname()[1]}"
        done = sil("serve-scheduler", "easy", "--bind", address)
    assert f"cannot listen at '{address}': Address already in use" in the_sentence(done)


def test_a_scheduler_of_another_kind_cannot_be_served() -> None:
    assert "needs one that starts jobs on free nodes" in the_sentence(sil("serve-scheduler", "sjs"))
