"""Damaged messages are refused with a sentence: no other exception, no hang, bounded memory."""

from __future__ import annotations

import struct
import tracemalloc
from contextlib import suppress

import pytest

from sil.slurm.protocol.authentication import MUNGE, NONE, Stated, check_kind
from sil.slurm.protocol.envelope import LONGEST, Unknown, decode, encode, length_of, reply
from sil.slurm.protocol.records import BatchJobLaunch, record
from sil.slurm.protocol.releases import V22_05, ProtocolError
from sil.slurm.protocol.submission import shares
from sil.slurm.protocol.wire import Reader, packed
from tests.fuzzing.mutations import mutated
from tests.sil.slurm.protocol.recorded_messages import ALL, ANYONE, recorded, recorded_bytes

SEEDS = [recorded_bytes(name) for name in ALL]
MESSAGES = [one for one in map(recorded, ALL) if not isinstance(one.body, Unknown)]
BODIES = [packed(record(type(one.body).__name__), one.body, one.version) for one in MESSAGES]


def read_record(name: str, data: bytes) -> None:
    record(name)(Reader(data, V22_05), None)


def read(data: bytes) -> None:
    """All that is done with a message that a node receives."""
    request = decode(data, ANYONE)
    reply(request)
    if isinstance(request.body, BatchJobLaunch):
        shares(request.body)


def with_damaged_body(number: int) -> bytes:
    """A message in which the header is as it should be, also the length of the body."""
    damaged = Unknown(mutated([BODIES[number % len(BODIES)]], number, may_be_compressed=False))
    return encode(MESSAGES[number % len(BODIES)]._replace(body=damaged), ANYONE)[4:]


def assert_read_or_refused(numbers: range) -> None:
    for number in numbers:
        for data in (mutated(SEEDS, number, may_be_compressed=False), with_damaged_body(number)):
            assert_read_or_refused_with_a_sentence(data, number)


def assert_read_or_refused_with_a_sentence(data: bytes, number: int) -> None:
    try:
        read(data)
    except ProtocolError:
        pass
    except BaseException as error:
        pytest.fail(f"input {number}: {type(error).__name__}: {str(error)[:200]}")


def test_a_mutated_message_is_read_or_refused() -> None:
    assert_read_or_refused(range(1_000))


@pytest.mark.long
def test_many_mutated_messages_are_read_or_refused() -> None:
    assert_read_or_refused(range(1_000, 100_000))


@pytest.mark.parametrize("name", ["REQUEST_BATCH_JOB_LAUNCH-gpus-per-node", "REQUEST_TERMINATE_JOB-many"])
def test_a_message_that_ends_too_early_is_refused_wherever_it_ends(name: str) -> None:
    data = recorded_bytes(name)
    for end in range(len(data)):
        with pytest.raises(ProtocolError):
            decode(data[:end], ANYONE)


def test_an_error_names_the_field() -> None:
    with pytest.raises(ProtocolError) as raised:
        read_record("ConfigurationFile", b"\x01\x00\x00\x00\x05name")
    assert str(raised.value) == "ConfigurationFile.name: a field of 5 bytes begins where 4 are left"
    for text in (b"\x04name", b"\x04na\0\0"):
        with pytest.raises(ProtocolError, match="name: a text does not end with its first zero byte"):
            read_record("ConfigurationFile", b"\x01\x00\x00\x00" + text)
    with pytest.raises(ProtocolError, match=r"SuspendJob\.specialized_cores: the message ends in it"):
        read_record("SuspendJob", b"\0\0")


def test_bytes_after_the_last_field_are_refused() -> None:
    data = bytearray(recorded_bytes("REQUEST_SUSPEND_INT"))
    (length,) = struct.unpack_from(">I", data, 6)
    struct.pack_into(">I", data, 6, length + 1)
    with pytest.raises(ProtocolError, match="REQUEST_SUSPEND_INT has 1 bytes after its last field"):
        decode(bytes(data) + b"\0", ANYONE)


@pytest.mark.parametrize("length", [0, LONGEST + 1, 0xFFFFFFFF])
def test_a_length_out_of_bounds_is_refused(length: int) -> None:
    with pytest.raises(ProtocolError, match="bytes; it has 1 to"):
        length_of(struct.pack(">I", length))


def test_a_count_takes_no_memory_before_its_items_are_there() -> None:
    data = recorded_bytes("REQUEST_BATCH_JOB_LAUNCH-plain")
    tracemalloc.start()
    for at in range(0, len(data) - 4, 3):
        with suppress(ProtocolError):
            read(data[:at] + b"\x0f\xff\xff\xff" + data[at + 4 :])
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_another_authentication_is_refused() -> None:
    with pytest.raises(ProtocolError, match="authenticated by auth/none instead of auth/munge"):
        check_kind(Reader(struct.pack(">I", NONE), V22_05), MUNGE)
    assert decode(recorded_bytes("REQUEST_PING"), Stated())
