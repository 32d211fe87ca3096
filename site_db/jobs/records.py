"""Jobs as they are recorded, by the names that their site gives things, and where they were told of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

CLOCKS_AGREE_TO_S = 86_400.0
"""By more than this a time must be ahead of ours to lie in the future."""


class SourceKind(StrEnum):
    LIVE = "live"
    FILE = "file"
    SACCT = "sacct"
    SWF = "swf"
    TESTBED = "testbed"


@dataclass(frozen=True, slots=True)
class Source:
    """Where jobs and runs were told of. The same `key` stands for the same content."""

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


@dataclass(frozen=True, slots=True)
class PredictedTurnaround:
    """What a predictor said of a job at `made_unix_s`: that it would end at `end_unix_s`, probably from low
    to high. It was `waiting` then, or ran, and so many jobs were not done."""

    predictor: str
    made_unix_s: float
    end_unix_s: float
    low_unix_s: float | None
    high_unix_s: float | None
    waiting: bool
    jobs_there: int


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job and what became of it; a DONE one is a whole run on `resource` (by name: a machine, or `members`
    machines of a cluster, None = all), or where no machine is known on one of `machine_class`.

    Times are Unix seconds, in a testbed simulated seconds. `expected_s` is what was believed of its run time
    when it started, `time_limit_s` how long its user asked for.
    """

    number: str
    job_class: str
    user: str
    queue: str
    state: JobState
    submitted_unix_s: float
    resource: str | None = None
    members: int | None = None
    started_unix_s: float | None = None
    run_time_s: float | None = None
    size: float | None = None
    submitted_by: str | None = None
    expected_s: float | None = None
    preemptions: int = 0
    reason: str = ""
    time_limit_s: float | None = None
    machine_class: str | None = None
    predicted: tuple[PredictedTurnaround, ...] = ()

    @property
    def ended_unix_s(self) -> float | None:
        if self.started_unix_s is None or self.run_time_s is None:
            return None
        return self.started_unix_s + self.run_time_s
