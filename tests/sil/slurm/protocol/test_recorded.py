"""What the codec reads in messages between Slurm's own commands and daemons; it writes the same bytes."""

from __future__ import annotations

from typing import Any

import pytest

from sil.slurm.protocol.authentication import Stated
from sil.slurm.protocol.envelope import NO_CREDENTIAL, Unknown, encode, reply
from sil.slurm.protocol.records import (
    RECORDS,
    SUSPEND,
    BatchJobLaunch,
    CompleteBatchScript,
    Credential,
    Energy,
    node_gres,
)
from sil.slurm.protocol.releases import BODIES, V20_11, V22_05, V24_11, V26_05, MessageType
from sil.slurm.protocol.submission import NodeShare, Submission, described, shares
from tests.sil.slurm.protocol.recorded_messages import ALL, RELEASES, body, recorded, recorded_bytes

GPU = 7696487
VERSIONS = {"22.05.8": V22_05, "24.11.5": V24_11, "26.05.5": V26_05}
"""Of the protocol, of releases."""
of_each_release = pytest.mark.parametrize("release", RELEASES)


@pytest.mark.parametrize("name", ALL)
def test_a_recorded_message_is_read_and_packed_again_as_the_same_bytes(name: str) -> None:
    message = recorded(name)
    sender = Credential(0, 0, "testbed")
    assert message.credential == (None if message.flags & NO_CREDENTIAL else sender)
    assert encode(message, Stated(*sender))[4:] == recorded_bytes(name)


@of_each_release
def test_every_message_that_can_be_read_was_recorded(release: str) -> None:
    seen = {recorded(name).type for name in ALL if name.startswith(release)}
    never = {
        MessageType.RESPONSE_FORWARD_FAILED,  # all nodes were there
        MessageType.REQUEST_TERMINATE_TASKS,  # as REQUEST_SIGNAL_TASKS
    }
    assert set(BODIES) - never <= seen


@of_each_release
def test_the_registration_of_a_node_with_gpus(release: str) -> None:
    node = body(f"{release}/MESSAGE_NODE_REGISTRATION_STATUS")
    assert (node.host, node.version, node.architecture) == ("testbed", release, "x86_64")
    assert (node.cpus, node.boards, node.sockets) == (16, 1, 2)
    assert (node.cores_per_socket, node.threads_per_core) == (4, 2)
    assert node.gres == (node_gres("gpu", 4, "a100", n_cpus=16),)
    assert node.energy == Energy()


def of_first(launch: Any) -> NodeShare:
    return shares(launch)[0]


def launched(release: str, label: str) -> Any:
    found = body(f"{release}/REQUEST_BATCH_JOB_LAUNCH-{label}")
    assert isinstance(found, BatchJobLaunch)
    return found


@of_each_release
def test_a_launch_names_job_user_and_nodes(release: str) -> None:
    launch = launched(release, "names-of-nodes")
    assert (launch.credential.user, launch.nodes, launch.partition) == (0, "n[2-3]", "batch")
    assert shares(launch) == [
        NodeShare("n2", 2, (0,), (), 64000, {}),
        NodeShare("n3", 2, (0,), (), None, {}),
    ], "only the first node's memory is in the order if the job has not requested any"


@of_each_release
def test_a_launch_has_the_gpus_and_cores_on_each_node(release: str) -> None:
    everything = tuple(range(8)), tuple(range(4))
    assert [(share.cores, share.gpus) for share in shares(launched(release, "gpus-per-node"))] == [
        everything
    ] * 2
    cores = (0, 1, 4) if release == "22.05.8" else (0, 4, 5)
    assert of_first(launched(release, "gpus-of-the-job")) == NodeShare(
        "n1", 6, cores, (0, 1, 2), 300, {GPU: 3}
    )
    assert of_first(launched(release, "gpus-per-task")).gpus == (0, 1)


