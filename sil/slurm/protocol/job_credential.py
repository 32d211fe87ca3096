"""The credential of a job: what it may use on its nodes. The controller sends it with the order to launch."""

from __future__ import annotations

import socket
import struct
from typing import Annotated, NamedTuple

from sil.slurm.protocol.fields import (
    NO_VALUE_32,
    U16,
    U32,
    U64,
    Bits,
    Listed,
    Number,
    Octets,
    ProtocolError,
    Table,
    Text,
    Texts,
    Time,
    U32s,
)
from sil.slurm.protocol.gres import GPU, GresOfJob, GresOfStep
from sil.slurm.protocol.layouts import Became, Nested, Since
from sil.slurm.protocol.releases import V24_05, V24_11, V25_11, V26_05
from site_db.site_file.machine_names import expand, patterns


class Address(NamedTuple):
    host: str
    port: int


class _PackedAddress:
    """An address; none has no family. IPv4 addresses and all ports are packed with their bytes in the order
    of the processor, which here is little-endian."""

    def write(self, value: Address | None, version: int) -> bytes:
        if value is None:
            return b"\0\0"
        family = socket.AF_INET6 if ":" in value.host else socket.AF_INET
        packed = socket.inet_pton(family, value.host)
        host = packed[::-1] if family == socket.AF_INET else struct.pack(">I", len(packed)) + packed
        return struct.pack(">H", family) + host + struct.pack("<H", value.port)

    def read(self, data: bytes, at: int, version: int) -> tuple[Address | None, int]:
        (family,) = struct.unpack_from(">H", data, at)
        at += 2
        if family == socket.AF_INET:
            host, port = struct.unpack_from("<4sH", data, at)
            return Address(socket.inet_ntop(family, host[::-1]), port), at + 6
        if family == socket.AF_INET6:
            host, port = struct.unpack_from(">4x16s2s", data, at)
            (port,) = struct.unpack("<H", port)
            return Address(socket.inet_ntop(family, host), port), at + 22
        return None, at


PackedAddress = Annotated[Address | None, _PackedAddress()]


PER_CPU = 1 << 63
"""In a request of memory: for each CPU, not each node."""

Repeated = tuple[tuple[int, int], ...]
Repeated16 = Annotated[Repeated, Table("I", "H", "I")]
"""Numbers, each with how many nodes in a row have it."""
Repeated64 = Annotated[Repeated, Table("I", "Q", "I")]
CoresOfNodes = Annotated[tuple[tuple[int, int, int], ...], Table("H", "H", "H", "I")]
"""Cores per socket and sockets, each with how many nodes in a row have them."""

MOST_NODES = 1_000_000
"""Of a job; more are malformed."""


class StepId(NamedTuple):
    unique: Annotated[U64, Since(V24_11, 0)]
    job: U32
    step: U32
    component: U32


def of_job(job: int, step: int = NO_VALUE_32) -> StepId:
    """A job, of which no step is meant."""
    return StepId(0, job, step, NO_VALUE_32)


class _JobOnly:
    """A step of which only the job's number is packed."""

    def write(self, value: StepId, version: int) -> bytes:
        return _NUMBER.write(value.job, version)

    def read(self, data: bytes, at: int, version: int) -> tuple[StepId, int]:
        job, at = _NUMBER.read(data, at, version)
        return of_job(job), at


BATCH_STEP = 0xFFFFFFFB
JOB_ONLY, _NUMBER, STEP = _JobOnly(), Number("I"), Nested(StepId)
JobOrStep = Annotated[StepId, Became(V25_11, JOB_ONLY, STEP)]


