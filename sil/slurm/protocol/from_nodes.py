"""What nodes report to the controller, and answers in both directions. Memory and disk space are in MB."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from sil.slurm.protocol.fields import (
    NO_VALUE_32,
    U8,
    U16,
    U32,
    U64,
    Flagged,
    Listed,
    ProtocolError,
    Text,
    Time,
)
from sil.slurm.protocol.gres import GresOfNode
from sil.slurm.protocol.job_credential import BATCH_STEP, JobOrStep, StepId, of_job
from sil.slurm.protocol.layouts import Before, Moved, Nested, Since
from sil.slurm.protocol.releases import V24_05, V24_11, V25_05, V25_11, V26_05


class Energy(NamedTuple):
    base_consumed: U64 = 0
    average_watts: U32 = 0
    consumed: U64 = 0
    current_watts: U32 = 0
    previously_consumed: U64 = 0
    read: Time = 0
    node_started: Annotated[Time, Since(V24_11, 0)] = 0


class NodeRegistration(NamedTuple):
    """A node is there, with these resources, and these steps of jobs run on it. A controller crashes on None
    in place of `gres`."""

    sent: Time = 0
    started: Time = 0
    status: U32 = 0
    extra: Annotated[Text, Since(V24_05)] = None
    active_features: Text = None
    features: Text = None
    host: Text = None
    instance: Annotated[Text, Since(V24_05)] = None
    instance_type: Annotated[Text, Since(V24_05)] = None
    node: Text = None
    architecture: Text = None
    specialized_cpus: Text = None
    specialized_memory: Annotated[U64, Since(V25_05, 0)] = 0
    operating_system: Text = None
    parameters: Annotated[Text, Since(V25_11)] = None
    cpus: U16 = 1
    boards: U16 = 1
    sockets: U16 = 1
    cores_per_socket: U16 = 1
    threads_per_core: U16 = 1
    memory: U64 = 1
    disk: U32 = 0
    up_time_s: U32 = 0
    configuration_hash: U32 = NO_VALUE_32
    load_hundredths: U32 = 0
    free_memory: U64 = 0
    steps: Annotated[tuple[StepId, ...], Listed(Nested(StepId))] = ()
    flags: U16 = 0
    gres: GresOfNode = ()
    energy: Energy = Energy()
    version: Text = None
    dynamic_type: U8 = 0
    dynamic_configuration: Text = None
    dynamic_feature: Text = None


class NeverGiven:
    """The accounting of a job's processes, which no plug-in gathers here."""

    def write(self, value: Any, version: int) -> bytes:
        raise ProtocolError("the accounting of processes cannot be packed")

    def read(self, data: bytes, at: int, version: int) -> tuple[Any, int]:
        raise ProtocolError(
            "the accounting of processes cannot be read; use JobAcctGatherType=jobacct_gather/none"
        )


class CompleteBatchScript(NamedTuple):
    """A job's script is over. Its exit status is that of `wait`: the exit code times 256, or a signal. A
    `node` that is given must be the job's first one. `node_error` is an error of the node: it is drained."""

    accounting: Annotated[None, Flagged(NeverGiven())] = None
    id: Annotated[JobOrStep, Moved(V25_11, "user")] = of_job(0)
    exit_status: U32 = 0
    node_error: U32 = 0
    user: U32 = 0
    node: Text = None


def script_completed(job: int, user: int, exit_status: int = 0) -> CompleteBatchScript:
    return CompleteBatchScript(id=of_job(job, BATCH_STEP), exit_status=exit_status, user=user)


class EpilogComplete(NamedTuple):
    """A job that was to end is gone from a node."""

    id: JobOrStep
    return_code: U32
    node: Text


class ReturnCode(NamedTuple):
    """The answer to most messages: 0, or an error (`sil.slurm.protocol.return_codes`)."""

    code: U32


class ReturnCodeWithText(NamedTuple):
    code: U32
    text: Text


class Pinged(NamedTuple):
    """A node's answer to a ping."""

    load_hundredths: U32 = 0
    free_memory: U64 = 0
    node: Annotated[Text, Since(V26_05)] = None


class EnergyOfNode(NamedTuple):
    node: Text
    energy: Annotated[tuple[Energy, ...], Listed(Nested(Energy), "H")] = (Energy(),)


class Submitted(NamedTuple):
    """The controller's answer to a submission. `error` is a reason for which the job waits, such as a limit,
    or 0."""

    id: JobOrStep
    step: Annotated[U32, Before(V25_11, 0)]
    error: U32
    text: Text

    @property
    def job(self) -> int:
        return self.id.job
