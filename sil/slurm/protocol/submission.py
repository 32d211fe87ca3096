"""What a user requests for a job, as `sbatch` takes it, and what the job then has on each of its nodes, in
the order to launch it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from sil.slurm.protocol.records import JobDescription, named, plugin_of
from sil.slurm.protocol.releases import ProtocolError
from site_db.site_file.machine_names import expand, patterns

PER_CPU = 1 << 63
"""A flag in a request of memory: for each CPU, not each node."""
MAX_NODES = 1_000_000
"""The most nodes of a job; more are malformed."""
GPU = plugin_of("gpu")


class NodeShare(NamedTuple):
    """What a job has on one of its nodes: places of cores and GPUs on the node, and the number of each
    generic resource by its plug-in. The order to launch a job says what memory (in MB) it has on its first
    node, and on others only if it has requested memory; else that is None."""

    node: str
    cpus: int
    cores: tuple[int, ...]
    gpus: tuple[int, ...]
    memory_mb: int | None
    gres: dict[int, int]


def shares(launch: Any) -> list[NodeShare]:
    """What the job has on each of its nodes, in their order. Raises ProtocolError if the order contradicts
    itself."""
    credential = launch.credential
    names = node_names(credential.nodes)
    if len(names) != credential.n_nodes:
        raise ProtocolError(f"a credential of {credential.n_nodes:,} nodes names {len(names):,}")
    cpus = _of_each(launch.cpus_of_nodes)
    if len(cpus) != len(names):
        raise ProtocolError(f"a job on {len(names):,} nodes has CPUs on {len(cpus):,}")
    known = _of_each(credential.memory_of_nodes)[: len(names)]
    memory = [*known, *(_memory(launch.least_memory, n_cpus) for n_cpus in cpus[len(known) :])]
    gpus: list[list[int]] = [[] for _ in names]
    numbers: list[dict[int, int]] = [{} for _ in names]
    for gres in credential.gres:
        for of_node, number in zip(numbers, gres.counts or (), strict=False):
            if number:
                of_node[gres.plugin] = of_node.get(gres.plugin, 0) + number
        for places, devices in zip(gpus, gres.devices or (), strict=False):
            if gres.plugin == GPU and devices:
                places += devices.places()
    each = zip(names, cpus, _cores(credential, len(names)), gpus, memory, numbers, strict=True)
    return [
        NodeShare(name, n_cpus, cores, tuple(sorted(places)), megabytes, number)
        for name, n_cpus, cores, places, megabytes, number in each
    ]


_SHARE = re.compile(r"^[ \t]*Nodes=(\S+) CPU_IDs=([\d,-]+) Mem=\d+ GRES=(.*)$", re.MULTILINE)
_GPUS = re.compile(r"gpu[^,(]*\(IDX:([\d,-]+)\)")


def shares_shown(shown: str, threads: Mapping[str, int]) -> Iterator[NodeShare]:
    """What a job has, of what `scontrol show job --details` prints of it; `threads` are those of cores by
    node."""
    for nodes, cpus, gres in _SHARE.findall(shown):
        places = _numbers(cpus)
        gpus = tuple(gpu for listed in _GPUS.findall(gres) for gpu in _numbers(listed))
        for node in node_names(nodes):
            cores = tuple(dict.fromkeys(place // threads.get(node, 1) for place in places))
            yield NodeShare(node, len(places), cores, gpus, None, {})


def _numbers(listed: str) -> list[int]:
    """The numbers in a list like 0-3,8."""
    return [int(number) for number in node_names(f"[{listed}]")]


def _memory(requested: int, n_cpus: int) -> int | None:
    """What a request of memory, per node or per CPU, amounts to on a node."""
    return (requested - PER_CPU) * n_cpus if requested >= PER_CPU else requested or None


def node_names(nodes: str | None) -> list[str]:
    """The names in a list in brackets, in its order. Raises ProtocolError."""
    try:
        return expand(patterns(nodes or ""))
    except ValueError as error:
        raise ProtocolError(f"a list of nodes cannot be read: {error}") from None


def _of_each(repeated: tuple[tuple[int, int], ...]) -> list[int]:
    if sum(times for _, times in repeated) > MAX_NODES:
        raise ProtocolError(f"a number is repeated for more than {MAX_NODES:,} nodes")
    return [number for number, times in repeated for _ in range(times)]


def _cores(credential: Any, n_nodes: int) -> list[tuple[int, ...]]:
    if credential.cores is None:
        return [()] * n_nodes
    found: list[tuple[int, ...]] = []
    first = 0
    for per_socket, sockets, n_alike in credential.cores_of_nodes:
        for _ in range(min(n_alike, n_nodes - len(found))):
            after = first + per_socket * sockets
            found.append(tuple(credential.cores.places(first, after)))
            first = after
    if len(found) < n_nodes or first > credential.cores.size:
        raise ProtocolError(f"a credential of {n_nodes:,} nodes has cores on {len(found):,}")
    return found


_OPTIONS = Path(__file__).with_name("options.txt").read_text().partition("\n\n")[2].splitlines()
_ROWS = {option: (field, words) for option, field, words in map(str.split, _OPTIONS)}
"""The fields of a job's description and the options of `sbatch`, by option."""
_OWN = {
    "script": "#!/bin/sh\n",
    "directory": "/",
    "output": "/dev/null",
    "environment": ("PATH=/bin", "SLURM_GET_USER_ENV=0"),
}
Submission = named("Submission", {**dict.fromkeys(_ROWS), **_OWN})
"""Options that are not given (None) have the controller's defaults; without `max_nodes`, `min_nodes` is the
number of nodes. Memory and disk space are in MB, time limits in minutes, points in time in seconds since
1970. Texts are as after `sbatch`'s options: `array` like `1-100%4`, `dependency` like `afterok:17`, `gres`
(per node) like `gpu:a100:2`, `gpus` (of the whole job) like `a100:4`, `licenses` like `matlab:2`."""
_NICE = 1 << 31
"""The nice value 0."""
_ANY_DISTRIBUTION = 0x2000
_KILL_ON_INVALID_DEPENDENCY, _KEEP_ON_INVALID_DEPENDENCY = 1 << 0, 1 << 1
_TASKS_ARE_GIVEN, _CPUS_ARE_GIVEN = 1 << 14, 1 << 15
_BY_DEFAULT = {"account": 1 << 25, "partition": 1 << 26, "qos": 1 << 27, "wckey": 1 << 28}
"""Flags that say that an option was not given."""
_OF_GPUS = (
    "tres_per_job",
    "tres_per_node",
    "tres_per_task",
    "tres_per_socket",
    "cpus_per_tres",
    "mem_per_tres",
)


