"""A real controller understands the codec, and the codec understands it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from scheduler.node_request import Node
from sil.slurm.configuration import Configuration, gres_conf
from sil.slurm.controller import Controller
from sil.slurm.installation import installed
from sil.slurm.protocol.records import (
    RECORDS,
    BatchJobLaunch,
    KillJob,
    ReturnCode,
    ReturnCodeWithText,
    of_job,
    plugin_of,
    script_completed,
)
from sil.slurm.protocol.releases import FOR_CONTROLLERS, RELEASES, SPOKEN, SUCCESS, V22_05, ProtocolError
from sil.slurm.protocol.submission import NodeShare, Submission, shares
from sil.slurm.running import How, running
from tests.sil.slurm.installed import missing, needs_munge

if (why_not := missing()) is not None:
    pytest.skip(why_not, allow_module_level=True)
START_S = 1_600_000_000.0
RELEASE = installed().release.series
NEW = max(version for version, name in RELEASES.items() if name <= RELEASE and version in SPOKEN)
OLD = max((version for version in SPOKEN if V22_05 < version < NEW), default=NEW)
VERSIONS = sorted({NEW, OLD})
"""That of the release, and an older one that it speaks."""
NODES = {f"n{k}": Node(8, 64_000, gpus=("a100",) * 4) for k in range(1, 13)}
SHARED = (
    "SelectType=select/cons_tres",
    "SelectTypeParameters=CR_Core_Memory",
    "GresTypes=gpu",
    "SchedulerParameters=batch_sched_delay=0,sched_min_interval=0",
    "NodeName=n[1-12] Sockets=2 CoresPerSocket=4 RealMemory=64000 Gres=gpu:a100:4",
    "PartitionName=batch Nodes=ALL Default=YES",
)


@pytest.fixture(scope="module", params=VERSIONS)
def controller(request: pytest.FixtureRequest) -> Iterator[Controller]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(FOR_CONTROLLERS, RELEASE, request.param)
        with running(Configuration(SHARED, files={"gres.conf": gres_conf(SHARED)}), START_S) as found:
            found.begin(NODES, START_S + 60)
            yield found


def submitted(controller: Controller, **options: object) -> Any:
    return controller.submit([Submission(user=os.getuid(), group=os.getgid(), **options)])


def orders(controller: Controller, kind: Any, for_s: float = 5.0) -> list[Any]:
    """Those of a kind that come within some time; others are forgotten."""
    controller.serve_until(controller.clock.now_s + for_s)
    found, controller.orders = controller.orders, []
    return [order for order in found if isinstance(order, kind)]


def complete(controller: Controller, job: int, exit_status: int = 0) -> None:
    assert controller.ask(script_completed(job, os.getuid(), exit_status)) == ReturnCode(SUCCESS)
    controller.serve_until(controller.clock.now_s + 5)


def test_a_job_is_submitted_launched_and_completed(controller: Controller) -> None:
    number = submitted(
        controller, name="weather", min_nodes=2, tasks=4, tasks_per_node=2, cpus_per_task=2,
        memory_per_cpu_mb=500, gres="gpu:a100:3", time_limit_min=60,
    ).job  # fmt: skip
    (launch,) = orders(controller, BatchJobLaunch)
    assert launch.job == number
    assert shares(launch) == [
        NodeShare(node, 4, (0, 1, 4, 5), (0, 1, 2), 2000, {plugin_of("gpu"): 3}) for node in ("n1", "n2")
    ]
    complete(controller, number, 3 * 256)
    assert [kill.id.job for kill in orders(controller, KillJob)] == [number]
    lines = (controller.folder / "jobcomp.txt").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"JobId={number} "))
    for part in ("JobState=FAILED", "ExitCode=3:0", "Name=weather", "TimeLimit=60"):
        assert f" {part} " in line


def test_tasks_of_an_array_are_launched_one_by_one(controller: Controller) -> None:
    array = submitted(controller, min_nodes=1, array="4-5%1", time_limit_min=1).job
    for task in (4, 5):
        (launch,) = orders(controller, BatchJobLaunch)
        assert (launch.array_job, launch.array_task) == (array, task)
        complete(controller, launch.job)


def test_a_node_is_free_when_its_epilog_is_over(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sil.slurm.controller.JOB_ALREADY_COMPLETE", SUCCESS)
    first, second = (submitted(controller, nodes="n1", exclusive=True).job for _ in range(2))
    assert [launch.job for launch in orders(controller, BatchJobLaunch)] == [first]
    complete(controller, first)
    assert not orders(controller, BatchJobLaunch)
    with suppress(ProtocolError):  # before 24.11, it is not answered
        controller.ask(RECORDS["EpilogComplete"](of_job(first), 0, "n1"))
    monkeypatch.undo()
    assert [launch.job for launch in orders(controller, BatchJobLaunch)] == [second]
    complete(controller, second)


def test_a_rejected_submission_says_why(controller: Controller) -> None:
    answer = submitted(controller, partition="nowhere")
    assert isinstance(answer, ReturnCodeWithText | ReturnCode)
    assert answer.code == 2000


@needs_munge
def test_one_reply_frees_all_nodes_of_a_job_with_munge_too() -> None:
    whole = ("SelectType=select/linear", *SHARED[2:])
    with running(Configuration(whole), START_S, how=How(by_munge=True)) as controller:
        controller.begin(NODES, START_S + 60)
        first, second = (submitted(controller, min_nodes=12).job for _ in range(2))
        (launch,) = orders(controller, BatchJobLaunch)
        assert [share.node for share in shares(launch)] == [*NODES]
        complete(controller, first)
        assert [order.id.job for order in controller.orders if isinstance(order, KillJob)] == [first]
        assert [launch.job for launch in orders(controller, BatchJobLaunch)] == [second]
