"""The records of nodes and partitions that `scontrol show node --json`, `scontrol show partition --json` and
`sinfo --json` print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from scheduler.messages import abbreviated
from site_db.files.access import OF_JSON, Memory
from site_db.files.input_errors import InvalidFile
from site_db.slurm.output import Object, objects_in, text_at

EXPECTED = "expected the output of scontrol or sinfo, with 'nodes', 'partitions' or 'sinfo'"
_UNSET = ("null", "(null)", "n/a")
_OF_NODE = {
    "boards": "boards",
    "sockets": "sockets",
    "corespersocket": "cores",
    "threadspercore": "threads",
    "cputot": "cpus",
    "realmemory": "real_memory",
    "corespeccount": "specialized_cores",
    "cpuspeclist": "specialized_cpus",
    "memspeclimit": "specialized_memory",
    "gres": "gres",
    "availablefeatures": "features",
    "partitions": "partitions",
}
_OF_NODES_IN_SINFO = {
    "sockets": "sockets/maximum",
    "corespersocket": "cores/maximum",
    "threadspercore": "threads/maximum",
    "cputot": "cpus/maximum",
    "realmemory": "memory/maximum",
    "cpuspeclist": "resource_spec/cpus",
    "memspeclimit": "resource_spec/memory",
    "gres": "gres/total",
    "availablefeatures": "features/total",
}
_OF_PARTITION = {
    "nodes": "nodes/configured nodes",
    "maxtime": "maximums/time max_time_limit",
    "defaulttime": "defaults/time default_time_limit",
    "maxnodes": "maximums/nodes maximum_nodes_per_job",
    "minnodes": "minimums/nodes",
    "state": "partition/state state",
    "exclusive": "partition/exclusive",
    "allowaccounts": "accounts/allowed allowed_accounts",
    "denyaccounts": "accounts/deny denied_accounts",
    "allowgroups": "groups/allowed allowed_groups",
    "allowqos": "qos/allowed allowed_qos",
    "denyqos": "qos/deny denied_qos",
    "qos": "qos/assigned qos",
    "allocnodes": "nodes/allowed_allocation allowed_allocation_nodes",
    "maxcpuspernode": "maximums/cpus_per_node maximum_cpus_per_node",
    "prioritytier": "priority/tier priority_tier",
    "priorityjobfactor": "priority/job_factor priority_job_factor",
}
"""The keys of Slurm's text, and where JSON has them: paths, of which the first that exists counts."""
_FORCED = 0x8000
_Records = dict[str, dict[str, str]]
"""Values by key and by name."""


def records_of(text: str, path: Path, notes: list[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """The records of nodes and partitions in one or several JSON documents: how to name each, and its values
    by Slurm's keys in small letters, as `scontrol` prints them. `notes` gets a sentence on what the documents
    do not say. Raises InvalidFile."""
    where, largest_group = str(path), 0
    Memory(path).take(OF_JSON * len(text))
    nodes: _Records = {}
    partitions: _Records = {}
    for key, _, entry in objects_in(text, path, ("nodes", "partitions", "sinfo"), EXPECTED):
        if key == "nodes":
            values = _values(entry, _OF_NODE)
            states = (text_at(entry, name, separator="+") for name in ("state", "state_flags"))
            values["state"] = "+".join(filter(None, states))
            _put(nodes, _name(entry, where), values, where)
        elif key == "partitions":
            partitions[_name(entry, where)] = _partition(entry)
        else:
            largest_group = max(largest_group, _add_of_sinfo(entry, nodes, partitions, where))
    if largest_group > 1:
        notes.append(
            f"{where}: sinfo states features and generic resources once for all nodes of a partition and a "
            f"state; if these are not alike, give it -N, or use scontrol show node --json"
        )
    for kind, records in (("node", nodes), ("partition", partitions)):
        for name, values in records.items():
            yield f"{where}: {kind} {name}", {f"{kind}name": name, **values}


def _values(entry: Object, paths: Mapping[str, str]) -> dict[str, str]:
    found = {key: text_at(entry, *some.split()) for key, some in paths.items()}
    return {key: "" if text.lower() in _UNSET else text for key, text in found.items()}


def _name(entry: Object, where: str) -> str:
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidFile(f"{where}: an object has no name; {EXPECTED}")
    return name


def _put(nodes: _Records, name: str, values: dict[str, str], where: str) -> None:
    """Add a node, which may be listed once for each of its partitions."""
    before = nodes.setdefault(name, values)
    if any(before[key] != value for key, value in values.items() if key != "partitions"):
        raise InvalidFile(f"{where}: node {name} is defined twice")
    both = dict.fromkeys(filter(None, (*before["partitions"].split(","), *values["partitions"].split(","))))
    before["partitions"] = ",".join(both)


def _partition(entry: Object) -> dict[str, str]:
    values = _values(entry, _OF_PARTITION)
    shares = text_at(entry, "maximums/shares", "max_share")
    if oversubscribe := text_at(entry, "partition/oversubscribe"):
        values["oversubscribe"] = oversubscribe
    elif shares.isdecimal():
        n, forced = int(shares) % _FORCED, int(shares) & _FORCED
        values["oversubscribe"] = (
            f"FORCE:{n}" if forced else "EXCLUSIVE" if n == 0 else "NO" if n == 1 else f"YES:{n}"
        )
    if "exclusive_user" in text_at(entry, "flags").lower():
        values["exclusiveuser"] = "YES"
    return values


def _add_of_sinfo(entry: Object, nodes: _Records, partitions: _Records, where: str) -> int:
    """Add an entry of `sinfo`: nodes of one partition, of which the least and the largest are stated. Returns
    how many."""
    partition = entry.get("partition")
    name = text_at(entry, "partition/name", "partition").rstrip("*")
    if name and isinstance(partition, dict):
        partitions.setdefault(name, _partition(partition))
    values = _values(entry, _OF_NODES_IN_SINFO)
    values |= {"state": text_at(entry, "node/state", "state", separator="+"), "partitions": name}
    names = [*filter(None, text_at(entry, "nodes/nodes").split(","))]
    for path in _OF_NODES_IN_SINFO.values():
        least = path.replace("maximum", "minimum")
        if text_at(entry, least) != text_at(entry, path):
            raise InvalidFile(
                f"{where}: the nodes {abbreviated(names)} have from {text_at(entry, least)} to "
                f"{text_at(entry, path)} {path.partition('/')[0]}, so that those of each are not known; "
                f"expected the output of scontrol show node --json"
            )
    for each in names:
        _put(nodes, each, dict(values), where)
    return len(names)
