"""The tables of a site file, which describes a whole site."""

from __future__ import annotations

from math import ceil
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from scheduler.node_resources.topology import Topology
from site_db.files.fields import (
    Amount,
    Amounts,
    GpuCounts,
    Megabytes,
    Name,
    Priority,
    Text,
    Whole,
    WholeNumber,
    Words,
)
from site_db.files.input_errors import MAX_VALUE
from site_db.files.toml_file import NotNegative, Positive, Table
from site_db.site_file import machine_names

Names = Annotated[tuple[Name, ...], AfterValidator(lambda names: tuple(machine_names.expand(names)))]


class MachineClassTable(Table):
    name: Name
    architecture: Text = ""


class MachinesTable(Table):
    """Machines of one class and one specification, by name or by ranges like "node[01-08]".

    With twice the `rating`, half the time is expected. Notional machines exist only in experiments and plans.
    As nodes of partitions, they have `processors`, of which `threads_per_core` are on one core, memory,
    `gpus` by type, and other `resources` and `features`, and are on a leaf `switch` of the topology.
    Where mapping schedulers are used instead, a machine runs as many sequential jobs at a time as it has
    `slots`.
    """

    names: Names
    machine_class: Name
    processors: WholeNumber = 1
    threads_per_core: WholeNumber = 1
    slots: WholeNumber = 1
    memory_mb: Positive | None = None
    gpus: GpuCounts = Field(default_factory=dict)
    resources: Amounts = Field(default_factory=dict)
    features: Words = ()
    switch: Text = ""
    storage_gb: NotNegative | None = None
    os: Text = ""
    rating: Positive | None = None
    interconnects: Names = ()
    notional: bool = Field(default=False, strict=True)


class InterconnectTable(Table):
    name: Name
    bandwidth_mbit_per_s: Positive
    latency_us: NotNegative = 0.0


class SocialContractTable(Table):
    """Local users of the nodes cede `share` of CPU and memory to parallel tasks. A node has at most
    `most_jobs` parallel tasks, which require at most `most_cpu` CPUs in total: two if the key is absent."""

    share: float = Field(default=0.5, gt=0, le=1, strict=True)
    most_jobs: WholeNumber = 4
    most_cpu: Positive | None = None


class ClusterTable(Table):
    """With a social contract, jobs share its nodes, among themselves and with local users."""

    name: Name
    members: Names
    interconnects: Names = ()
    least_share: float = Field(default=1.0, gt=0, le=1, strict=True)
    social_contract: SocialContractTable | None = None


class InIsolationTable(Table):
    """A parallel job of a class, measured in isolation with one task on each of `tasks` nodes.

    `exe_s` is its execution time; `cpu`, the share of one CPU, and `memory_mb` are those of one task.
    """

    tasks: WholeNumber
    exe_s: Positive
    cpu: float = Field(gt=0, le=1, strict=True)
    memory_mb: NotNegative


class PartitionTable(Table):
    """Nodes, which may also be in other partitions, and the limits of jobs there. Without `default_time_s`,
    the time limit of a job that requests none is `max_time_s`. Jobs of an exclusive one take whole nodes."""

    name: Name
    nodes: Names
    max_time_s: Positive | None = None
    default_time_s: Positive | None = None
    max_nodes: WholeNumber | None = None
    exclusive: bool = Field(default=False, strict=True)


class SiteResourceTable(Table):
    """A countable resource of the whole site, like licences."""

    name: Name
    amount: Amount


def _add_other_units(schema: dict[str, Any]) -> None:
    """Describe what `RequestTable` accepts in addition to its fields."""
    schema["properties"] |= {
        "memory_mb_per_core": {"type": "integer", "minimum": 0},
        "total_gpus": {"type": "integer", "minimum": 0},
    }


