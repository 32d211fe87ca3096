"""What lines of Slurm say of partitions and nodes, and settings by which a site does not serve its jobs first
come, first served."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from math import inf

from scheduler.messages import abbreviated, counted
from scheduler.node_request import MAX_GPUS, UNTYPED, Node, Partition
from site_db.files.input_errors import MAX_VALUE, shortened
from site_db.site_file.machine_names import expand, patterns
from site_db.slurm.keys import NOT_MODELLED, IgnoredKeys
from site_db.slurm.lines import MAX_NUMBER, Line
from site_db.slurm.output import NO, NO_LIMIT, YES, BadTres, amount_of, limit_s

_SHARED = ("NO", "NONE", "OK")
_EXCLUSIVE = ("NODE", "USER", "TOPO")
"""Values of Exclusive, which has taken the place of OverSubscribe=EXCLUSIVE in Slurm 26.05."""


def partition_of(line: Line, ignored: IgnoredKeys) -> Partition:
    """The partition of a line, without its nodes. Raises InvalidFile."""
    name = line.values["partitionname"]
    what, state = f"PartitionName={name}", line.get("state").upper()
    if state not in ("", "UP"):
        ignored.ignore(line.where, f"State={state}", what, "partitions are always up")
    shared = line.get("oversubscribe", "shared").upper()
    if shared.startswith(("FORCE", "YES")) and not shared.endswith(":1"):
        reason = "jobs do not share a CPU by turns"
        ignored.ignore(line.where, f"OverSubscribe={shared}", what, reason)
    max_time_s, default_time_s = _time_s(line, "maxtime"), _time_s(line, "defaulttime")
    if max_time_s is not None and default_time_s is not None and default_time_s > max_time_s:
        default_time_s = None
    max_nodes = None if line.get("maxnodes").lower() in NO_LIMIT else line.number("maxnodes", default=0)
    if max_nodes == 0:
        raise line.mistake("maxnodes is 0; expected 1 or more, or UNLIMITED")
    exclusive = line.get("exclusive").upper()
    if exclusive and exclusive not in _SHARED + _EXCLUSIVE:
        raise line.mistake(f"Exclusive is '{exclusive}'; expected NO, NODE, USER or TOPO")
    not_modelled = NOT_MODELLED.get(f"Exclusive{exclusive.title()}")
    if exclusive in _EXCLUSIVE and not_modelled is not None:
        ignored.ignore(line.where, f"Exclusive={exclusive}", what, not_modelled)
    before = shared == "EXCLUSIVE" or line.get("exclusivetopo").upper() == "YES"
    is_exclusive = exclusive in ("NODE", "TOPO") or (before and exclusive not in _SHARED)
    is_default = line.get("default").lower() in YES
    return Partition(name, max_time_s, max_nodes, is_exclusive, default_time_s, is_default)


def _time_s(line: Line, key: str) -> float | None:
    try:
        time_s = limit_s(line.get(key))
    except ValueError as error:
        raise line.mistake(f"{key} is {error}") from None
    return None if time_s == inf else time_s


_WITHOUT_EFFECT = {
    "prioritytype": ("priority/basic",),
    "accountingstorageenforce": ("none", "0"),
    "preempttype": ("preempt/none",),
    "preemptmode": ("off",),
    "schedulertype": ("sched/builtin",),
    "schedulerparameters": (),
    "enforcepartlimits": ("any", *NO),
    "jobsubmitplugins": (),
    "overtimelimit": ("0",),
    "preemptexempttime": ("-1", "0", "00:00:00"),
    "preemptparameters": (),
}
"""The settings, and their values with which jobs are served in the order in which they arrive."""


def order_of_service(settings: Mapping[str, Line], modelled: Collection[str]) -> Iterator[str]:
    """A sentence, if there are such settings, besides those whose keys are `modelled`; each with its line."""
    found: list[str] = []
    for name, line in settings.items():
        value = line.values[name]
        plain = ("0",) if name.startswith("priorityweight") else _WITHOUT_EFFECT.get(name)
        if plain is not None and name not in modelled and value.lower() not in ("", *plain):
            key = next(pair.key for pair in line.pairs if pair.name == name)
            found.append(shortened(f"{key}={value}", 80))
    if found:
        has = "not modelled" if modelled else "without effect on built-in schedulers unless --policy names it"
        yield (
            f"{counted(len(found), 'setting')} of slurm.conf for the order of jobs, for preemption or for "
            f"limits ({abbreviated(found)}): {has}; Slurm's own controller (the scheduler 'slurm') has them"
        )


_DOWN = {"DOWN", "DRAIN", "DRAINED", "DRAINING", "ERROR", "FAIL", "FAILING"}
_SILENT = {"NOT_RESPONDING", "NO_RESPOND", "INVAL", "INVALID", "INVALID_REG"}
"""States of nodes that take no jobs, and of those that take none until they answer."""
_FLAGS = "*~#!%$@^-+"
"""Signs after a state; `*` says that the node does not answer."""


def hosts(line: Line, text: str) -> list[str]:
    """The names that a list like n[1-3],m stands for. Raises InvalidFile."""
    try:
        return expand(patterns(re.sub(r"\s", ",", text)))
    except ValueError as error:
        raise line.mistake(str(error)) from None


def takes_no_jobs(state: str) -> bool:
    """Whether a node in a state like DOWN, IDLE+DRAIN, DOWN* or MIXED+NOT_RESPONDING takes no jobs."""
    states = re.split(r"[+,]", state.upper())
    return any(
        word.rstrip(_FLAGS) in _DOWN | _SILENT or "*" in word[len(word.rstrip(_FLAGS)) :] for word in states
    )


def hardware_of(line: Line, ignored: IgnoredKeys) -> tuple[Node, int]:
    """A node, and how many CPUs are on one of its cores. Raises InvalidFile."""
    cpus, threads = _cpus(line, ignored)
    listed = line.get("cpuspeclist")
    # CPUs that jobs do not get, since the system has them.
    specialised = line.number("corespeccount", default=0) * threads
    if not specialised and listed:
        specialised = len(hosts(line, f"cpu[{listed}]"))
    if specialised >= cpus:
        raise line.mistake(
            f"a node has {counted(cpus, 'CPU')}, and the system has {specialised:,}; expected fewer"
        )
    memory, of_system = line.number("realmemory", default=1), line.number("memspeclimit", default=0)
    gpus, others = _gres(line)
    features = line.get("availablefeatures", "features", "feature")
    node = Node(
        cores=cpus - specialised,
        # Slurm ignores a MemSpecLimit that leaves nothing.
        memory_mib=memory - of_system if of_system < memory else memory,
        gpus=gpus,
        others=others,
        features=frozenset(filter(None, re.split(r"[,&]", features))),
        partitions=frozenset(filter(None, line.get("partitions").split(","))),
    )
    return node, threads


def _cpus(line: Line, ignored: IgnoredKeys) -> tuple[int, int]:
    """The CPUs of a node as Slurm counts them, and how many of them are on one core."""
    threads, cores, boards = (
        max(1, line.number(key, default=1)) for key in ("threadspercore", "corespersocket", "boards")
    )
    given = line.number("cpus", "cputot", "procs", default=0)
    per_board, sockets = line.number("socketsperboard", default=0), line.number("sockets", default=0)
    fitting = 0 if given % (cores * threads) else given // (cores * threads)
    sockets = boards * per_board if per_board else sockets or fitting or boards
    in_all = sockets * cores * threads
    cpus = given if line.get("cpus", "cputot", "procs") else in_all
    if not 1 <= cpus <= MAX_NUMBER:
        raise line.mistake(
            f"a node has {f'{cpus:,}' if cpus else 'no'} CPUs; expected CPUs=64, or Sockets, CoresPerSocket "
            f"and ThreadsPerCore"
        )
    if not line.is_output and cpus not in (sockets, sockets * cores, in_all):
        what = f"NodeName={line.values['nodename']}"
        if in_all > MAX_NUMBER:
            raise line.mistake(f"a node has {in_all:,} threads; expected at most {MAX_NUMBER:,}")
        counts = f"{counted(sockets, 'socket')}, {counted(sockets * cores, 'core')}"
        reason = f"it has {counts} and {counted(in_all, 'thread')}; as in Slurm, its CPUs are all threads"
        ignored.ignore(line.where, f"CPUs={cpus}", what, reason)
        cpus = in_all
    # Where CPUs are cores, Slurm does not allocate threads.
    return cpus, threads if cpus > sockets * cores else 1


def gres_of(text: str) -> Iterator[tuple[str, str, list[str], str]]:
    """The parts of a list of generic resources, each with its name, types and count."""
    for part in filter(None, re.sub(r"\([^()]*+\)", "", text).split(",")):
        name, *types = [word for word in part.split(":") if word != "no_consume"] or [""]
        has_count = types and re.fullmatch(r"[0-9]+[KMGTkmgt]?", types[-1])
        yield part, name, types[:-1] if has_count else types, types[-1] if has_count else "1"


def _gres(line: Line) -> tuple[tuple[str, ...], dict[str, int]]:
    """GPUs by type, and the other generic resources by name."""
    gpus: list[str] = []
    others: dict[str, int] = {}
    for part, name, types, count in gres_of(line.get("gres")):
        try:
            amount = amount_of(count, part)
            if amount >= MAX_VALUE:
                raise BadTres(part)
            if len(types) > 1 or not all(re.fullmatch(r"\w[\w.-]*", word) for word in (name, *types)):
                raise BadTres(part)
        except BadTres:
            raise line.mistake(f"Gres has '{part}'; expected name:type:count, like gpu:a100:4") from None
        if name == "gpu":
            if len(gpus) + amount > MAX_GPUS:
                raise line.mistake(f"a node has {len(gpus) + amount:,} GPUs; expected at most {MAX_GPUS}")
            gpus += [types[0] if types else UNTYPED] * amount
        elif name not in ("shard", "mps"):  # shares of the same GPUs
            others[name] = others.get(name, 0) + amount
    return tuple(gpus), others


def licences_of(line: Line) -> dict[str, int]:
    """The licences by name; one licence where no number is given. The licence server is part of the name."""
    licences: dict[str, int] = {}
    for part in filter(None, re.split(r"[,;\s]", line.get("licenses"))):
        match = re.fullmatch(r"(\w[\w.-]*(?:@\w[\w.-]*)?)(?::([0-9]{1,15}))?", part)
        if match is None:
            raise line.mistake(f"Licenses has '{part}'; expected matlab:5, or matlab@server:5")
        if match[1] in licences:
            raise line.mistake(f"Licenses has {match[1]} twice; expected each name once")
        licences[match[1]] = int(match[2] or 1)
    return licences
