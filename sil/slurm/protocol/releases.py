"""Releases of Slurm, the versions of its protocol (which are spoken here, and to which controllers), and the
numbers in its messages."""

from __future__ import annotations

import re
import tomllib
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple


class ProtocolError(Exception):
    """A message that cannot be packed or read. The text is one sentence."""


_IN_ORDER = (
    *("20.11", "21.08", "22.05", "23.02", "23.11", "24.05", "24.11", "25.05", "25.11", "26.05"),
    *("26.11", "27.05", "27.11"),
)
RELEASES = {(36 + place) << 8: release for place, release in enumerate(_IN_ORDER)}
"""Protocol versions by their number in messages. The last three are to come."""

V20_11, V21_08, V22_05, V23_02, V23_11, V24_05, V24_11, V25_05, V25_11, V26_05 = list(RELEASES)[:10]
SPOKEN = (V22_05, V24_05, V24_11, V26_05)
"""The versions that are spoken to controllers: each third one is enough, but for 24.11, which takes jobs that
are described in the words of 24.05 to have OOMKillStep=0. All messages of these versions can be read and
written."""
BEFORE_REGISTRATION = (V20_11, V21_08, V23_02, V23_11, V25_05, V25_11)
"""What controllers speak to a node until it has registered, the oldest version that they know. Messages
without a body and REQUEST_ABORT_JOB can be read."""

FOR_CONTROLLERS = {
    release: max(spoken for spoken in SPOKEN if spoken <= version)
    for version, release in RELEASES.items()
    if version >= V22_05
}
"""The version that is spoken to a controller of a release: each understands its own, those of two releases
before it, and of three since 24.11."""


class UnsupportedVersion(ProtocolError):
    """A message, or a release of Slurm, of another protocol version."""


def spoken_to(series: str) -> int:
    """The protocol version for controllers of a release like "22.05". Raises UnsupportedVersion."""
    version = FOR_CONTROLLERS.get(series)
    if version is None:
        raise UnsupportedVersion(
            f"Slurm {series} is not supported: the protocol versions spoken here ({_names()}) are "
            f"understood by controllers of {_SUPPORTED}; install one of these"
        )
    return version


def check_version(version: int) -> None:
    """Raise UnsupportedVersion if a message of this protocol version cannot be read."""
    if version not in SPOKEN and version not in BEFORE_REGISTRATION:
        release = RELEASES.get(version)
        raise UnsupportedVersion(
            f"a message has protocol version {version} ({f'Slurm {release}' if release else 'unknown'}); "
            f"supported are {_names()}: use a controller of Slurm {_SUPPORTED}"
        )


def _names() -> str:
    return ", ".join(f"{version} (Slurm {RELEASES[version]})" for version in SPOKEN)


_SUPPORTED = f"{next(iter(FOR_CONTROLLERS))} to {next(reversed(FOR_CONTROLLERS))}"


TESTED = ("22.05.8", "24.11.5", "26.05.5")
"""The releases with which all tests pass."""


class Release(NamedTuple):
    """Compares by its numbers: `release >= (24, 11)`."""

    major: int
    minor: int
    name: str
    """The release as the daemons print it, like 24.11.5."""

    @classmethod
    def of(cls, text: str) -> Release | None:
        """The first release that a text names, such as the answer to `slurmctld -V`; None if it has none."""
        found = re.search(r"\b(\d+)\.(\d+)(?:\.\d+\S*)?", text)
        return None if found is None else cls(int(found[1]), int(found[2]), found[0])

    def is_since(self, series: str) -> bool:
        """Whether it is of this series, like 24.11, or a later one; "" is the oldest."""
        return not series or self >= tuple(map(int, series.split(".")))

    @property
    def series(self) -> str:
        """The release with all of its corrections, like 24.11."""
        return f"{self.major:02}.{self.minor:02}"

    @property
    def protocol(self) -> int:
        """The newest version of the protocol that both it and the testbed speak. Raises
        UnsupportedVersion."""
        return spoken_to(self.series)

    @property
    def not_tested(self) -> str | None:
        """A sentence if it is none of the TESTED. Raises UnsupportedVersion."""
        if self.name in TESTED:
            return None
        return (
            f"Slurm {self.name} was not tested with this testbed, only {', '.join(TESTED)}: it is driven "
            f"with the messages of {RELEASES[self.protocol]}"
        )


SUCCESS = 0
INVALID_ARGUMENT = 22
"""A node's answer to a message that it does not know."""
JOB_ALREADY_COMPLETE = 4002
"""A node's answer if a job that is to end is gone already: then there is no epilog to wait for."""
PARTITION_LACKS_IT = 2015
"""The code of a job that is accepted, and waits until its partition or its request is changed."""


def reason(code: int) -> str:
    """What a return code means; its number if it has no words here."""
    return _reasons().get(str(code), f"Slurm's error {code}")


@cache
def _reasons() -> dict[str, str]:
    return tomllib.loads(Path(__file__).with_name("reasons.toml").read_text())


class MessageType(IntEnum):
    body: str
    """The name of a record."""

    def __new__(cls, number: int, body: str = "Empty") -> MessageType:
        found = int.__new__(cls, number)
        found._value_, found.body = number, body
        return found

    REQUEST_NODE_REGISTRATION_STATUS = 1001
    MESSAGE_NODE_REGISTRATION_STATUS = 1002, "NodeRegistration"
    REQUEST_RECONFIGURE = 1003
    REQUEST_RECONFIGURE_WITH_CONFIG = 1004, "Configuration"
    REQUEST_SHUTDOWN = 1005, "Shutdown"
    REQUEST_PING = 1008
    REQUEST_HEALTH_CHECK = 1011
    RESPONSE_PING_SLURMD = 1016, "Pinged"
    REQUEST_ACCT_GATHER_UPDATE = 1017
    RESPONSE_ACCT_GATHER_UPDATE = 1018, "EnergyOfNode"
    REQUEST_SUBMIT_BATCH_JOB = 4003, "JobDescription"
    RESPONSE_SUBMIT_BATCH_JOB = 4004, "Submitted"
    REQUEST_BATCH_JOB_LAUNCH = 4005, "BatchJobLaunch"
    REQUEST_SUBMIT_BATCH_HET_JOB = 4028, "HeterogeneousJob"
    REQUEST_COMPLETE_BATCH_SCRIPT = 5018, "CompleteBatchScript"
    REQUEST_SUSPEND_INT = 5031, "SuspendJob"
    REQUEST_SIGNAL_TASKS = 6004, "SignalTasks"
    REQUEST_TERMINATE_TASKS = 6006, "SignalTasks"
    REQUEST_KILL_TIMELIMIT = 6009, "KillJob"
    REQUEST_TERMINATE_JOB = 6011, "KillJob"
    MESSAGE_EPILOG_COMPLETE = 6012, "EpilogComplete"
    REQUEST_ABORT_JOB = 6013, "KillJob"
    REQUEST_KILL_PREEMPTED = 6016, "KillJob"
    RESPONSE_SLURM_RC = 8001, "ReturnCode"
    RESPONSE_SLURM_RC_MSG = 8002, "ReturnCodeWithText"
    RESPONSE_FORWARD_FAILED = 9001


BODIES = {int(number): number.body for number in MessageType}


def name_of(number: int) -> str:
    """The protocol's name of a message, or its number."""
    return MessageType(number).name if number in BODIES else f"message {number}"


def type_of(body: Any) -> MessageType:
    """The number of the only message with such a body. Raises ValueError if there are several."""
    (found,) = (number for number in MessageType if number.body == type(body).__name__)
    return found