class RequestTable(Table):
    """What a job requests: a number of `nodes`, or of `tasks` on any nodes, and the cores, memory and GPUs on
    each of them. GPUs are whole ones, or `gpu_share` of one, of any of `gpu_types`.
    `site_resources` are for the job as a whole. It may run in any of the `partitions`.

    In a file, memory can also be given as `memory_mb_per_core`, and GPUs as `total_gpus` of the job. Cores
    and shares of a GPU are counted in thousandths.
    """

    model_config = ConfigDict(json_schema_extra=_add_other_units)

    nodes: WholeNumber = 1
    tasks: WholeNumber | None = None
    cores: NotNegative = 1.0
    memory_mb: Megabytes = 0
    gpus: Whole = 0
    gpu_share: float = Field(default=1.0, ge=0.001, le=1, strict=True)
    gpu_types: Words = ()
    resources: Amounts = Field(default_factory=dict)
    site_resources: Amounts = Field(default_factory=dict)
    features: Words = ()
    partitions: Words = ()
    exclusive: bool = Field(default=False, strict=True)
    time_limit_s: Positive | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_each(cls, data: Any) -> Any:
        """Convert amounts per core and in total to those of each node or task."""
        if not isinstance(data, dict):
            return data
        data = dict(data)
        for given, of_each in (("memory_mb_per_core", "memory_mb"), ("total_gpus", "gpus")):
            if given in data and of_each in data:
                raise ValueError(f"a request has either {of_each} or {given}, and this one has both")
        # Where cores, tasks or nodes are wrong, that is reported by itself.
        if "memory_mb_per_core" in data:
            per_core, cores = data.pop("memory_mb_per_core"), data.get("cores", 1)
            if not _is_positive(per_core, MAX_VALUE):
                raise ValueError(f"memory_mb_per_core is {per_core!r}; expected a number of MB, more than 0")
            if cores == 0:
                raise ValueError("memory_mb_per_core is of cores, and there are none; give memory_mb instead")
            if _is_positive(cores, MAX_VALUE):
                data["memory_mb"] = ceil(per_core * cores)
        if "total_gpus" in data:
            total, chunks = data.pop("total_gpus"), data.get("tasks") or data.get("nodes", 1)
            if not (isinstance(total, int) and _is_positive(total, 2**31)):
                raise ValueError(f"total_gpus is {total!r}; expected a whole number, 1 or more")
            if isinstance(chunks, int) and _is_positive(chunks, 2**31):
                if total % chunks:
                    raise ValueError(
                        f"total_gpus is {total}, which {chunks} nodes or tasks cannot share equally"
                    )
                data["gpus"] = total // chunks
        return data

    @model_validator(mode="after")
    def _is_a_request(self) -> RequestTable:
        if self.tasks is not None and self.nodes != 1:
            raise ValueError("a request has either nodes or tasks, and this one has both")
        if not (self.cores or self.memory_mb or self.gpus or self.resources):
            raise ValueError("a request has cores, memory_mb, gpus or resources; this one has none")
        if 0 < self.cores < MIN_CORES:
            raise ValueError(f"cores is {self.cores:g}; expected 0, or {MIN_CORES:g} or more")
        if self.gpu_share < 1 and self.gpus != 1:
            raise ValueError(f"gpu_share is of one GPU, and gpus is {self.gpus}; expected 1")
        if self.gpu_types and not self.gpus:
            raise ValueError("gpu_types is given without gpus; expected the number of GPUs, 1 or more")
        return self


MIN_CORES = 0.001


def _is_positive(number: Any, less_than: float) -> bool:
    """Whether this is a number above 0; false for infinity, NaN and true."""
    return isinstance(number, (int, float)) and not isinstance(number, bool) and 0 < number < less_than


class DataTable(Table):
    """The megabytes that a job reads and writes, and the cluster where they are `at`; without, where the job
    is submitted."""

    input_mb: NotNegative = 0.0
    output_mb: NotNegative = 0.0
    at: Text = ""


class JobClassTable(Table):
    """A class may run where it has a time (seconds on a machine of a class, or on a whole cluster) or a
    command line; and on time-shared nodes with the numbers of tasks that were measured in isolation. `size`
    names the parameter on which its time depends. On nodes, its jobs `request` parts of them (one core if
    the key is absent), and `sequential_s` is their run time on nodes of a class. With several clusters,
    their `data` follow them."""

    name: Name
    description: Text = ""
    size: Text = ""
    network_mbit_per_s: NotNegative | None = None
    sequential_s: dict[Name, Positive] = Field(default_factory=dict)
    parallel_s: dict[Name, Positive] = Field(default_factory=dict)
    commands: dict[Name, Text] = Field(default_factory=dict)
    parallel_commands: dict[Name, Text] = Field(default_factory=dict)
    preferred: Names = ()
    in_isolation: tuple[InIsolationTable, ...] = ()
    request: RequestTable | None = None
    data: DataTable | None = None


class QueueTable(Table):
    name: Name
    priority: Priority = 0
    scheduler: Name | None = None
    mapping: Literal["commit", "remap"] = "commit"
    users: tuple[Name, ...] | None = None
    displaces: tuple[Name, ...] = ()


class SubmissionRightTable(Table):
    """Another user as whom a user may submit, to some queues or (without `queues`) to all."""

    user: Name
    queues: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None


class UserTable(Table):
    """Limits of one user; without a key there is none."""

    name: Name
    queues: tuple[Name, ...] | None = None
    most_jobs: WholeNumber | None = None
    highest_priority: Priority | None = None
    may_submit_as: tuple[SubmissionRightTable, ...] = ()


class TopologyTable(Table):
    """The fields of a `Topology`: leaf switches or base blocks, which machines name, and for each switch or
    block above them its level and the places of its leaves, counted from 0."""

    leaves: Annotated[Names, Field(min_length=1)]
    above: tuple[tuple[WholeNumber, frozenset[Whole]], ...] = ()
    block_sizes: tuple[WholeNumber, ...] = ()
    is_optional: bool = Field(default=False, strict=True)
    max_wait_s: NotNegative = Topology.max_wait_s


class SiteFile(Table):
    """A site; `validation.errors` finds contradictions between its tables."""

    name: Name
    description: Text = ""
    only_listed_users: bool = Field(default=False, strict=True)
    topology: TopologyTable | None = None
    machine_classes: tuple[MachineClassTable, ...]
    machines: tuple[MachinesTable, ...] = ()
    interconnects: tuple[InterconnectTable, ...] = ()
    clusters: tuple[ClusterTable, ...] = ()
    partitions: tuple[PartitionTable, ...] = ()
    site_resources: tuple[SiteResourceTable, ...] = ()
    job_classes: tuple[JobClassTable, ...]
    queues: tuple[QueueTable, ...] = ()
    users: tuple[UserTable, ...] = ()
