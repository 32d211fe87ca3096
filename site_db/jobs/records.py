"""Values to be recorded: jobs, their sources, and predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

CLOCKS_AGREE_TO_S = 86_400.0
"""Tolerated difference of clocks: only a later time is in the future."""


class SourceKind(StrEnum):
    LIVE = "live"
    FILE = "file"
    SACCT = "sacct"
    SWF = "swf"
    TESTBED = "testbed"


@dataclass(frozen=True, slots=True)
class Source:
    """Where jobs and runs come from. Equal keys mean equal content."""

    kind: SourceKind
    key: str
    name: str = ""
    scheduler: str | None = None
    point: int | None = None
    replication: int | None = None


LIVE = Source(SourceKind.LIVE, "live", "recorded as it happened")


class JobState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"


class DemandBy(StrEnum):
    """By what the demand of jobs is added up."""

    PARTITION = "partition"
    ACCOUNT = "account"
    QOS = "qos"
    USER = "user"
    OUTCOME = "outcome"  # completed, or why not


@dataclass(frozen=True, slots=True)
class PredictedTurnaround:
    """A prediction, made at `made_s`, that a job ends at `end_s`, with an interval from low to high.

    The job was `waiting` then, or running; `jobs_there` jobs had not ended. Times as in JobRecord.
    """

    predictor: str
    made_s: float
    end_s: float
    low_s: float | None
    high_s: float | None
    waiting: bool
    jobs_there: int


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job and its outcome, with all things by name.

    A job that is DONE has a completed run on `resource` (a machine, or `members` machines of a cluster, None:
    all), or on an unknown machine of `machine_class`. Times are on the clock of the source: Unix seconds, or
    simulated seconds of a testbed. `expected_s` is the run-time estimate at the start, `time_limit_s` the
    user's request.
    """

    number: str
    job_class: str
    user: str
    queue: str
    state: JobState
    submitted_s: float
    resource: str | None = None
    members: int | None = None
    started_s: float | None = None
    run_time_s: float | None = None
    size: float | None = None
    submitted_by: str | None = None
    expected_s: float | None = None
    preemptions: int = 0
    reason: str = ""
    time_limit_s: float | None = None
    machine_class: str | None = None
    account: str = ""
    qos: str = ""
    predicted: tuple[PredictedTurnaround, ...] = ()

    @property
    def ended_s(self) -> float | None:
        if self.started_s is None or self.run_time_s is None:
            return None
        return self.started_s + self.run_time_s


Batch = tuple[Source, Sequence[JobRecord]]
"""Jobs that are recorded in one transaction, and their source."""
