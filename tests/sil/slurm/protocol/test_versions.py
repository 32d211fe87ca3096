"""Which protocol versions are spoken, and how others are refused."""

from __future__ import annotations

import struct

import pytest

from sil.slurm.protocol.authentication import Stated
from sil.slurm.protocol.envelope import decode, encode, length_of, message
from sil.slurm.protocol.records import JobDescription
from sil.slurm.protocol.releases import (
    V20_11,
    V22_05,
    V24_05,
    V24_11,
    V26_05,
    MessageType,
    Release,
    UnsupportedVersion,
)
from tests.sil.slurm.protocol.recorded_messages import ANYONE, recorded_bytes


def release(name: str) -> Release:
    found = Release.of(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "version"),
    [
        *(("22.05", V22_05), ("22.05.8", V22_05), ("23.02.7", V22_05), ("23.11.4", V22_05)),
        *(("24.05.1", V24_05), ("24.11.5", V24_11), ("25.05.0rc1", V24_11), ("25.11.7", V24_11)),
        *(("26.05.5", V26_05), ("26.11.0", V26_05), ("27.11.9", V26_05)),
    ],
)
def test_a_controller_is_spoken_to_in_the_newest_version_that_it_understands(name: str, version: int) -> None:
    assert release(name).protocol == version


@pytest.mark.parametrize("name", ["20.11.9", "21.08.8", "28.05"])
def test_a_controller_that_understands_none_is_refused_with_the_remedy(name: str) -> None:
    with pytest.raises(UnsupportedVersion) as raised:
        _ = release(name).protocol
    assert str(raised.value) == (
        f"Slurm {name[:5]} is not supported: the protocol versions spoken here (9728 (Slurm 22.05), 10496 "
        f"(Slurm 24.05), 10752 (Slurm 24.11), 11520 (Slurm 26.05)) are understood by controllers of 22.05 to "
        f"27.11; install one of these"
    )


def test_a_release_that_was_not_tested_is_named_in_one_sentence() -> None:
    assert release("slurm-wlm 24.11.5").not_tested is None
    assert release("slurm 25.11.7").not_tested == (
        "Slurm 25.11.7 was not tested with this testbed, only 22.05.8, 24.11.5, 26.05.5: it is driven with "
        "the messages of 24.11"
    )
    assert Release.of("command not found") is None
    assert (23, 11) < release("24.05.8") < (24, 11)


@pytest.mark.parametrize(("number", "name"), [(46 << 8, "Slurm 26.11"), (35 << 8, "unknown")])
def test_a_message_of_another_version_is_refused_with_the_remedy(number: int, name: str) -> None:
    data = struct.pack(">H", number) + recorded_bytes("REQUEST_PING")[2:]
    with pytest.raises(UnsupportedVersion) as raised:
        decode(data, ANYONE)
    assert str(raised.value) == (
        f"a message has protocol version {number} ({name}); supported are 9728 (Slurm 22.05), 10496 (Slurm "
        f"24.05), 10752 (Slurm 24.11), 11520 (Slurm 26.05): use a controller of Slurm 22.05 to 27.11"
    )


def test_an_answer_in_http_is_that_to_another_version() -> None:
    with pytest.raises(UnsupportedVersion, match="does not speak the version"):
        length_of(b"HTTP")


def test_the_version_before_registration_carries_no_jobs() -> None:
    submission = message(JobDescription(), MessageType.REQUEST_SUBMIT_BATCH_JOB, V20_11)
    with pytest.raises(UnsupportedVersion, match="REQUEST_SUBMIT_BATCH_JOB has protocol version 9216"):
        encode(submission, Stated())
