"""What the controller asks of nodes. Memory is in MB."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from sil.slurm.protocol.fields import U8, U16, U32, U64, Flagged, Listed, Text, Texts, Time, U32s
from sil.slurm.protocol.gres import GresAllocation
from sil.slurm.protocol.job_credential import (
    JobCredential,
    JobOrStep,
    NodeShare,
    Repeated16,
    StepId,
    shares,
)
from sil.slurm.protocol.layouts import Before, Nested, Since, Versioned
from sil.slurm.protocol.releases import V21_08, V22_05, V24_05, V24_11, V25_11


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
