"""Generic resources (GPUs and others) in messages: what a node has, and what of it a job has on each of its
nodes."""

from __future__ import annotations

import struct
from typing import Annotated, Any, NamedTuple

from sil.slurm.protocol.fields import (
    U16,
    U32,
    U64,
    Bitmap,
    Bits,
    Flagged,
    Listed,
    Number,
    Numbers,
    ProtocolError,
    Text,
    Within,
)
from sil.slurm.protocol.layouts import Became, Each, Nested, Since, Versioned
from sil.slurm.protocol.releases import V24_05, V25_05

_MARK = 0x438A34D4
"""Before each record."""
HAS_DEVICES, HAS_TYPE = 2, 4
"""Flags of what a node has: it has device files, which are allocated one by one; it has a type."""
_ENVIRONMENT = 0x9E0
"""Flags of what a node has: which environment variables name GPUs; all, as by default."""


class Marked:
    """A record after a mark."""

    def __init__(self, record: type) -> None:
        self.record = record
        self._nested = Nested(record)

    def write(self, value: Any, version: int) -> bytes:
        return struct.pack(">I", _MARK) + self._nested.write(value, version)

    def read(self, data: bytes, at: int, version: int) -> tuple[Any, int]:
        (mark,) = struct.unpack_from(">I", data, at)
        if mark != _MARK:
            raise ProtocolError(f"a record of generic resources begins with {mark:#x} instead of {_MARK:#x}")
        return self._nested.read(data, at + 4, version)


def plugin_of(name: str) -> int:
    """The number of generic resources with this name: its bytes, added up in words of four."""
    packed = name.encode()
    return sum(byte << 8 * (place % 4) for place, byte in enumerate(packed)) & 0xFFFFFFFF


GPU = plugin_of("gpu")


class NodeGres(NamedTuple):
    """Generic resources of one name and type that a node has."""

    number: U64
    n_cpus: U32
    flags: U32
    plugin: U32
    cpus: Text
    links: Text
    name: Text
    type: Text
    unique_id: Text


def node_gres(name: str, number: int, type: str | None = None, n_cpus: int = 0) -> NodeGres:
    """A node with `n_cpus` has `number` of a resource, as `gpu:a100:4` in slurm.conf, each a device of its
    own."""
    flags = HAS_DEVICES | (HAS_TYPE if type else 0) | (_ENVIRONMENT if name == "gpu" else 0)
    return NodeGres(number, n_cpus, flags, plugin_of(name), None, None, name, type, None)


GresOfNode = Annotated[tuple[NodeGres, ...] | None, Within(Versioned(Listed(Marked(NodeGres), "H")))]
EachBitmap = Annotated[tuple[Bitmap | None, ...] | None, Each(_BITS := Bits.__metadata__[0], "n_nodes")]
Counts = Annotated[tuple[int, ...] | None, Flagged(_NUMBERS := Numbers("Q"))]
Shares = Annotated[
    tuple[tuple[int, ...] | None, ...], Each(Flagged(_NUMBERS), "n_nodes", flagged=False), Since(V24_05, ())
]
"""How much of each device (a shard of a GPU) is allocated."""


class JobGres(NamedTuple):
    """What a job requested of generic resources of one name and type, and what it has on each of its
    nodes."""

    plugin: U32
    cpus_per_gres: U16
    flags: U16
    per_job: U64
    per_node: U64
    per_socket: U64
    per_task: U64
    memory_per_gres: U64
    n_tasks_per_gres: U16
    total: U64
    type: Text
    n_nodes: U32
    counts: Counts
    devices: EachBitmap
    shares: Shares
    devices_of_steps: EachBitmap
    counts_of_steps: Annotated[tuple[int, ...] | None, Each(Number("Q"), "n_nodes")]
    shares_of_steps: Shares


class StepGres(NamedTuple):
    """As `JobGres`, of a step of a job."""

    plugin: U32
    cpus_per_gres: U16
    flags: U16
    per_step: U64
    per_node: U64
    per_socket: U64
    per_task: U64
    memory_per_gres: U64
    total: U64
    type: Annotated[Text, Since(V24_05)]
    n_nodes: U32
    in_use: Bits
    counts: Counts
    devices: EachBitmap
    shares: Shares


class AllocatedGres(NamedTuple):
    """What a job has of generic resources of one name on each of its nodes."""

    plugin: U32
    n_nodes: U32
    counts: Counts
    devices: EachBitmap


GresOfJob = Annotated[tuple[JobGres, ...], Listed(Marked(JobGres), "H")]
GresOfStep = Annotated[tuple[StepGres, ...], Listed(Marked(StepGres), "H")]
GresAllocation = Annotated[
    tuple[AllocatedGres, ...] | None,
    Became(V25_05, Listed(_ALLOCATED := Marked(AllocatedGres), "H"), Listed(_ALLOCATED)),
]
