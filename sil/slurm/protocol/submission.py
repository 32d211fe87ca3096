"""What a user requests for a job, as `sbatch` takes it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from sil.slurm.protocol.records import JobDescription, named
from sil.slurm.protocol.releases import ProtocolError
from sil.slurm.protocol.shares import PER_CPU

_OPTIONS = """
user                user_id         uid
group               group_id        gid
name                name            job-name
account             account         account
partition           partition       partition
qos                 qos             qos
reservation         reservation     reservation
min_nodes           min_nodes       -
max_nodes           max_nodes       -
tasks               -               ntasks
tasks_per_node      ntasks_per_node ntasks-per-node
cpus_per_task       cpus_per_task   cpus-per-task
memory_per_node_mb  -               mem
memory_per_cpu_mb   -               mem-per-cpu
disk_per_node_mb    pn_min_tmp_disk tmp
gres                -               gres
gpus                tres_per_job    gpus
gpus_per_node       tres_per_node   gpus-per-node
gpus_per_task       tres_per_task   gpus-per-task
gpus_per_socket     tres_per_socket gpus-per-socket
cpus_per_gpu        cpus_per_tres   cpus-per-gpu
memory_per_gpu_mb   mem_per_tres    mem-per-gpu
licenses            licenses        licenses
constraint          features        constraint
nodes               req_nodes       nodelist
excluded_nodes      exc_nodes       exclude
exclusive           -               exclusive/oversubscribe
contiguous          -               contiguous/
time_limit_min      time_limit      time
least_time_min      time_min        time-min
begin               begin_time      begin
deadline            deadline        deadline
dependency          dependency      dependency
kill_on_invalid_dependency -        kill-on-invalid-dep=yes/kill-on-invalid-dep=no
array               array_inx       array
priority            priority        priority
nice                -               nice
hold                -               hold/
requeue             requeue         requeue/no-requeue
kill_on_node_failure -              /no-kill
comment             comment         comment
wckey               wckey           wckey
script              script          -
directory           work_dir        chdir
output              std_out         output
environment         environment     -
others              -               -
"""
"""Options; the fields of a job's description in which they are packed as they are, or as generic resources;
and what `sbatch` calls them: if they are true or false, either word. `others` are further options, like
`--switches=1`, which only `sbatch` can submit."""
_ROWS = {option: (field, words) for option, field, words in map(str.split, _OPTIONS.strip().splitlines())}
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
