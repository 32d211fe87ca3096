"""Which protocol versions are spoken, and how others are refused."""

from __future__ import annotations

import struct
from typing import Annotated

import pytest

from sil.slurm.protocol.authentication import Stated
from sil.slurm.protocol.envelope import decode, encode, message
from sil.slurm.protocol.job_description import JobDescription
from sil.slurm.protocol.message_types import MessageType
from sil.slurm.protocol.packing.layouts import Before, Since
from sil.slurm.protocol.packing.versions import V20_11, V21_08, V22_05, UnsupportedVersion, spoken_to
from tests.sil.slurm.protocol.recorded_messages import ANYONE, recorded_bytes


@pytest.mark.parametrize(
    ("release", "version"),
    [("21.08.8", V21_08), ("22.05", V22_05), ("22.05.8", V22_05), ("23.02.7", V22_05), ("23.11.4", V22_05)],
)
def test_a_controller_is_spoken_to_in_a_version_that_it_understands(release: str, version: int) -> None:
    assert spoken_to(release) == version


@pytest.mark.parametrize("release", ["20.11.9", "24.05.1", "24.11", "unknown"])
def test_a_controller_that_understands_none_is_refused_with_the_remedy(release: str) -> None:
    with pytest.raises(UnsupportedVersion) as raised:
        spoken_to(release)
    assert str(raised.value) == (
        f"Slurm {release} is not supported: the protocol versions spoken here (9472 (Slurm 21.08) and 9728 "
        f"(Slurm 22.05)) are understood by controllers of 21.08, 22.05, 23.02, 23.11; install one of these"
    )


@pytest.mark.parametrize(("number", "name"), [(39 << 8, "Slurm 23.02"), (35 << 8, "unknown")])
def test_a_message_of_another_version_is_refused_with_the_remedy(number: int, name: str) -> None:
    data = struct.pack(">H", number) + recorded_bytes("REQUEST_PING")[2:]
    with pytest.raises(UnsupportedVersion) as raised:
        decode(data, ANYONE)
    assert str(raised.value) == (
        f"a message has protocol version {number} ({name}); supported are 9472 (Slurm 21.08) and 9728 "
        f"(Slurm 22.05): use a controller of Slurm 21.08, 22.05, 23.02, 23.11"
    )


def test_a_field_is_in_the_versions_that_it_is_marked_with_whatever_was_read_before() -> None:
    """Types with equal marks are one object."""
    marked_alike = Annotated[int, Since(V22_05)], Annotated[int, Before(V22_05)]
    assert marked_alike[0] != marked_alike[1]
    assert [type(hint.__metadata__[0]) for hint in marked_alike] == [Since, Before]


def test_the_version_before_registration_carries_no_jobs() -> None:
    submission = message(JobDescription(), MessageType.REQUEST_SUBMIT_BATCH_JOB, V20_11)
    with pytest.raises(UnsupportedVersion, match="REQUEST_SUBMIT_BATCH_JOB has protocol version 9216"):
        encode(submission, Stated())
