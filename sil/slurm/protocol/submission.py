"""What a user requests for a job, as `sbatch` takes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sil.slurm.protocol.fields import INFINITE_32, ProtocolError
from sil.slurm.protocol.job_credential import PER_CPU
from sil.slurm.protocol.job_description import JobDescription

_NICE = 1 << 31
"""The nice value 0."""
_ANY_DISTRIBUTION = 0x2000

_KILL_ON_INVALID_DEPENDENCY, _KEEP_ON_INVALID_DEPENDENCY = 1 << 0, 1 << 1
_TASKS_ARE_GIVEN, _CPUS_ARE_GIVEN = 1 << 14, 1 << 15
_BY_DEFAULT = {"account": 1 << 25, "partition": 1 << 26, "qos": 1 << 27, "wckey": 1 << 28}
"""Flags that say that an option was not given."""
_NAMED_ALIKE = (
    *("name", "account", "partition", "qos", "reservation", "min_nodes", "max_nodes", "cpus_per_task"),
    *("licenses", "deadline", "dependency", "priority", "comment", "wckey", "script", "environment"),
)
_AS_GIVEN = {
    **dict(zip(_NAMED_ALIKE, _NAMED_ALIKE, strict=True)),
    "tasks_per_node": "ntasks_per_node",
    "disk_per_node_mb": "pn_min_tmp_disk",
    "constraint": "features",
    "nodes": "req_nodes",
    "excluded_nodes": "exc_nodes",
    "time_limit_min": "time_limit",
    "least_time_min": "time_min",
    "begin": "begin_time",
    "array": "array_inx",
    "directory": "work_dir",
    "output": "std_out",
    "user": "user_id",
    "group": "group_id",
}
"""Options that are packed as they are, and how Slurm calls them."""
_TO_SBATCH = {
    "user": "uid",
    "group": "gid",
    "name": "job-name",
    "tasks": "ntasks",
    "tasks_per_node": "ntasks-per-node",
    "memory_per_node_mb": "mem",
    "memory_per_cpu_mb": "mem-per-cpu",
    "memory_per_gpu_mb": "mem-per-gpu",
    "disk_per_node_mb": "tmp",
    "nodes": "nodelist",
    "excluded_nodes": "exclude",
    "time_limit_min": "time",
    "least_time_min": "time-min",
    "directory": "chdir",
}
"""Options that `sbatch` does not call as here."""
_SWITCHES: dict[str, dict[bool, str]] = {
    "exclusive": {True: "exclusive", False: "oversubscribe"},
    "contiguous": {True: "contiguous"},
    "hold": {True: "hold"},
    "requeue": {True: "requeue", False: "no-requeue"},
    "kill_on_node_failure": {False: "no-kill"},
    "kill_on_invalid_dependency": {True: "kill-on-invalid-dep=yes", False: "kill-on-invalid-dep=no"},
}
UNLIMITED = INFINITE_32
"""As a time limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission:
    """Options that are not given have the controller's defaults; without `max_nodes`, `min_nodes` is the
    number of nodes. Memory and disk space are in MB, time limits in minutes, points in time in seconds
    since 1970. Texts are as after `sbatch`'s options: `array` like `1-100%4`, `dependency` like `afterok:17`,
    `gres` (per node) like `gpu:a100:2`, `licenses` like `matlab:2`.
    """

    user: int
    group: int
    name: str | None = None
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    reservation: str | None = None
    min_nodes: int | None = None
    max_nodes: int | None = None
    tasks: int | None = None
    tasks_per_node: int | None = None
    cpus_per_task: int | None = None
    memory_per_node_mb: int | None = None
    memory_per_cpu_mb: int | None = None
    disk_per_node_mb: int | None = None
    gres: str | None = None
    gpus: str | None = None
    """GPUs of the whole job, like `4` or `a100:4`; as the three that follow."""
    gpus_per_node: str | None = None
    gpus_per_task: str | None = None
    gpus_per_socket: str | None = None
    cpus_per_gpu: int | None = None
    memory_per_gpu_mb: int | None = None
    licenses: str | None = None
    constraint: str | None = None
    nodes: str | None = None
    excluded_nodes: str | None = None
    exclusive: bool | None = None
    """Whether the job has its nodes to itself (True), or may share what it was allocated (False)."""
    contiguous: bool = False
    time_limit_min: int | None = None
    least_time_min: int | None = None
    begin: int = 0
    deadline: int = 0
    dependency: str | None = None
    kill_on_invalid_dependency: bool | None = None
    array: str | None = None
    priority: int | None = None
    nice: int | None = None
    hold: bool = False
    requeue: bool | None = None
    kill_on_node_failure: bool = True
    comment: str | None = None
    wckey: str | None = None
    script: str = "#!/bin/sh\n"
    directory: str = "/"
    output: str = "/dev/null"
    environment: tuple[str, ...] = ("PATH=/bin", "SLURM_GET_USER_ENV=0")
    others: tuple[str, ...] = ()
    """Further options, like `--switches=1`, which only `sbatch` can submit."""

    def words(self) -> Iterator[str]:
        """The same as options of `sbatch`; without the script and its environment."""
        for option in self.__slots__:
            value = getattr(self, option)
            if option in _SWITCHES:
                if value in _SWITCHES[option]:
                    yield f"--{_SWITCHES[option][value]}"
            elif value is None or option in ("script", "environment", "others", "max_nodes"):
                continue
            elif option in ("begin", "deadline"):
                if value:
                    yield f"--{option}={datetime.fromtimestamp(value, UTC):%Y-%m-%dT%H:%M:%S}"
            elif option == "min_nodes":
                yield f"--nodes={value}" if self.max_nodes is None else f"--nodes={value}-{self.max_nodes}"
            else:
                yield f"--{_TO_SBATCH.get(option, option.replace('_', '-'))}={value}"
        yield from self.others

    def described(self) -> JobDescription:
        """The job as it is packed. Raises ProtocolError for options that exclude each other."""
        given = ((wire, getattr(self, option)) for option, wire in _AS_GIVEN.items())
        fields: dict[str, Any] = {wire: value for wire, value in given if value is not None}
        if self.requeue is not None:
            fields["requeue"] = int(self.requeue)
        if self.hold:
            fields["priority"] = 0
        if self.nice is not None:
            fields["nice"] = _NICE + self.nice
        if self.exclusive is not None:
            fields["shared"] = int(not self.exclusive)
        if not self.kill_on_node_failure:
            fields["kill_on_node_fail"] = 0
        if self.max_nodes is None and self.min_nodes is not None:
            fields["max_nodes"] = self.min_nodes
        if self.cpus_per_task is not None:
            fields["pn_min_cpus"] = self.cpus_per_task
        tasks = self._tasks()
        if tasks is not None:
            fields["num_tasks"] = tasks
        memory = self._memory()
        if memory is not None:
            fields["pn_min_memory"] = memory
        return JobDescription(
            min_cpus=(tasks or self.min_nodes or 1) * (self.cpus_per_task or 1),
            contiguous=int(self.contiguous),
            task_dist=_ANY_DISTRIBUTION,
            bitflags=self._flags(),
            **fields,
            **self._generic_resources(),
        )

    def _tasks(self) -> int | None:
        if self.tasks is None and self.tasks_per_node is not None:
            return self.tasks_per_node * (self.min_nodes or 1)
        return self.tasks

    def _memory(self) -> int | None:
        if self.memory_per_cpu_mb is None:
            return self.memory_per_node_mb
        if self.memory_per_node_mb is not None:
            raise ProtocolError("a job requests memory per node and per CPU; give one of both")
        return self.memory_per_cpu_mb | PER_CPU

    def _flags(self) -> int:
        kill = self.kill_on_invalid_dependency
        return sum(
            (
                *(flag for option, flag in _BY_DEFAULT.items() if getattr(self, option) is None),
                _TASKS_ARE_GIVEN if self._tasks() is not None else 0,
                _CPUS_ARE_GIVEN if self.cpus_per_task is not None else 0,
                0 if kill is None else _KILL_ON_INVALID_DEPENDENCY if kill else _KEEP_ON_INVALID_DEPENDENCY,
            )
        )

    def _generic_resources(self) -> dict[str, Any]:
        gres = (self.gres or "").split(",")
        others = [part if part.startswith("gres:") else f"gres:{part}" for part in gres if part]
        per_node = [*_gpus(self.gpus_per_node), *others]
        found = {
            "tres_per_job": _gpus(self.gpus),
            "tres_per_node": per_node,
            "tres_per_task": _gpus(self.gpus_per_task),
            "tres_per_socket": _gpus(self.gpus_per_socket),
            "cpus_per_tres": _gpus(self.cpus_per_gpu),
            "mem_per_tres": _gpus(self.memory_per_gpu_mb),
        }
        return {name: ",".join(parts) for name, parts in found.items() if parts}


def _gpus(number: str | int | None) -> list[str]:
    """One item for each kind of GPUs."""
    return [] if number is None else [f"gres:gpu:{part}" for part in str(number).split(",")]
