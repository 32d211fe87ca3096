"""Any values of records, for Hypothesis, by the kinds of their fields."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from hypothesis import strategies as st

from sil.slurm.protocol.records import FIELDS, RECORDS, NetworkAddress, of_job
from sil.slurm.protocol.wire import Bitmap

MOST = 2
_NUMBERS = dict(zip(("u8", "u16", "u32", "u64", "time", "one", "plugin"), "BHIQqHI", strict=True))
_BITS = {"B": 8, "H": 16, "I": 32, "Q": 64}
_LISTS = {
    "gres_of_node": "NodeGres", "gres_of_job": "JobGres", "gres_of_step": "StepGres", "steps": "StepId",
    "gres_allocation": "AllocatedGres", "components": "JobDescription", "files": "ConfigurationFile",
    "energies": "Energy",
}  # fmt: skip
_ROWS = {"repeated16": "HI", "repeated64": "QI", "cores_of_nodes": "HHI", "u32s": "I"}


def numbers(code: str) -> st.SearchStrategy[int]:
    return st.integers(-(1 << 63), (1 << 63) - 1) if code == "q" else st.integers(0, (1 << _BITS[code]) - 1)


def some(each: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(each, max_size=MOST).map(tuple)


@st.composite
def bitmaps(draw: st.DrawFn) -> Bitmap | None:
    size = draw(st.integers(0, 70))
    return draw(st.none() | st.builds(Bitmap, st.just(size), st.integers(0, (1 << size) - 1)))


def written(address: IPv4Address | IPv6Address) -> str:
    """As the system's library writes it."""
    return socket.inet_ntop(socket.AF_INET6 if address.version == 6 else socket.AF_INET, address.packed)


TEXTS = st.none() | st.binary(max_size=5).map(
    lambda packed: packed.replace(b"\0", b"").decode("utf-8", "surrogateescape")
)
ADDRESSES = st.none() | st.builds(NetworkAddress, st.ip_addresses().map(written), numbers("H"))
COUNTS = st.none() | some(numbers("Q"))
_OTHERS: dict[str, st.SearchStrategy[Any]] = {
    "node_count": st.integers(0, MOST),
    "text": TEXTS,
    "texts": some(TEXTS),
    "octets": st.binary(max_size=5),
    "bits": bitmaps(),
    "addresses": some(ADDRESSES),
    "counts": COUNTS,
    "job": numbers("I").map(of_job),
    "job_only": numbers("I").map(of_job),
    "flagged_accounting": st.none(),
}
_OF_EACH_NODE = {"devices": bitmaps(), "shares": COUNTS, "numbers": numbers("Q")}


def values(kind: str, version: int, n_nodes: int) -> st.SearchStrategy[Any]:
    """Of a field of this kind, after a number of nodes."""
    if code := _NUMBERS.get(kind.lower()):
        return numbers(code)
    if kind in _ROWS:
        codes = [numbers(code) for code in _ROWS[kind]]
        return some(st.tuples(*codes) if len(codes) > 1 else codes[0])
    if kind in _LISTS:
        of_kind = some(records(_LISTS[kind], version))
        return of_kind | st.none() if kind in ("gres_of_node", "files") else of_kind
    if kind in _OF_EACH_NODE:
        each = st.tuples(*[_OF_EACH_NODE[kind]] * n_nodes)
        return each if kind == "shares" else st.none() | each
    if kind.endswith("_credential"):
        credential = records("JobCredential", version)
        return credential if kind.startswith("versioned") else st.none() | credential
    return records(kind, version) if kind in RECORDS else _OTHERS[kind]


@st.composite
def records(draw: st.DrawFn, name: str, version: int) -> Any:
    found: dict[str, Any] = {}
    for field in FIELDS[name]:
        if field.since <= version < field.before:
            found[field.name] = draw(values(field.kind, version, found.get("n_nodes", 0)))
    return RECORDS[name](**found)
