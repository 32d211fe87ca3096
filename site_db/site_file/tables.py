"""The tables of a site file, which describes a whole site."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from site_db.site_file import hostlist
from site_db.toml_file import NotNegative, Positive, Table


def _checked_name(name: str) -> str:
    if not name.strip():
        raise ValueError("a name cannot be empty")
    if name != name.strip():
        raise ValueError(f"the name '{name}' has spaces around it")
    if not name.isprintable():
        raise ValueError(f"the name '{name}' has a character that cannot be printed")
    return name


Name = Annotated[str, AfterValidator(_checked_name)]
Names = Annotated[tuple[Name, ...], AfterValidator(lambda names: tuple(hostlist.expand(names)))]


def _text(text: str) -> str:
    if "\0" in text:
        raise ValueError("the text has a NUL character, which no database keeps")
    return text


Text = Annotated[str, AfterValidator(_text)]

# Strict: neither true nor "10" is a number here.
Priority = Annotated[int, Field(ge=-(2**31), lt=2**31, strict=True)]
"""As wide as an integer column of every database."""

WholeNumber = Annotated[int, Field(ge=1, lt=2**31, strict=True)]


class MachineClassTable(Table):
    name: Name
    architecture: Text = ""


class MachinesTable(Table):
    """Machines of one class and one specification, by name or by ranges like "node[01-08]".

    With twice the `rating`, half the time is expected. Notional machines exist only in experiments and plans.
    """

    names: Names
    machine_class: Name
    processors: WholeNumber = 1
    memory_mb: Positive | None = None
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
    `most_jobs` parallel tasks, which require at most `most_cpu` CPUs in total."""

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


class JobClassTable(Table):
    """A class may run where it has a time (seconds on a machine of a class, or on a whole cluster) or a
    command line; and on time-shared nodes with the numbers of tasks that were measured in isolation. `size`
    names the parameter on which its time depends."""

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


class SiteFile(Table):
    """A site; `validation.errors` finds contradictions between its tables."""

    name: Name
    description: Text = ""
    only_listed_users: bool = Field(default=False, strict=True)
    machine_classes: tuple[MachineClassTable, ...]
    machines: tuple[MachinesTable, ...] = ()
    interconnects: tuple[InterconnectTable, ...] = ()
    clusters: tuple[ClusterTable, ...] = ()
    job_classes: tuple[JobClassTable, ...]
    queues: tuple[QueueTable, ...] = ()
    users: tuple[UserTable, ...] = ()
