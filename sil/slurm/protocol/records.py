"""The records in Slurm's messages (`records.txt`) as named tuples, and how they are packed in each version of
the protocol."""

from __future__ import annotations

import re
import socket
from collections import namedtuple
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from sil.slurm.protocol import wire
from sil.slurm.protocol.releases import RELEASES, V25_05, V25_11, ProtocolError
from sil.slurm.protocol.wire import Kind, Wire, each, flagged, listed, table, u16, u32


class NetworkAddress(NamedTuple):
    host: str
    port: int


def address(wire: Wire, value: NetworkAddress | None) -> NetworkAddress | None:
    """An address; None has no family. IPv4 addresses and all ports are packed with their bytes in the order
    of the processor, which here is little-endian."""
    given = value or NetworkAddress("0.0.0.0", 0)
    v6 = ":" in given.host
    family = u16(wire, 0 if value is None else socket.AF_INET6 if v6 else socket.AF_INET)
    if family not in (socket.AF_INET, socket.AF_INET6):
        return None
    size, order = (16, 1) if family == socket.AF_INET6 else (4, -1)
    if size == 16:
        u32(wire, size)
    host = wire.octets(size, socket.inet_pton(socket.AF_INET6 if v6 else socket.AF_INET, given.host)[::order])
    port = wire.octets(2, given.port.to_bytes(2, "little"))
    return NetworkAddress(socket.inet_ntop(family, host[::order]), int.from_bytes(port, "little"))


def job_only(wire: Wire, value: Any) -> Any:
    """A step of which only the job's number is packed."""
    return of_job(u32(wire, value and value.job))


def _job(wire: Wire, value: Any) -> Any:
    return (record("StepId") if wire.version >= V25_11 else job_only)(wire, value)


def _gres_allocation(wire: Wire, value: Any) -> Any:
    return listed(_gres("AllocatedGres"), u32 if wire.version >= V25_05 else u16)(wire, value)


def _no_accounting(wire: Wire, value: Any) -> Any:
    raise ProtocolError(
        "the accounting of processes cannot be read; use JobAcctGatherType=jobacct_gather/none"
    )


def record(name: str) -> Kind:
    """The fields of a record, one after another. Errors name the field."""

    def kind(wire: Wire, value: Any) -> Any:
        found: dict[str, Any] = {}
        for field, pack in fields_of(name, wire.version).items():
            try:
                found[field] = pack(wire, getattr(value, field, None))
            except ProtocolError as error:
                raise ProtocolError(f"{name}.{field}: {error}") from None
        return RECORDS[name](**found)

    return kind


def _gres(name: str) -> Kind:
    return wire.after_mark(0x438A34D4, record(name))


CONS_TRES = 109
"""A plug-in that selects nodes. None has further data in messages, so that any controller takes the number of
any."""
_NUMBERS = wire.numbers("Q")
KINDS: dict[str, tuple[Kind, Any]] = {
    "u8": (wire.u8, 0), "u16": (u16, 0), "u32": (u32, 0), "u64": (wire.u64, 0), "time": (wire.time, 0),
    "U8": (wire.u8, wire.NO_VALUE_8), "U16": (u16, wire.NO_VALUE_16), "U32": (u32, wire.NO_VALUE_32),
    "U64": (wire.u64, wire.NO_VALUE_64), "one": (u16, 1), "plugin": (u32, CONS_TRES),
    "node_count": (wire.node_count, 0), "text": (wire.text, None), "octets": (wire.octets, b""),
    "bits": (wire.bits, None), "u32s": (wire.numbers("I"), ()), "texts": (listed(wire.text), ()),
    "repeated16": (table(u32, "H", "I"), ()), "repeated64": (table(u32, "Q", "I"), ()),
    "cores_of_nodes": (table(u16, "H", "H", "I"), ()), "addresses": (listed(address), ()),
    "counts": (flagged(_NUMBERS), None), "devices": (each(wire.bits), None),
    "shares": (each(flagged(_NUMBERS), is_flagged=False), ()), "numbers": (each(wire.u64), None),
    "gres_of_node": (wire.within(wire.versioned(listed(_gres("NodeGres"), u16))), ()),
    "gres_of_job": (listed(_gres("JobGres"), u16), ()), "gres_of_step": (listed(_gres("StepGres"), u16), ()),
    "gres_allocation": (_gres_allocation, ()),
    "versioned_credential": (wire.versioned(record("JobCredential")), None),
    "flagged_credential": (flagged(record("JobCredential")), None),
    "flagged_accounting": (flagged(_no_accounting), None),
    "job_only": (job_only, None), "job": (_job, None), "steps": (listed(record("StepId")), ()),
    "components": (listed(record("JobDescription"), u16), ()),
    "files": (listed(record("ConfigurationFile")), ()), "energies": (listed(record("Energy"), u16), ()),
}  # fmt: skip
"""The kinds of fields, with what a field has by default, and in versions without it."""