@of_each_release
def test_a_launch_has_the_memory_on_each_node_that_was_requested(release: str) -> None:
    assert [share.memory_mb for share in shares(launched(release, "nodes-and-tasks"))] == [2000] * 3
    assert of_first(launched(release, "memory-per-cpu")).memory_mb == 2000, "four CPUs of 500 MB"


@of_each_release
def test_a_launch_of_an_array_names_the_task(release: str) -> None:
    launch = launched(release, "array-that-runs")
    assert (launch.array_job > 0, launch.array_task) == (True, 3)
    assert launched(release, "plain").array_job == 0


def submission(**options: Any) -> Any:
    return Submission(**{"user": 0, "group": 0, "name": "wrap", **options})


SUBMISSIONS = {
    "plain": submission(user=1, group=2),
    "nodes-and-tasks": submission(
        name="weather",
        partition="batch",
        min_nodes=2,
        max_nodes=3,
        tasks=8,
        cpus_per_task=2,
        tasks_per_node=4,
        memory_per_node_mb=2000,
        time_limit_min=90,
    ),
    "tasks-per-node": submission(
        min_nodes=2, tasks_per_node=3, cpus_per_task=2, time_limit_min=10, comment="daily"
    ),
    "memory-per-cpu": submission(
        tasks=3,
        memory_per_cpu_mb=500,
        time_limit_min=90,
        nice=50,
        requeue=False,
        contiguous=True,
        constraint="fast",
        disk_per_node_mb=100,
    ),
    "gpus-per-node": submission(
        min_nodes=2, gres="gpu:a100:2", time_limit_min=10, exclusive=True, licenses="matlab:2"
    ),
    "gpus-of-the-job": submission(
        gpus="a100:3", cpus_per_gpu=2, memory_per_gpu_mb=100, time_limit_min=10, requeue=True
    ),
    "gpus-per-task": submission(
        tasks=2, gpus_per_task="1", time_limit_min=10, exclusive=False, kill_on_invalid_dependency=True
    ),
    "array": submission(array="1-5%2", time_limit_min=10, hold=True),
    "dependency": submission(dependency="afterany:1", time_limit_min=10, account="physics", qos="normal"),
    "times": submission(
        begin=1924992000, deadline=1956528000, time_limit_min=10, least_time_min=5, kill_on_node_failure=False
    ),
    "refused": submission(
        partition="nowhere",
        reservation="maintenance",
        priority=77,
        wckey="spring",
        gpus_per_node="a100:1,v100:2",
    ),
    "names-of-nodes": submission(nodes="n[2-3]", excluded_nodes="n4", min_nodes=2, time_limit_min=10),
}


@of_each_release
@pytest.mark.parametrize("label", SUBMISSIONS)
def test_a_submission_is_described_as_by_sbatch(release: str, label: str) -> None:
    theirs = body(f"{release}/REQUEST_SUBMIT_BATCH_JOB-{label}")
    as_before = {} if release == "22.05.8" else LATER.get(label, {})
    assert comparable(described(SUBMISSIONS[label])) == comparable(theirs._replace(**as_before))


LATER: dict[str, dict[str, Any]] = {
    "nodes-and-tasks": {"tres_per_task": None},
    "tasks-per-node": {"tres_per_task": None, "bitflags": 0x1E00C000},
    "gpus-of-the-job": {"min_cpus": 1},
    "gpus-per-task": {"tres_bind": None, "tres_per_task": "gres:gpu:1"},
}
"""What sbatch has stated otherwise since 23.11, and controllers take in both ways, as it was before: CPUs and
GPUs per task among other resources, the number of CPUs for that of GPUs."""
SENDER = 99
"""As a user, since 23.11."""


def comparable(job: Any) -> dict[str, object]:
    """Without what concerns the process of sbatch, and what means the same if it is missing."""
    of_the_process = ("environment", "script", "submit_line", "alloc_sid", "std_in")
    by_default = {"mail_type": 0, "mem_bind_type": 0}
    if job.user_id == SENDER:
        by_default |= {"user_id": 0, "group_id": 0}
    return {
        name: value.replace("gres/", "gres:") if isinstance(value, str) else value
        for name, value in job._replace(**by_default)._asdict().items()
        if name not in of_the_process
    }


