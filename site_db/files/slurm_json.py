"""What `scontrol show node --json`, `scontrol show partition --json` and `sinfo --json` print.

The form differs by release (the plugins data_parser/v0.0.39 and later, openapi/v0.0.38 before): numbers are
plain, or objects with `set`, `infinite` and `number`; lists are lists, or texts with commas.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scheduler import shown
from site_db.files.given import InvalidFile
from site_db.files.memory import OF_JSON, Memory

_UNSET = ("", "null", "(null)", "n/a")
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
"""Keys of Slurm's text, and where JSON has them: paths, of which the first that exists counts."""
_FORCED = 0x8000
_Records = dict[str, dict[str, str]]
"""Values by key and by name."""


def records_of(text: str, path: Path, notes: list[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """The records of nodes and partitions in one or several JSON documents: how to name each, and its values
    by Slurm's keys in small letters, as `scontrol` prints them. `notes` gets a sentence on what the documents
    do not say. Raises InvalidFile."""
    where = str(path)
    Memory(path).take(OF_JSON * len(text))
    nodes: _Records = {}
    partitions: _Records = {}
    for document in _documents(text, where):
        for entry in _entries(document, "nodes", where):
            values = {key: _text(entry, path) for key, path in _OF_NODE.items()}
            states = (_text(entry, key, separator="+") for key in ("state", "state_flags"))
            values["state"] = "+".join(filter(None, states))
            _put(nodes, _name(entry, where), values, where)
        for entry in _entries(document, "partitions", where):
            partitions[_name(entry, where)] = _partition(entry)
        groups = [
            _add_of_sinfo(entry, nodes, partitions, where) for entry in _entries(document, "sinfo", where)
        ]
        if max(groups, default=0) > 1:
            notes.append(
                f"{where}: sinfo states features and generic resources once for all nodes of a partition "
                f"and a state; if these are not alike, give it -N, or use scontrol show node --json"
            )
    for name, values in nodes.items():
        yield f"{where}: node {name}", {"nodename": name, **values}
    for name, values in partitions.items():
        yield f"{where}: partition {name}", {"partitionname": name, **values}


def _documents(text: str, where: str) -> Iterator[Mapping[str, Any]]:
    decoder, at = json.JSONDecoder(), 0
    while (at := at + len(text[at : at + 64]) - len(text[at : at + 64].lstrip())) < len(text):
        try:
            document, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise InvalidFile(f"{where}, line {error.lineno}: this is not valid JSON: {error.msg}") from None
        except (RecursionError, ValueError):
            raise InvalidFile(
                f"{where}: the JSON is nested too deeply, or a number has too many digits"
            ) from None
        if not isinstance(document, dict):
            raise InvalidFile(f"{where}: expected a JSON object with 'nodes', 'partitions' or 'sinfo'")
        yield document


def _entries(document: Mapping[str, Any], key: str, where: str) -> list[Mapping[str, Any]]:
    found = document.get(key) or []
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise InvalidFile(
            f"{where}: '{key}' is not a list of objects; expected the output of scontrol or sinfo"
        )
    return found


def _name(entry: Mapping[str, Any], where: str) -> str:
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidFile(f"{where}: an object has no name; expected the output of scontrol or sinfo")
    return name


def _put(nodes: _Records, name: str, values: dict[str, str], where: str) -> None:
    """A node may be listed once for each of its partitions."""
    before = nodes.setdefault(name, values)
    if any(before[key] != value for key, value in values.items() if key != "partitions"):
        raise InvalidFile(f"{where}: node {name} is defined twice")
    both = dict.fromkeys(filter(None, (*before["partitions"].split(","), *values["partitions"].split(","))))
    before["partitions"] = ",".join(both)


def _partition(entry: Mapping[str, Any]) -> dict[str, str]:
    values = {key: _text(entry, *paths.split()) for key, paths in _OF_PARTITION.items()}
    shares = _text(entry, "maximums/shares", "max_share")
    if oversubscribe := _text(entry, "partition/oversubscribe"):
        values["oversubscribe"] = oversubscribe
    elif shares.isdecimal():
        n, forced = int(shares) % _FORCED, int(shares) & _FORCED
        values["oversubscribe"] = (
            f"FORCE:{n}" if forced else "EXCLUSIVE" if n == 0 else "NO" if n == 1 else f"YES:{n}"
        )
    if "exclusive_user" in _text(entry, "flags").lower():
        values["exclusiveuser"] = "YES"
    return values


def _add_of_sinfo(
    entry: Mapping[str, Any],
    nodes: _Records,
    partitions: _Records,
    where: str,
) -> int:
    """An entry of `sinfo`: nodes of one partition, of which the least and the largest are stated. Returns how
    many."""
    partition = entry.get("partition")
    name = (_text(entry, "partition/name") or _plain(partition)).rstrip("*")
    if name and isinstance(partition, dict):
        partitions.setdefault(name, _partition(partition))
    values = {key: _text(entry, path) for key, path in _OF_NODES_IN_SINFO.items()}
    values |= {"state": _text(entry, "node/state", "state", separator="+"), "partitions": name}
    names = [*filter(None, _text(entry, "nodes/nodes").split(","))]
    for path in _OF_NODES_IN_SINFO.values():
        least = path.replace("maximum", "minimum")
        if _text(entry, least) != _text(entry, path):
            raise InvalidFile(
                f"{where}: the nodes {shown(names)} have from {_text(entry, least)} to "
                f"{_text(entry, path)} {path.partition('/')[0]}, so that those of each are not known; "
                f"expected the output of scontrol show node --json"
            )
    for each in names:
        _put(nodes, each, dict(values), where)
    return len(names)


def _text(entry: Mapping[str, Any], *paths: str, separator: str = ",") -> str:
    """What is at the first of the paths that exists, as `scontrol` prints it; empty for what is not set."""
    for path in paths:
        found = _at(entry, path)
        if isinstance(found, list):
            return separator.join(filter(None, map(_plain, found)))
        if found is not None and (text := _plain(found)):
            return text
    return ""


def _at(entry: Mapping[str, Any], path: str) -> object:
    found: object = entry
    for key in path.split("/"):
        if not isinstance(found, dict):
            return None
        found = found.get(key)
    return found


def _plain(value: object) -> str:
    if isinstance(value, dict):
        if value.get("infinite") is True:
            return "UNLIMITED"
        value = value.get("number") if value.get("set", True) is True else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = "" if value is None or isinstance(value, dict | list) else str(value)
    return "" if text.lower() in _UNSET else "UNLIMITED" if text in ("Infinity", "inf") else text
