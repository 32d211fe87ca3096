"""The numbers of messages, and the layouts of their bodies."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from sil.slurm.protocol.from_nodes import (
    CompleteBatchScript,
    EnergyOfNode,
    EpilogComplete,
    NodeRegistration,
    Pinged,
    ReturnCode,
    ReturnCodeWithText,
    Submitted,
)
from sil.slurm.protocol.job_description import HeterogeneousJob, JobDescription
from sil.slurm.protocol.to_nodes import (
    BatchJobLaunch,
    Configuration,
    Empty,
    KillJob,
    Shutdown,
    SignalTasks,
    SuspendJob,
)


class MessageType(IntEnum):
    REQUEST_NODE_REGISTRATION_STATUS = 1001
    MESSAGE_NODE_REGISTRATION_STATUS = 1002
    REQUEST_RECONFIGURE = 1003
    REQUEST_RECONFIGURE_WITH_CONFIG = 1004
    REQUEST_SHUTDOWN = 1005
    REQUEST_PING = 1008
    REQUEST_HEALTH_CHECK = 1011
    RESPONSE_PING_SLURMD = 1016
    REQUEST_ACCT_GATHER_UPDATE = 1017
    RESPONSE_ACCT_GATHER_UPDATE = 1018
    REQUEST_SUBMIT_BATCH_JOB = 4003
    RESPONSE_SUBMIT_BATCH_JOB = 4004
    REQUEST_BATCH_JOB_LAUNCH = 4005
    REQUEST_SUBMIT_BATCH_HET_JOB = 4028
    REQUEST_COMPLETE_BATCH_SCRIPT = 5018
    REQUEST_SUSPEND_INT = 5031
    REQUEST_SIGNAL_TASKS = 6004
    REQUEST_TERMINATE_TASKS = 6006
    REQUEST_KILL_TIMELIMIT = 6009
    REQUEST_TERMINATE_JOB = 6011
    MESSAGE_EPILOG_COMPLETE = 6012
    REQUEST_ABORT_JOB = 6013
    REQUEST_KILL_PREEMPTED = 6016
    RESPONSE_SLURM_RC = 8001
    RESPONSE_SLURM_RC_MSG = 8002
    RESPONSE_FORWARD_FAILED = 9001


BODIES: dict[int, Any] = {
    MessageType.REQUEST_NODE_REGISTRATION_STATUS: Empty,
    MessageType.MESSAGE_NODE_REGISTRATION_STATUS: NodeRegistration,
    MessageType.REQUEST_RECONFIGURE: Empty,
    MessageType.REQUEST_RECONFIGURE_WITH_CONFIG: Configuration,
    MessageType.REQUEST_SHUTDOWN: Shutdown,
    MessageType.REQUEST_PING: Empty,
    MessageType.REQUEST_HEALTH_CHECK: Empty,
    MessageType.RESPONSE_PING_SLURMD: Pinged,
    MessageType.REQUEST_ACCT_GATHER_UPDATE: Empty,
    MessageType.RESPONSE_ACCT_GATHER_UPDATE: EnergyOfNode,
    MessageType.REQUEST_SUBMIT_BATCH_JOB: JobDescription,
    MessageType.REQUEST_SUBMIT_BATCH_HET_JOB: HeterogeneousJob,
    MessageType.RESPONSE_SUBMIT_BATCH_JOB: Submitted,
    MessageType.REQUEST_BATCH_JOB_LAUNCH: BatchJobLaunch,
    MessageType.REQUEST_COMPLETE_BATCH_SCRIPT: CompleteBatchScript,
    MessageType.REQUEST_SUSPEND_INT: SuspendJob,
    MessageType.REQUEST_SIGNAL_TASKS: SignalTasks,
    MessageType.REQUEST_TERMINATE_TASKS: SignalTasks,
    MessageType.REQUEST_KILL_TIMELIMIT: KillJob,
    MessageType.REQUEST_TERMINATE_JOB: KillJob,
    MessageType.MESSAGE_EPILOG_COMPLETE: EpilogComplete,
    MessageType.REQUEST_ABORT_JOB: KillJob,
    MessageType.REQUEST_KILL_PREEMPTED: KillJob,
    MessageType.RESPONSE_SLURM_RC: ReturnCode,
    MessageType.RESPONSE_SLURM_RC_MSG: ReturnCodeWithText,
    MessageType.RESPONSE_FORWARD_FAILED: Empty,
}


def name_of(number: int) -> str:
    """The protocol's name of a message, or its number."""
    return MessageType(number).name if number in BODIES else f"message {number}"


def type_of(body: Any) -> MessageType:
    """The number of the only message with this layout. Raises KeyError if there are several."""
    return _ONLY[type(body)]


_ONLY = {
    body: MessageType(number)
    for number, body in BODIES.items()
    if sum(other is body for other in BODIES.values()) == 1
}
