"""This package's schedulers over Batsim's protocol: the simulator gets the same decisions as without it."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from scheduler.free_nodes.runtime_estimates import UserEstimates
from scheduler.registry import resolve
from sil.batsim.serving import BadRequest, ServedScheduler
from sil.runs.on_log import Replay
from sil.trace.facts import TRACE
from sil.workers.executor import Inline, Listener
from sil.workload.lublin import Lublin
from tests.sil.replaying import replay_all
from tests.sil.test_cli import sil, the_sentence


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
    ],
)
def test_an_unreadable_message_is_reported_in_one_sentence(request_: bytes, message_: str) -> None:
    with pytest.raises(BadRequest, match=message_):
        served().answer(request_)


def test_an_unusable_address_is_reported_in_one_sentence() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"tcp://127.0.0.1:{other.getsockname()[1]}"
        done = sil("serve-scheduler", "easy", "--bind", address)
    assert f"cannot listen at '{address}': Address already in use" in the_sentence(done)


def test_a_scheduler_of_another_kind_cannot_be_served() -> None:
    assert "needs one that starts jobs on free nodes" in the_sentence(sil("serve-scheduler", "sjs"))