class JobCredential(NamedTuple):
    """Also of a step of a job. Cores and generic resources are counted on the job's nodes, in the order of
    `nodes`; memory is in MB."""

    id: StepId
    user: U32
    group: U32
    user_name: Text
    user_details: Text
    home: Text
    shell: Text
    groups: U32s
    group_names: Texts
    gres: GresOfJob
    gres_of_step: GresOfStep
    specialized_cores: U16
    account: Text
    addresses: Annotated[tuple[Address | None, ...], Listed(PackedAddress.__metadata__[0]), Since(V24_05, ())]
    aliases: Text
    comment: Text
    constraints: Text
    ends: Annotated[Time, Since(V24_05, 0)]
    extra: Annotated[Text, Since(V24_05)]
    exclusive: Annotated[U16, Since(V26_05, 0)]
    shared: Annotated[U16, Since(V24_05, 0)]
    partition: Text
    qos: Annotated[Text, Since(V26_05)]
    reservation: Text
    restarts: U16
    begins: Annotated[Time, Since(V24_05, 0)]
    standard_error: Text
    standard_input: Text
    standard_output: Text
    nodes_of_step: Text
    x11: U16
    created: Time
    n_cores: U32
    cores: Bits
    cores_of_step: Bits
    cores_of_nodes: CoresOfNodes
    cpus_of_nodes: Repeated16
    n_nodes: U32
    n_tasks: U32
    nodes: Text
    licenses: Annotated[Text, Since(V24_05)]
    memory_of_nodes: Repeated64
    memory_of_step: Repeated64
    selinux_context: Text
    switch: Annotated[Octets, Since(V24_11, b"")]
    signature: Octets


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


def shares(credential: JobCredential, cpus: Repeated, requested_memory: int) -> list[NodeShare]:
    """What the job has on each of its nodes, in their order, with these CPUs and this request of memory.
    Raises ProtocolError if the credential contradicts itself."""
    names = node_names(credential.nodes)
    if len(names) != credential.n_nodes:
        raise ProtocolError(f"a credential of {credential.n_nodes:,} nodes names {len(names):,}")
    cpus_of = of_each(cpus)
    if len(cpus_of) != len(names):
        raise ProtocolError(f"a job on {len(names):,} nodes has CPUs on {len(cpus_of):,}")
    known = of_each(credential.memory_of_nodes)[: len(names)]
    memory = [*known, *(_memory(requested_memory, n_cpus) for n_cpus in cpus_of[len(known) :])]
    gpus: list[list[int]] = [[] for _ in names]
    numbers: list[dict[int, int]] = [{} for _ in names]
    for gres in credential.gres:
        for of_node, number in zip(numbers, gres.counts or (), strict=False):
            if number:
                of_node[gres.plugin] = of_node.get(gres.plugin, 0) + number
        for places, devices in zip(gpus, gres.devices or (), strict=False):
            if gres.plugin == GPU and devices:
                places += devices.places()
    return [
        NodeShare(name, n_cpus, cores, tuple(sorted(places)), megabytes, number)
        for name, n_cpus, cores, places, megabytes, number in zip(
            names, cpus_of, _cores(credential, len(names)), gpus, memory, numbers, strict=True
        )
    ]


def _memory(requested: int, n_cpus: int) -> int | None:
    """What a request of memory, per node or per CPU, amounts to on a node."""
    if requested >= PER_CPU:
        return (requested - PER_CPU) * n_cpus
    return requested or None


def node_names(nodes: str | None) -> list[str]:
    """The names in a list in brackets, in its order. Raises ProtocolError."""
    try:
        return expand(patterns(nodes or ""))
    except ValueError as error:
        raise ProtocolError(f"a list of nodes cannot be read: {error}") from None


def of_each(repeated: Repeated) -> list[int]:
    """Numbers that are repeated, one for each node. Raises ProtocolError if they are too many."""
    if sum(times for _, times in repeated) > MOST_NODES:
        raise ProtocolError(f"a number is repeated for more than {MOST_NODES:,} nodes")
    return [number for number, times in repeated for _ in range(times)]


def _cores(credential: JobCredential, n_nodes: int) -> list[tuple[int, ...]]:
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
