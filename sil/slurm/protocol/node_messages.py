"""Messages between the controller and its nodes, and answers of both. Memory and disk space are in MB."""

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
    Texts,
    Time,
    U32s,
)
from sil.slurm.protocol.gres import GresAllocation, GresOfNode
from sil.slurm.protocol.job_credential import (
    BATCH_STEP,
    JobCredential,
    JobOrStep,
    NodeShare,
    Repeated16,
    StepId,
    of_job,
    shares,
)
from sil.slurm.protocol.layouts import Before, Moved, Nested, Since, Versioned
from sil.slurm.protocol.releases import V21_08, V22_05, V24_05, V24_11, V25_05, V25_11, V26_05


class Empty(NamedTuple):
    """A message without a body."""


class BatchJobLaunch(NamedTuple):
    """Start a job; sent to its first node only. `array_job` is 0 if the job is not of an array."""

    number: Annotated[U32, Before(V25_11, 0)]
    het_job: U32
    user: Annotated[U32, Before(V24_05, 0)]
    group: Annotated[U32, Before(V24_05, 0)]
    user_name: Annotated[Text, Before(V24_05)]
    groups: U32s
    partition: Text
    n_tasks: U32
    least_memory: U64
    open_mode: U8
    overcommit: U8
    array_job: U32
    array_task: U32
    accounting_frequency: Text
    container: Text
    cpu_binding_type: U16
    cpus_per_task: U16
    restarts: U16
    specialized_cores: U16
    cpus_of_nodes: Repeated16
    aliases: Annotated[Text, Before(V24_11)]
    cpu_binding: Text
    nodes: Text
    script: Text
    directory: Text
    standard_error: Text
    standard_input: Text
    standard_output: Text
    n_arguments: U32
    arguments: Texts
    spank_environment: Texts
    n_variables: U32
    environment: Texts
    memory: U64
    credential: Annotated[JobCredential, Versioned(Nested(JobCredential))]
    select_plugin: Annotated[U32, Before(V24_05, 0)]
    account: Text
    qos: Text
    reservation: Text
    profile: U32
    tres_binding: Text
    tres_frequency: Text
    tres_per_task: Annotated[Text, Since(V25_11)]
    least_cpu_frequency: Annotated[U32, Since(V24_11, 0)]
    cpu_frequency: Annotated[U32, Since(V24_11, 0)]
    cpu_governor: Annotated[U32, Since(V24_11, 0)]
    kill_step_without_memory: Annotated[U8, Since(V24_11, 0)]

    @property
    def job(self) -> int:
        return self.credential.id.job

    def shares(self) -> list[NodeShare]:
        """What the job has on each of its nodes. Raises ProtocolError if the message contradicts itself."""
        return shares(self.credential, self.cpus_of_nodes, self.least_memory)


class KillJob(NamedTuple):
    """End a job on the node: it was cancelled or is over (REQUEST_TERMINATE_JOB), it should not be there
    (REQUEST_ABORT_JOB), its time is over (REQUEST_KILL_TIMELIMIT), or another needs the node
    (REQUEST_KILL_PREEMPTED)."""

    credential: Annotated[JobCredential | None, Since(V22_05), Flagged(Nested(JobCredential))]
    details: Annotated[Text, Since(V22_05)]
    derived_exit_status: Annotated[U32, Since(V22_05, 0)]
    exit_status: Annotated[U32, Since(V22_05, 0)]
    gres: GresAllocation
    id: StepId
    het_job: U32
    state: U32
    user: U32
    group: U32
    nodes: Text
    select_plugin: Annotated[U32, Before(V24_05, 0)]
    spank_environment: Texts
    started: Time
    sent: Time
    directory: Annotated[Text, Since(V21_08)]


SUSPEND, RESUME = 0, 1


class SuspendJob(NamedTuple):
    """Suspend a job on the node, or let it continue."""

    for_long: Annotated[U8, Before(V24_05, 0)]
    specialized_cores: Annotated[U16, Before(V24_05, 0)]
    id: JobOrStep
    operation: U16


class SignalTasks(NamedTuple):
    """Send a signal to a step of a job, or to all."""

    id: StepId
    flags: U16
    signal: U16


class ConfigurationFile(NamedTuple):
    exists: U8
    execute: Annotated[U8, Since(V24_05, 0)]
    name: Text
    content: Text


class Configuration(NamedTuple):
    """Read the configuration again, which is this one."""

    files: Annotated[tuple[ConfigurationFile, ...] | None, Listed(Nested(ConfigurationFile))]
    spool: Text


class Shutdown(NamedTuple):
    """The node's daemon is to end."""

    options: U16


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
    """The answer to most messages: 0, or an error (`sil.slurm.protocol.codes`)."""

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
