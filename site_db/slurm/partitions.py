"""What a line of Slurm says of a partition: its limits, and whether its jobs have whole nodes."""

from __future__ import annotations

from math import inf

from scheduler.node_request import Partition
from site_db.slurm.keys import NOT_MODELLED, IgnoredKeys
from site_db.slurm.lines import Line
from site_db.slurm.times import NO_LIMIT, limit_s

_SHARED = ("NO", "NONE", "OK")
_EXCLUSIVE = ("NODE", "USER", "TOPO")
"""Values of Exclusive, which has taken the place of OverSubscribe=EXCLUSIVE in Slurm 26.05."""


def partition_of(line: Line, ignored: IgnoredKeys) -> Partition:
    """Without its nodes. Raises InvalidFile."""
    name = line.values["partitionname"]
    what, state = f"PartitionName={name}", line.get("state").upper()
    if state not in ("", "UP"):
        ignored.ignore(line.where, f"State={state}", what, "partitions are always up")
    shared = line.get("oversubscribe", "shared").upper()
    if shared.startswith(("FORCE", "YES")):
        reason = "jobs do not share a CPU by turns"
        ignored.ignore(line.where, f"OverSubscribe={shared}", what, reason)
    max_time_s, default_time_s = _time_s(line, "maxtime"), _time_s(line, "defaulttime")
    if max_time_s is not None and default_time_s is not None and default_time_s > max_time_s:
        default_time_s = None
    max_nodes = None if line.get("maxnodes").lower() in NO_LIMIT else line.number("maxnodes", default=0)
    if max_nodes == 0:
        raise line.mistake("maxnodes is 0; expected 1 or more, or UNLIMITED")
    is_exclusive = _is_exclusive(line, shared, ignored)
    return Partition(name, max_time_s, max_nodes, is_exclusive, default_time_s)


def _is_exclusive(line: Line, shared: str, ignored: IgnoredKeys) -> bool:
    """Whether jobs have whole nodes."""
    exclusive = line.get("exclusive").upper()
    if exclusive and exclusive not in _SHARED + _EXCLUSIVE:
        raise line.mistake(f"Exclusive is '{exclusive}'; expected NO, NODE, USER or TOPO")
    reason = NOT_MODELLED.get(f"Exclusive{exclusive.title()}") if exclusive in _EXCLUSIVE else None
    if reason is not None:
        what = f"PartitionName={line.values['partitionname']}"
        ignored.ignore(line.where, f"Exclusive={exclusive}", what, reason)
    before = shared == "EXCLUSIVE" or line.get("exclusivetopo").upper() == "YES"
    return exclusive in ("NODE", "TOPO") or (before and exclusive not in _SHARED)


def _time_s(line: Line, key: str) -> float | None:
    """Seconds of a limit; None if there is none."""
    try:
        time_s = limit_s(line.get(key))
    except ValueError as error:
        raise line.mistake(f"{key} is {error}") from None
    return None if time_s == inf else time_s
