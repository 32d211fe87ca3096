"""A real controller understands the codec, and the codec understands it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sil.slurm.installation import installed
from sil.slurm.protocol.authentication import Munge, Stated
from sil.slurm.protocol.codes import JOB_ALREADY_COMPLETE, SUCCESS, MessageType
from sil.slurm.protocol.envelope import message
from sil.slurm.protocol.records import (
    RECORDS,
    BatchJobLaunch,
    NodeRegistration,
    ReturnCode,
    ReturnCodeWithText,
    Submitted,
    node_gres,
    of_job,
    plugin_of,
    script_completed,
)
from sil.slurm.protocol.releases import RELEASES, SPOKEN, V22_05
from sil.slurm.protocol.shares import NodeShare, shares
from sil.slurm.protocol.submission import Submission, described
from tests.sil.slurm.installed import missing, needs_munge
from tests.sil.slurm.protocol.live import Controller, controller, munge_daemon

SHARED_NODES = """
AuthType=auth/none
CredType=cred/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
NodeName=n[1-4] NodeAddr=127.0.0.1,127.0.0.1,127.0.0.1,127.0.0.1 Gres=gpu:a100:4
PartitionName=new Nodes=n[1-2] Default=YES
PartitionName=old Nodes=n[3-4]
"""
WHOLE_NODES_AND_MUNGE = """
AuthType=auth/munge
AuthInfo=socket={socket}
CredType=cred/munge
SelectType=select/linear
NodeName=n[1-12] NodeAddr={addresses}
PartitionName=new Nodes=ALL Default=YES
"""
NAMES = [f"n{number}" for number in range(1, 13)]
if (why_not := missing()) is not None:
    pytest.skip(why_not, allow_module_level=True)
RELEASE = installed().release
NEW = max(version for version, name in RELEASES.items() if RELEASE.series >= name and version in SPOKEN)
OLD = max((version for version in SPOKEN if V22_05 < version < NEW), default=NEW)
VERSIONS = {"new": NEW, "old": OLD}
"""Of the nodes in each partition: those of the release, and an older one that it speaks."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    with controller(tmp_path_factory.mktemp("slurm"), SHARED_NODES, Stated()) as found:
        for node in ("n1", "n2", "n3", "n4"):
            registered = registration(node, (node_gres("gpu", 4, "a100", n_cpus=8),))
            assert found.ask(message(registered, version=version_of(node))).body == ReturnCode(0)
        yield found


def version_of(node: str) -> int:
    return NEW if node in ("n1", "n2") else OLD


def registration(node: str, gres: tuple[Any, ...] = ()) -> Any:
    return NodeRegistration(
        node=node,
        host=node,
        cpus=8,
        sockets=2,
        cores_per_socket=4,
        memory=64000,
        architecture="x86_64",
        operating_system="Linux",
        version=RELEASE.name,
        gres=gres,
    )


def submission(partition: str, **options: object) -> Any:
    return described(Submission(user=os.getuid(), group=os.getgid(), partition=partition, **options))


def submit(running: Controller, job: Any, version: int = NEW) -> int:
    answer = running.ask(message(job, MessageType.REQUEST_SUBMIT_BATCH_JOB, version)).body
    assert isinstance(answer, Submitted)
    return answer.job


def launched(running: Controller, job: int, version: int = NEW) -> Any:
    """The order to launch a job, or a task of an array."""
    launch = running.nodes.next(MessageType.REQUEST_BATCH_JOB_LAUNCH, job)
    assert launch.version == version
    assert isinstance(launch.body, BatchJobLaunch)
    return launch.body


def complete(running: Controller, job: int, exit_status: int, version: int = NEW) -> None:
    done = script_completed(job, os.getuid(), exit_status)
    assert running.ask(message(done, version=version)).body == ReturnCode(0)


@pytest.mark.parametrize("partition", VERSIONS)
def test_a_job_is_submitted_launched_and_completed(running: Controller, partition: str) -> None:
    version = VERSIONS[partition]
    job = submission(
        partition,
        name="weather",
        min_nodes=2,
        tasks=4,
        tasks_per_node=2,
        cpus_per_task=2,
        memory_per_cpu_mb=500,
        gres="gpu:a100:3",
        time_limit_min=60,
    )
    number = submit(running, job, version)
    launch = launched(running, number, version)
    nodes = ("n1", "n2") if partition == "new" else ("n3", "n4")
    assert shares(launch) == [
        NodeShare(node, 4, (0, 1, 4, 5), (0, 1, 2), 2000, {plugin_of("gpu"): 3}) for node in nodes
    ]
    complete(running, number, 3 * 256, version)
    assert running.nodes.next(MessageType.REQUEST_TERMINATE_JOB, number).version == version
    line = running.completed(number)
    for part in ("JobState=FAILED", "ExitCode=3:0", "Name=weather", "TimeLimit=60"):
        assert f" {part} " in line


def test_tasks_of_an_array_are_launched_one_by_one(running: Controller) -> None:
    array = submit(running, submission("new", array="4-5%1", time_limit_min=1))
    for task in (4, 5):
        launch = launched(running, array)
        assert (launch.array_job, launch.array_task) == (array, task)
        complete(running, launch.job, 0)


def test_a_node_is_free_when_its_epilog_is_over(running: Controller) -> None:
    first, second = (submit(running, submission("new", nodes="n1", exclusive=True)) for _ in range(2))
    launched(running, first)
    running.nodes.to_termination = SUCCESS
    complete(running, first, 0)
    running.nodes.next(MessageType.REQUEST_TERMINATE_JOB, first)
    running.nodes.to_termination = JOB_ALREADY_COMPLETE
    assert not running.nodes.within(1.5, MessageType.REQUEST_BATCH_JOB_LAUNCH, second)
    running.tell(message(RECORDS["EpilogComplete"](of_job(first), 0, "n1"), version=NEW))
    launched(running, second)
    complete(running, second, 0)


def test_a_rejected_submission_says_why(running: Controller) -> None:
    answer = running.ask(message(submission("nowhere"), MessageType.REQUEST_SUBMIT_BATCH_JOB, NEW)).body
    assert isinstance(answer, ReturnCodeWithText | ReturnCode)
    assert answer.code == 2000


def test_the_controller_answers_a_ping(running: Controller) -> None:
    assert running.ask(message(RECORDS["Empty"](), MessageType.REQUEST_PING, NEW)).body == ReturnCode(0)


@needs_munge
def test_one_reply_frees_all_nodes_of_a_job_with_munge_too(tmp_path: Path) -> None:
    with munge_daemon() as socket:
        lines = WHOLE_NODES_AND_MUNGE.format(socket=socket, addresses=",".join(["127.0.0.1"] * 12))
        with controller(tmp_path, lines, Munge(socket)) as running:
            for node in NAMES:
                registered = registration(node)
                assert running.ask(message(registered, version=NEW)).body == ReturnCode(0)
            first, second = (submit(running, submission("new", min_nodes=12)) for _ in range(2))
            assert [share.node for share in shares(launched(running, first))] == NAMES
            complete(running, first, 0)
            assert " JobState=COMPLETED " in running.completed(first)
            launched(running, second)
            ends = running.nodes.within(0.1, MessageType.REQUEST_TERMINATE_JOB, first)
            reached = [1 + end.forward.n_nodes for end in ends if end.forward]
            assert (len(ends), sum(reached)) == (2, 12), "one to each of TreeWidth nodes, who pass it on"