def words(job: Any) -> Iterator[str]:
    """A submission as options of `sbatch`; without the script and its environment."""
    for option, (_, word) in _ROWS.items():
        value = getattr(job, option)
        if option == "min_nodes" and value is not None:
            yield f"--nodes={value}" if job.max_nodes is None else f"--nodes={value}-{job.max_nodes}"
        elif value is None or word == "-":
            continue
        elif "/" in word:
            if switch := word.split("/")[not value]:
                yield f"--{switch}"
        elif option in ("begin", "deadline"):
            yield f"--{option}={datetime.fromtimestamp(value, UTC):%Y-%m-%dT%H:%M:%S}"
        else:
            yield f"--{word}={value}"
    yield from job.others or ()


def described(job: Any) -> Any:
    """A submission as it is packed, a JobDescription. Raises ProtocolError for options that exclude each
    other."""
    given = {field: value for value, (field, _) in zip(job, _ROWS.values(), strict=True) if value is not None}
    tasks, memory = job.tasks, job.memory_per_node_mb
    if tasks is None and job.tasks_per_node is not None:
        tasks = job.tasks_per_node * (job.min_nodes or 1)
    if job.memory_per_cpu_mb is not None:
        if memory is not None:
            raise ProtocolError("a job requests memory per node and per CPU; give one of both")
        memory = job.memory_per_cpu_mb | PER_CPU
    kill = job.kill_on_invalid_dependency
    flags = [
        *(flag for option, flag in _BY_DEFAULT.items() if getattr(job, option) is None),
        _TASKS_ARE_GIVEN if tasks is not None else 0,
        _CPUS_ARE_GIVEN if job.cpus_per_task is not None else 0,
        0 if kill is None else _KILL_ON_INVALID_DEPENDENCY if kill else _KEEP_ON_INVALID_DEPENDENCY,
    ]
    found = {
        "requeue": None if job.requeue is None else int(job.requeue),
        "priority": 0 if job.hold else job.priority,
        "nice": None if job.nice is None else _NICE + job.nice,
        "shared": None if job.exclusive is None else int(not job.exclusive),
        "kill_on_node_fail": 0 if job.kill_on_node_failure is False else None,
        "max_nodes": job.min_nodes if job.max_nodes is None else job.max_nodes,
        "pn_min_cpus": job.cpus_per_task,
        "num_tasks": tasks,
        "pn_min_memory": memory,
        "min_cpus": (tasks or job.min_nodes or 1) * (job.cpus_per_task or 1),
        "contiguous": int(bool(job.contiguous)),
        "task_dist": _ANY_DISTRIBUTION,
        "bitflags": sum(flags),
        **{field: _gpus(given[field]) for field in _OF_GPUS if field in given},
    }
    if job.gres:
        others = [
            part if part.startswith("gres:") else f"gres:{part}" for part in job.gres.split(",") if part
        ]
        found["tres_per_node"] = ",".join((*filter(None, [found.get("tres_per_node")]), *others))
    given.pop("-", None)
    found = {name: value for name, value in found.items() if value is not None}
    return JobDescription(**{**given, **found})


def _gpus(number: str | int) -> str:
    """An item for each kind of GPUs."""
    return ",".join(f"gres:gpu:{part}" for part in str(number).split(","))
