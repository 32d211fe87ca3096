"""Releases of Slurm, the versions of its protocol (which are spoken here, and to which controllers), and the
numbers in its messages."""

from __future__ import annotations

import re
from enum import IntEnum
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

REASONS = {
    1000: "the message is not expected",
    1005: "the protocol version is not supported",
    1007: "the sender is not authenticated",
    2000: "there is no such partition",
    2001: "no partition is given, and there is no default partition",
    2002: "access is denied",
    2003: "the user is not in a group that may use the partition",
    2004: "a requested node is not in the partition",
    2005: "more CPUs are requested than the partition has",
    2006: "the number of nodes is not possible in the partition",
    2007: "the job cannot be described",
    2008: "the size of the job is missing",
    2009: "the job has no script",
    2010: "the user is missing or may not do this",
    2011: "the job number is taken",
    2012: "a path is too long",
    2013: "the job is not the first in the queue",
    2014: "no nodes have what is requested",
    2015: "the partition does not have what is requested",
    2016: "the requested nodes are busy",
    2017: "there is no such job",
    2018: "there is no such node",
    2020: "the job or node is changing its state",
    2021: "the job is over",
    2023: "the distribution of tasks is not possible",
    2024: "the job is waiting",
    2025: "the number of tasks is not possible",
    2027: "the controller is on standby",
    2028: "the state of the node is not possible",
    2029: "there is no such feature",
    2035: "the free nodes are too scattered",
    2036: "this is not supported",
    2037: "this is disabled",
    2038: "the dependency is not possible",
    2039: "the partition takes batch jobs only",
    2042: "the job is held",
    2044: "the memory of a task is not possible",
    2045: "there is no such account, or the user is not in it",
    2048: "there are no such licences",
    2050: "a limit of the account or QOS is exceeded",
    2051: "the time limit is not possible",
    2052: "the user may not use the reservation",
    2053: "there is no such reservation",
    2054: "the time is not possible",
    2055: "nodes of the reservation are busy",
    2056: "the reservation cannot be used",
    2057: "there is no such wckey",
    2061: "the prolog is running",
    2066: "there is no such QOS",
    2068: "a node is down, drained or reserved",
    2069: "the number of CPUs is not possible",
    2070: "the partition is not available",
    2071: "the dependency is circular",
    2072: "the generic resources are not possible",
    2073: "the job is not waiting",
    2074: "the QOS is not high enough",
    2077: "the job is suspended",
    2078: "the job cannot start at once",
    2081: "the array is not possible",
    2083: "the job has started",
    2084: "the job has finished",
    2085: "the job is not running",
    2086: "the job is neither waiting nor running",
    2087: "the job is not suspended",
    2101: "the partition is down",
    2105: "submissions are disabled",
    2114: "the constraint of the script's node is not possible",
    2115: "there are no such trackable resources",
    2118: "the reservation is for maintenance",
    2119: "there are no such generic resources",
    2122: "the generic resources are not supported",
    2123: "the nice value is not possible",
    2124: "the least time limit is not possible",
    2125: "the scheduler is deferred",
    2127: "the job has no environment",
    2130: "the account may not use the partition",
    2133: "there are no such preferred features",
    2134: "the generic resources are not sufficient",
    4001: "a task was not killed",
    4002: "the job is already gone from the node",
    4005: "the user is not known on the node",
    4006: "the group is not known on the node",
    4008: "the job's credential was revoked",
    4022: "the prolog has failed",
    4023: "the epilog has failed",
    4027: "the job is not running on the node",
    8000: "the time limit is missing",
}


def reason(code: int) -> str:
    """What a return code means; its number if it has no words here."""
    return REASONS.get(code, f"Slurm's error {code}")


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
