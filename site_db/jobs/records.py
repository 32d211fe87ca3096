"""Jobs as the database records them, and where they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field

from site_db.files.input_errors import MAX_VALUE, quoted


def _plain(text: object) -> object:
    """A number without the underscores and the digits of other scripts that Python allows."""
    if isinstance(text, str) and ("_" in text or not text.isascii()):
        raise ValueError(f"{quoted(text)} is not a number")
    return text


# Not strict: all values of a CSV file are text.
_Plain = BeforeValidator(_plain)
Number = Annotated[int, _Plain, Field(ge=0, lt=2**31)]
WholeNumber = Annotated[int, _Plain, Field(ge=1, lt=2**31)]
Time = Annotated[float, _Plain, Field(ge=0, lt=MAX_VALUE)]
Duration = Annotated[float, _Plain, Field(gt=0, lt=MAX_VALUE)]
Megabytes = Time


class SourceKind(StrEnum):
    LIVE = "live"
    FILE = "file"
    SACCT = "sacct"
    SWF = "swf"
    TESTBED = "testbed"


@dataclass(frozen=True, slots=True)
class Source:
    """Where jobs and runs come from. Equal keys mean equal content."""

    __pydantic_config__ = ConfigDict(alias_generator="source_{}".format)  # its columns in a CSV file
    kind: SourceKind
    key: str
    name: str = ""
    scheduler: str | None = None
    point: Number | None = None
    replication: Number | None = None


LIVE = Source(SourceKind.LIVE, "live", "recorded as it happened")


class JobState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"


class DemandBy(StrEnum):
    """The attribute by which the demand of jobs is added up."""

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


COLUMNS = {"submitted_s": "submitted_unix_s", "started_s": "started_unix_s"}
"""The names in CSV files of fields that have other ones there."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job and its outcome, with all things by name.

    A job that is DONE has a completed run on `resource` (a machine, or `members` machines of a cluster, None:
    all), or on an unknown machine of `machine_class`. Times are on the clock of the source: Unix seconds, or
    simulated seconds of a testbed. `expected_s` is the run-time estimate at the start, `time_limit_s` the
    user's request. Its data are `data_at` a cluster (empty: where it was submitted), if their size is known.
    """

    __pydantic_config__ = ConfigDict(alias_generator=lambda name: COLUMNS.get(name, name))
    number: str
    job_class: str
    user: str
    queue: str
    state: JobState
    submitted_s: Time
    resource: str | None = None
    members: WholeNumber | None = None
    started_s: Time | None = None
    run_time_s: Duration | None = None
    size: Duration | None = None
    submitted_by: str | None = None
    expected_s: Time | None = None
    preemptions: Number = 0
    reason: str = ""
    time_limit_s: Duration | None = None
    machine_class: str | None = None
    account: str = ""
    qos: str = ""
    input_mb: Megabytes | None = None
    output_mb: Megabytes | None = None
    data_at: str = ""
    predicted: tuple[PredictedTurnaround, ...] = ()

    @property
    def ended_s(self) -> float | None:
        if self.started_s is None or self.run_time_s is None:
            return None
        return self.started_s + self.run_time_s


Batch = tuple[Source, Sequence[JobRecord]]
"""Jobs that are recorded in one transaction, and their source."""