class RecordField(NamedTuple):
    name: str
    kind: str
    default: Any
    since: int
    before: int


class Record:
    """What records have in common."""

    __slots__ = ()

    @property
    def job(self: Any) -> int:
        """The number of the job that it is about."""
        return int((self.credential if isinstance(self, BatchJobLaunch) else self).id.job)


def named(name: str, defaults: Mapping[str, Any]) -> Any:
    """A class of named tuples in which no value needs to be given."""
    return namedtuple(name, defaults, defaults=defaults.values())


FIELDS: dict[str, list[RecordField]] = {}
"""The fields of each record, in order."""
RECORDS: dict[str, Any] = {}
"""The class of each record."""


def _add(name: str, lines: list[str]) -> None:
    fields = FIELDS[name] = []
    for kind, *words in map(str.split, lines):
        of_job = kind in ("job", "job_only")
        default = RECORDS["StepId"]() if of_job else RECORDS[kind]() if kind in RECORDS else KINDS[kind][1]
        for word in words:
            field, sign, release = re.split(r"(<|>=|$)", word, maxsplit=1)
            version = next((number for number, name in RELEASES.items() if name == release), 0)
            limits = (0, version) if sign == "<" else (version, 1 << 16)
            fields.append(RecordField(field, kind, default, *limits))
    base = named(name, {field.name: field.default for field in fields})
    RECORDS[name] = type(name, (base, Record), {"__slots__": (), "__module__": __name__})


for _text in re.split(r"\n(?=\w)", Path(__file__).with_name("records.txt").read_text())[1:]:
    _add(_text.split(maxsplit=1)[0], _text.splitlines()[1:])


@cache
def fields_of(name: str, version: int) -> dict[str, Kind]:
    """How the fields are packed that a record has in this version, in their order."""
    return {
        field.name: KINDS[field.kind][0] if field.kind in KINDS else record(field.kind)
        for field in FIELDS[name]
        if field.since <= version < field.before
    }


StepId, JobDescription, HeterogeneousJob, NodeGres, NodeRegistration = (
    RECORDS[name] for name in ("StepId", "JobDescription", "HeterogeneousJob", "NodeGres", "NodeRegistration")
)
BatchJobLaunch, KillJob, SuspendJob, CompleteBatchScript, Submitted = (
    RECORDS[name] for name in ("BatchJobLaunch", "KillJob", "SuspendJob", "CompleteBatchScript", "Submitted")
)
ReturnCode, ReturnCodeWithText, Pinged, Energy, EnergyOfNode, Credential = (
    RECORDS[name]
    for name in ("ReturnCode", "ReturnCodeWithText", "Pinged", "Energy", "EnergyOfNode", "Credential")
)


def of_job(job: int, step: int = wire.NO_VALUE_32) -> Any:
    """The id of a job, of which no step is meant."""
    return StepId(job=job, step=step)


BATCH_STEP = 0xFFFFFFFB
SUSPEND, RESUME = 0, 1
"""Operations of SuspendJob."""


def script_completed(job: int, user: int, exit_status: int = 0) -> Any:
    """A job's script is over. The exit status is that of `wait`: the exit code times 256, or a signal."""
    return CompleteBatchScript(id=of_job(job, BATCH_STEP), exit_status=exit_status, user=user)


HAS_DEVICES, HAS_TYPE = 2, 4
"""Flags of what a node has: it has device files, which are allocated one by one; it has a type."""
_ENVIRONMENT = 0x9E0
"""Flags of what a node has: which environment variables name GPUs; all, as by default."""


def plugin_of(name: str) -> int:
    """The number of generic resources with this name: its bytes, added up in words of four."""
    return sum(byte << 8 * (place % 4) for place, byte in enumerate(name.encode())) & 0xFFFFFFFF


def node_gres(name: str, number: int, type: str | None = None, n_cpus: int = 0) -> Any:
    """A node with `n_cpus` has `number` of a resource, as `gpu:a100:4` in slurm.conf, each a device of its
    own."""
    flags = HAS_DEVICES | (HAS_TYPE if type else 0) | (_ENVIRONMENT if name == "gpu" else 0)
    return NodeGres(number, n_cpus, flags, plugin_of(name), name=name, type=type)
