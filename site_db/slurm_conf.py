"""Nodes and partitions of a Slurm cluster, from `slurm.conf` or from the output of `scontrol show node`.

<https://slurm.schedmd.com/slurm.conf.html>
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path

from scheduler.node_request import MOST_GPUS, Node, Partition
from site_db.files.given import MOST, InvalidFile
from site_db.files.memory import Memory
from site_db.files.slurm_lines import MOST_NUMBER, Line, lines_of
from site_db.jobs.logs.tres import BadTres, amount_of
from site_db.site_file.cluster import Cluster
from site_db.site_file.hostlist import expand, patterns
from site_db.slurm_keys import IgnoredKeys

_OF_A_LINE = ("nodename", "partitionname", "downnodes")
_OF_THE_SITE = ("selecttype", "selecttypeparameters", "licenses")
_DOWN = {"DOWN", "DRAIN", "DRAINED", "DRAINING", "ERROR", "FAIL", "FAILING"}
"""States of nodes that take no new jobs."""
_NO_LIMIT = ("", "unlimited", "infinite", "none")
BYTES_OF_A_NODE = 1_000
EXPECTED = "lines like 'NodeName=n[01-40] CPUs=64 RealMemory=256000' (slurm.conf, or scontrol show node)"


@dataclass
class _Found:
    memory: Memory
    nodes: dict[str, Node] = field(default_factory=dict)
    threads: dict[str, int] = field(default_factory=dict)
    partitions: dict[str, tuple[Partition, list[str] | None, Line]] = field(default_factory=dict)
    """With the nodes that each lists (None: all), and where."""
    future: set[str] = field(default_factory=set)
    """Nodes that are not there yet."""
    down: dict[str, Line] = field(default_factory=dict)
    """Nodes that take no jobs, and where that is said."""
    ignored: IgnoredKeys = field(default_factory=IgnoredKeys)
    has_memory: bool = True
    is_linear: bool = False
    """Whether jobs take whole nodes (SelectType=select/linear)."""
    licences: dict[str, int] = field(default_factory=dict)


def read_cluster(path: Path) -> Cluster:
    """The nodes and partitions of a `slurm.conf`, or of the output of `scontrol show node`.

    A node has CPUs (or Boards, Sockets, CoresPerSocket and ThreadsPerCore) less those of CoreSpecCount or
    CpuSpecList, RealMemory less MemSpecLimit, Gres with types, and Features. Nodes in a state like DOWN or
    DRAIN, also by DownNodes, are `down`. `NodeName=DEFAULT` and `PartitionName=DEFAULT` set defaults;
    `Include` is followed. Memory counts unless SelectTypeParameters lacks it. With SelectType=select/linear,
    or in a partition with OverSubscribe=EXCLUSIVE, jobs take whole nodes. A DefaultTime above MaxTime does
    not count, as in Slurm. Licenses are resources of the whole site. Nodes in state FUTURE are left out.
    `notes` says what else is ignored (`IgnoredKeys`).
    Raises InvalidFile with file and line.
    """
    found, notes = _Found(Memory(path)), list[str]()
    defaults: dict[str, Mapping[str, str]] = {key: {} for key in _OF_A_LINE}
    for key, line in _definitions(path, notes):
        if key == "selecttypeparameters":
            found.has_memory = "MEMORY" in line.values[key].upper()
            continue
        if key == "selecttype":
            found.is_linear = line.values[key].lower().endswith("linear")
            continue
        if key == "licenses":
            found.licences = _licences(line)
            continue
        if not line.is_output:
            found.ignored.note(key, line.values, line.where)
            line.check_words()
        name = line.values[key]
        if key == "downnodes":
            _note_down(found, line, name)
            continue
        if name.upper() == "DEFAULT":
            defaults[key] = {**defaults[key], **line.values}
            continue
        whole = Line({**defaults[key], **line.values}, line.where)
        (_add_nodes if key == "nodename" else _add_partition)(found, whole)
    if not found.nodes:
        raise InvalidFile(f"{path}: there is no node; expected {EXPECTED}")
    members = {name: _members(found, name) for name in found.partitions}
    nodes = {
        name: replace(
            node, partitions=node.partitions | {p for p, listed in members.items() if name in listed}
        )
        for name, node in found.nodes.items()
    }
    partitions = {name: partition for name, (partition, _, _) in found.partitions.items()}
    if found.is_linear:
        partitions = {name: replace(partition, is_exclusive=True) for name, partition in partitions.items()}
    for name, line in found.down.items():
        if name not in nodes and name not in found.future:
            raise line.mistake(f"DownNodes lists node {name}, which is not defined; add NodeName={name}")
    has_memory = found.has_memory and any(node.memory_mib > 1 for node in nodes.values())
    down = frozenset(found.down) & nodes.keys()
    notes += found.ignored.all()
    return Cluster(nodes, partitions, found.threads, has_memory, found.licences, down, (*notes,))


def _definitions(path: Path, notes: list[str]) -> Iterator[tuple[str, Line]]:
    """The definitions of nodes and partitions, with the key that each begins with."""
    for line in lines_of(path, notes):
        # A line of a partition may have SelectTypeParameters of its own.
        of_a_line = [key for key in _OF_A_LINE if key in line.values][:1]
        for key in of_a_line or [key for key in _OF_THE_SITE if key in line.values]:
            yield key, line


def _add_nodes(found: _Found, line: Line) -> None:
    names = _hosts(line, line.values["nodename"])
    found.memory.take(BYTES_OF_A_NODE * len(names))
    if line.get("state").upper().startswith("FUTURE"):
        found.future.update(names)
        return
    threads = max(1, line.number("threadspercore", default=1))
    boards = line.number("boards", default=1)
    sockets = line.number("sockets", default=0) or boards * line.number("socketsperboard", default=1)
    cores = sockets * line.number("corespersocket", default=1)
    cpus = line.number("cpus", "cputot", "procs", default=cores * threads)
    if not 1 <= cpus <= MOST_NUMBER:
        raise line.mistake(
            f"a node has {f'{cpus:,}' if cpus else 'no'} CPUs; expected CPUs=64, or Sockets, CoresPerSocket "
            f"and ThreadsPerCore"
        )
    # Where CPUs are cores, Slurm does not allocate threads.
    cpus_of_a_core = threads if cpus > cores else 1
    specialised = _specialised(line, cpus_of_a_core)
    if specialised >= cpus:
        raise line.mistake(f"a node has {cpus:,} CPUs, and the system has {specialised:,}; expected fewer")
    memory = line.number("realmemory", default=1) - line.number("memspeclimit", default=0)
    gpus, others = _gres(line)
    features = line.get("availablefeatures", "features", "feature")
    node = Node(
        cores=cpus - specialised,
        memory_mib=max(0, memory),
        gpus=gpus,
        others=others,
        features=frozenset(filter(None, re.split(r"[,&]", features.replace("(null)", "")))),
        partitions=frozenset(filter(None, line.get("partitions").split(","))),
    )
    for name in names:
        if name in found.nodes:
            raise line.mistake(f"node {name} is defined twice")
        found.nodes[name] = node
        found.threads[name] = cpus_of_a_core
    _note_down(found, line, line.values["nodename"])


def _note_down(found: _Found, line: Line, hosts: str) -> None:
    """Nodes whose state in `line`, in a form like DOWN, IDLE+DRAIN or DOWN*, keeps jobs from them."""
    states = re.split(r"[+,]", line.get("state").upper() or ("DOWN" if "downnodes" in line.values else ""))
    if not _DOWN.isdisjoint(state.rstrip("*~#!%$@^-") for state in states):
        found.down.update(dict.fromkeys(_hosts(line, hosts), line))


def _specialised(line: Line, cpus_of_a_core: int) -> int:
    """CPUs that jobs do not get, since the system has them."""
    if cores := line.number("corespeccount", default=0):
        return cores * cpus_of_a_core
    listed = line.get("cpuspeclist").replace("(null)", "")
    return len(_hosts(line, f"cpu[{listed}]")) if listed else 0


def _gres(line: Line) -> tuple[tuple[str, ...], dict[str, int]]:
    """GPUs by type, and the other generic resources by name."""
    gpus: list[str] = []
    others: dict[str, int] = {}
    text = re.sub(r"\([^)]*\)", "", line.get("gres"))
    for part in filter(None, text.split(",")):
        name, *rest = (word for word in part.split(":") if word != "no_consume")
        count = rest.pop() if rest and re.fullmatch(r"[0-9]+[KMGTkmgt]?", rest[-1]) else "1"
        try:
            amount = amount_of(count, part)
            if amount >= MOST:
                raise BadTres(part)
            if len(rest) > 1 or not all(re.fullmatch(r"\w[\w.-]*", word) for word in (name, *rest)):
                raise BadTres(part)
        except BadTres:
            raise line.mistake(f"Gres has '{part}'; expected name:type:count, like gpu:a100:4") from None
        if name == "gpu":
            if len(gpus) + amount > MOST_GPUS:
                raise line.mistake(f"a node has {len(gpus) + amount:,} GPUs; expected at most {MOST_GPUS}")
            gpus += [rest[0] if rest else "gpu"] * amount
        elif name not in ("shard", "mps"):  # shares of the same GPUs
            others[name] = others.get(name, 0) + amount
    return tuple(gpus), others


def _licences(line: Line) -> dict[str, int]:
    """By name; one licence where no number is given. The licence server is part of the name."""
    licences: dict[str, int] = {}
    for part in filter(None, line.get("licenses").split(",")):
        match = re.fullmatch(r"(\w[\w.-]*(?:@\w[\w.-]*)?)(?::([0-9]{1,15}))?", part)
        if match is None:
            raise line.mistake(f"Licenses has '{part}'; expected matlab:5, or matlab@server:5")
        if match[1] in licences:
            raise line.mistake(f"Licenses has {match[1]} twice; expected each name once")
        licences[match[1]] = int(match[2] or 1)
    return licences


def _add_partition(found: _Found, line: Line) -> None:
    name = line.values["partitionname"]
    if not name:
        raise line.mistake("PartitionName is empty; expected a name, like PartitionName=batch")
    if name in found.partitions:
        raise line.mistake(f"partition {name} is defined twice; expected one line PartitionName={name}")
    what, state = f"PartitionName={name}", line.get("state").upper()
    if state not in ("", "UP"):
        found.ignored.ignore(line.where, f"State={state}", what, "partitions are always up")
    shared = line.get("oversubscribe", "shared").upper()
    if shared.startswith(("FORCE", "YES")):
        reason = "jobs do not share a CPU by turns"
        found.ignored.ignore(line.where, f"OverSubscribe={shared}", what, reason)
    max_time_s, default_time_s = _time_s(line, "maxtime"), _time_s(line, "defaulttime")
    if max_time_s is not None and default_time_s is not None and default_time_s > max_time_s:
        default_time_s = None
    max_nodes = None if line.get("maxnodes").lower() in _NO_LIMIT else line.number("maxnodes", default=0)
    if max_nodes == 0:
        raise line.mistake("maxnodes is 0; expected 1 or more, or UNLIMITED")
    partition = Partition(name, max_time_s, max_nodes, shared == "EXCLUSIVE", default_time_s)
    listed = line.get("nodes")
    members = None if listed.upper() == "ALL" else _hosts(line, listed)
    found.memory.take(BYTES_OF_A_NODE / 10 * len(members or ()))
    if members == []:
        raise line.mistake(f"partition {name} has no nodes; expected Nodes=n[01-40], or ALL")
    found.partitions[name] = partition, members, line


def _members(found: _Found, partition: str) -> set[str]:
    """The nodes of a partition, which may be defined after it."""
    _, listed, line = found.partitions[partition]
    if listed is None:
        return {*found.nodes}
    for node in listed:
        if node not in found.nodes and node not in found.future:
            raise line.mistake(
                f"partition {partition} lists node {node}, which is not defined; add NodeName={node}"
            )
    return {*listed}


def _hosts(line: Line, text: str) -> list[str]:
    try:
        return expand(patterns(text))
    except ValueError as error:
        raise line.mistake(str(error)) from None


def _time_s(line: Line, key: str) -> float | None:
    """Seconds of a limit; None if there is none."""
    try:
        time_s = limit_s(line.get(key))
    except ValueError as error:
        raise line.mistake(f"{key} is {error}") from None
    return None if time_s == inf else time_s


def limit_s(text: str) -> float:
    """Seconds of a limit in minutes, or in one of Slurm's formats like 1-00:00:00 or 12:00:00; infinite if
    there is none. Raises ValueError with a clause."""
    if text.lower() in _NO_LIMIT:
        return inf
    for pattern, value in _TIMES.items():
        if len(text) <= _LONGEST and (match := re.fullmatch(pattern, text)) is not None:
            time_s = float(value(*map(int, match.groups())))
            if time_s > 0:
                return time_s
    raise ValueError(f"'{text}'; expected minutes, hours:minutes:seconds, days-hours, or UNLIMITED")


_LONGEST = 12
"""Characters of a time."""


_TIMES: dict[str, Callable[..., int]] = {
    r"(\d+)": lambda m: 60 * m,
    r"(\d+):(\d+)": lambda m, s: 60 * m + s,
    r"(\d+):(\d+):(\d+)": lambda h, m, s: 3600 * h + 60 * m + s,
    r"(\d+)-(\d+)": lambda d, h: 86_400 * d + 3600 * h,
    r"(\d+)-(\d+):(\d+)": lambda d, h, m: 86_400 * d + 3600 * h + 60 * m,
    r"(\d+)-(\d+):(\d+):(\d+)": lambda d, h, m, s: 86_400 * d + 3600 * h + 60 * m + s,
}
