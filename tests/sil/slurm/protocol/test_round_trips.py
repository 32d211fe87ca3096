"""Any message that can be packed is read as it was."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sil.slurm.protocol.authentication import Stated
from sil.slurm.protocol.envelope import (
    NO_CREDENTIAL,
    Forward,
    Returned,
    SlurmMessage,
    decode,
    encode,
    length_of,
)
from sil.slurm.protocol.records import (
    RECORDS,
    Credential,
    NetworkAddress,
    NodeRegistration,
    ReturnCode,
    of_job,
    record,
    script_completed,
)
from sil.slurm.protocol.releases import (
    BEFORE_REGISTRATION,
    BODIES,
    SPOKEN,
    V22_05,
    V24_05,
    V24_11,
    V25_11,
    MessageType,
    ProtocolError,
)
from sil.slurm.protocol.wire import Reader, packed
from tests.examples import up_to
from tests.sil.slurm.protocol.examples import ADDRESSES, numbers, records

SENDER = Stated(1000, 100, "testbed")


def again(message: SlurmMessage) -> SlurmMessage:
    packed = encode(message, SENDER)
    assert length_of(packed[:4]) == len(packed) - 4
    return decode(packed[4:], SENDER)


@pytest.mark.parametrize("version", SPOKEN)
@pytest.mark.parametrize("name", sorted(set(BODIES.values())))
def test_a_body_is_read_as_it_was_packed(name: str, version: int) -> None:
    @settings(max_examples=up_to(100, 10))
    @given(records(name, version))
    def holds(body: Any) -> None:
        data = packed(record(name), body, version)
        wire = Reader(data, version)
        assert (record(name)(wire, None), wire.at) == (body, len(data))

    holds()


@given(
    st.integers(0, 0x7F),
    st.none() | st.builds(Forward, st.integers(1, 9), st.just("n[2-4]"), *map(numbers, "IHH")),
    st.lists(records("ReturnCode", V22_05), max_size=3),
    ADDRESSES,
    st.sampled_from((*SPOKEN, *BEFORE_REGISTRATION)),
)
@settings(max_examples=up_to(100, 3))
def test_a_header_is_read_as_it_was_packed(
    flags: int, forward: Forward | None, codes: list[Any], origin: NetworkAddress | None, version: int
) -> None:
    number = MessageType.RESPONSE_SLURM_RC
    returned = tuple(Returned(f"n{place}", code, number, place) for place, code in enumerate(codes))
    if forward and version < V24_11:
        forward = forward._replace(tree_depth=0)
    sent = SlurmMessage(number, ReturnCode(7), version, flags, forward, returned, origin)
    sender = None if flags & NO_CREDENTIAL else Credential(1000, 100, "testbed")
    assert again(sent) == sent._replace(credential=sender)


def test_a_field_that_has_moved_is_read_where_it_is() -> None:
    body = script_completed(7, user=9, exit_status=8)
    before, since = (packed(record("CompleteBatchScript"), body, version) for version in (V24_05, V25_11))
    assert (before[1:5], since[9:33]) == (
        struct.pack(">I", 7),
        struct.pack(">QIII", 0, 7, 2**32 - 5, 2**32 - 2) + struct.pack(">I", 9),
    )


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (NodeRegistration(memory=-1), "NodeRegistration.memory: -1 does not fit into 64 bits"),
        (NodeRegistration(cpus=70000), "NodeRegistration.cpus: 70000 does not fit into 16 bits"),
        (NodeRegistration(node="a\0b"), r"NodeRegistration.node: the text 'a\x00b' has a zero byte"),
        (
            NodeRegistration(node="\ud800"),
            r"NodeRegistration.node: the text '\ud800' has halves of characters",
        ),
        (
            RECORDS["EpilogComplete"](of_job(1 << 32), 0, "n1"),
            "EpilogComplete.id: 4294967296 does not fit into 32 bits",
        ),
    ],
)
def test_what_cannot_be_packed_is_named(body: Any, sentence: str) -> None:
    with pytest.raises(ProtocolError) as raised:
        packed(record(type(body).__name__), body, V22_05)
    assert str(raised.value) == sentence


def test_a_body_must_be_that_of_its_message() -> None:
    with pytest.raises(ProtocolError, match="REQUEST_PING cannot have a body of ReturnCode"):
        encode(SlurmMessage(MessageType.REQUEST_PING, ReturnCode(0)), SENDER)
    with pytest.raises(ProtocolError, match="message 2009 cannot have a body of ReturnCode"):
        encode(SlurmMessage(2009, ReturnCode(0)), SENDER)


def test_devices_must_be_of_as_many_nodes_as_are_counted() -> None:
    of_two_nodes = RECORDS["JobGres"](*[0] * 10, None, 2, None, (None,), (), None, None, ())
    with pytest.raises(ProtocolError, match="1 of 2 nodes"):
        packed(record("JobGres"), of_two_nodes, V22_05)
