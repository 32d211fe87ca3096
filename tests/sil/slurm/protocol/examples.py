"""Any values of records, for Hypothesis, made from their layouts."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from hypothesis import strategies as st

from sil.slurm.protocol.fields import (
    Bitmap,
    Bits,
    Flagged,
    Listed,
    Number,
    Numbers,
    Octets,
    Table,
    Text,
    Within,
)
from sil.slurm.protocol.job_credential import JOB_ONLY, Address, PackedAddress, of_job
from sil.slurm.protocol.layouts import Before, Each, Since, Versioned, packed_as
from sil.slurm.protocol.node_messages import NeverGiven

BITS = {"B": 8, "H": 16, "I": 32, "Q": 64}
TEXTS = st.none() | st.binary(max_size=5).map(
    lambda packed: packed.replace(b"\0", b"").decode("utf-8", "surrogateescape")
)
MOST = 2


def numbers(code: str) -> st.SearchStrategy[int]:
    return st.integers(-(1 << 63), (1 << 63) - 1) if code == "q" else st.integers(0, (1 << BITS[code]) - 1)


@st.composite
def bitmaps(draw: st.DrawFn) -> Bitmap | None:
    size = draw(st.integers(0, 70))
    return draw(st.none() | st.builds(Bitmap, st.just(size), st.integers(0, (1 << size) - 1)))


def written(address: IPv4Address | IPv6Address) -> str:
    """As the system's library writes it."""
    return socket.inet_ntop(socket.AF_INET6 if address.version == 6 else socket.AF_INET, address.packed)


ADDRESSES = st.none() | st.builds(Address, st.ip_addresses().map(written), numbers("H"))
_HINTS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (Text, TEXTS),
    (Bits, bitmaps()),
    (Octets, st.binary(max_size=5)),
    (PackedAddress, ADDRESSES),
]
SINGLE = {id(hint.__metadata__[0]): found for hint, found in _HINTS}
SINGLE[id(JOB_ONLY)] = numbers("I").map(of_job)


def values(kind: Any, version: int) -> st.SearchStrategy[Any]:
    """Of a field that is packed so."""
    if id(kind) in SINGLE:
        return SINGLE[id(kind)]
    match kind:
        case Since() | Before():
            return st.just(kind.otherwise)
        case Number():
            return numbers(kind.code)
        case Numbers():
            return st.lists(numbers(kind.code), max_size=MOST).map(tuple)
        case Listed():
            return st.lists(values(kind.each, version), max_size=MOST).map(tuple)
        case Flagged() | Within():
            return st.none() | values(kind.content, version)
        case Versioned():
            return values(kind.content, version)
        case Table():
            rows = st.tuples(*(numbers(column.code) for column in kind.columns))
            return st.lists(rows, max_size=MOST).map(tuple)
        case NeverGiven():
            return st.nothing()
    return records(kind.record, version)


@st.composite
def records(draw: st.DrawFn, record: Any, version: int) -> Any:
    found: dict[str, Any] = {}
    for name, kind in packed_as(record, version).items():
        if isinstance(kind, Each):
            each = st.tuples(*[values(kind.content, version)] * found[kind.counted_by])
            found[name] = draw(st.none() | each if kind.flagged else each)
        elif name == "n_nodes":
            found[name] = draw(st.integers(0, MOST))
        else:
            found[name] = draw(values(kind, version))
    return record(**found)