@of_each_release
def test_the_answers_to_submissions(release: str) -> None:
    assert body(f"{release}/REQUEST_SUBMIT_BATCH_JOB-plain-answer").job == 1
    refused = body(f"{release}/REQUEST_SUBMIT_BATCH_JOB-refused-answer")
    assert (refused.code, refused.text) == (2000, "invalid partition specified: nowhere")


@of_each_release
def test_the_end_of_a_job_of_another_user_with_exit_code_3(release: str) -> None:
    launch, failed = launched(release, "plain"), 0x8005
    assert launch.job == 1
    assert (launch.credential.user, launch.credential.group, launch.credential.user_name) == (1, 2, "daemon")
    done = body(f"{release}/REQUEST_COMPLETE_BATCH_SCRIPT")
    assert done._replace(id=done.id.job) == CompleteBatchScript(None, 1, 3 * 256, 0, 1, "n1")
    end = body(f"{release}/REQUEST_TERMINATE_JOB")
    assert (end.id.job, end.user, end.group, end.exit_status, end.state) == (1, 1, 2, 3 * 256, failed)
    assert end.started <= end.sent
    epilog = body(f"{release}/MESSAGE_EPILOG_COMPLETE")
    assert epilog == RECORDS["EpilogComplete"](epilog.id, 0, "n1")


@of_each_release
@pytest.mark.parametrize("why", ["TERMINATE_JOB", "KILL_TIMELIMIT", "KILL_PREEMPTED", "ABORT_JOB"])
def test_an_order_to_end_a_job_names_it_and_its_nodes(release: str, why: str) -> None:
    name = next(name for name in ALL if name.startswith(f"{release}/REQUEST_{why}"))
    found = body(name)
    assert found.id.job > 0
    assert found.nodes.startswith("n")
    is_registered = why != "ABORT_JOB" or release != "22.05.8"
    assert recorded(name).version == (VERSIONS[release] if is_registered else V20_11)


@of_each_release
def test_orders_to_suspend_and_signal_a_job(release: str) -> None:
    assert body(f"{release}/REQUEST_SUSPEND_INT").operation == SUSPEND
    assert body(f"{release}/REQUEST_SIGNAL_TASKS").signal == 10


@of_each_release
def test_a_reconfiguration_contains_the_file(release: str) -> None:
    files = body(f"{release}/REQUEST_RECONFIGURE_WITH_CONFIG").files
    assert "NodeName=n1" in next(file.content for file in files if file.name == "slurm.conf")


@pytest.mark.parametrize(
    "name", [name for name in ALL if name.endswith("-many") and "ACCT_GATHER" not in name]
)
def test_one_reply_answers_for_all_nodes_to_which_a_message_is_forwarded(name: str) -> None:
    request, theirs = recorded(name), recorded(f"{name}-answer")
    ours = reply(request)
    assert ours.type == theirs.type
    assert {one.node for one in ours.returned} == {one.node for one in theirs.returned}
    assert {one.type for one in ours.returned} == {one.type for one in theirs.returned}
    assert len(ours.returned) == len(theirs.returned) > 0


@of_each_release
def test_a_node_can_answer_otherwise_than_others(release: str) -> None:
    request = recorded(f"{release}/REQUEST_ACCT_GATHER_UPDATE-many")
    theirs = recorded(f"{release}/REQUEST_ACCT_GATHER_UPDATE-many-answer")
    ours = reply(request, first=theirs.body.node)
    assert (ours.body, set(ours.returned)) == (theirs.body, set(theirs.returned))


@of_each_release
def test_a_message_that_is_not_known_is_answered_with_an_error(release: str) -> None:
    request = recorded(f"{release}/unknown")
    assert isinstance(request.body, Unknown)
    assert reply(request).body.code == 22
