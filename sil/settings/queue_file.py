"""The queue file: running and waiting jobs on time-shared nodes, written by users or scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from site_db.files import toml_file
from site_db.files.fields import Name
from site_db.files.toml_file import Count, NotNegative, Table
from site_db.site_file.tables import Names


class RunningTable(Table):
    """A running job, with one task on each of its nodes. `cpu_used_s` is the mean of its tasks, from
    accounting; without it, the job is assumed to have run alone."""

    job: Annotated[int, Field(ge=0, strict=True)]
    job_class: Name
    nodes: Annotated[Names, Field(min_length=1)]
    ran_for_s: NotNegative
    cpu_used_s: NotNegative | None = None

    @property
    def tasks(self) -> int:
        return len(self.nodes)


class WaitingTable(Table):
    """A waiting job; jobs are in the order of submission."""

    job: Annotated[int, Field(ge=0, strict=True)]
    job_class: Name
    tasks: Count


class LocalTable(Table):
    """Local users on some nodes: their current tasks, recent CPU usage, and memory."""

    nodes: Annotated[Names, Field(min_length=1)]
    tasks: NotNegative = 1.0
    cpu: float = Field(default=0.0, ge=0, le=1, strict=True)
    memory_mb: NotNegative = 0.0
    user_is_there: bool = Field(default=True, strict=True)


class QueueFile(Table):
    """The state of a cluster."""

    running: tuple[RunningTable, ...] = ()
    waiting: tuple[WaitingTable, ...] = ()
    local: tuple[LocalTable, ...] = ()

    @property
    def jobs(self) -> tuple[RunningTable | WaitingTable, ...]:
        """Running ones first."""
        return (*self.running, *self.waiting)

    def with_submitted(self, job_class: str, tasks: int) -> QueueFile:
        """The state with one more job, submitted now, with the next number."""
        number = max((table.job for table in self.jobs), default=-1) + 1
        new = WaitingTable(job=number, job_class=job_class, tasks=tasks)
        return self.model_copy(update={"waiting": (*self.waiting, new)})

    @model_validator(mode="after")
    def _jobs_are_different(self) -> QueueFile:
        numbers = [table.job for table in self.jobs]
        doubled = [number for number in numbers if numbers.count(number) > 1]
        if doubled:
            raise ValueError(f"job {doubled[0]} is listed twice")
        return self


def read_queue_file(path: Path) -> QueueFile:
    """The state in a TOML file. Raises InvalidFile with all its mistakes."""
    return toml_file.read(path, QueueFile)
