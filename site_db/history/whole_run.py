"""One whole run, by the ids of everything, and the statistics that it counts for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Key(NamedTuple):
    """What one row of statistics is about, by ids: one of the three places is filled."""

    job_class_id: int
    machine_class_id: int | None = None
    machine_id: int | None = None
    cluster_id: int | None = None
    members: int | None = None


@dataclass(frozen=True, slots=True)
class WholeRun:
    """One whole run: on a machine (of a class), on some machine of a class, or on a cluster."""

    job_class_id: int
    machine_class_id: int | None
    machine_id: int | None
    cluster_id: int | None
    members: int | None
    started_unix_s: float
    run_time_s: float
    user_id: int
    queue: str
    size: float | None = None

    def counts_for(self) -> tuple[Key, ...]:
        """The statistics that it counts for."""
        if self.cluster_id is not None:
            return (Key(self.job_class_id, None, None, self.cluster_id, self.members),)
        of_class = Key(self.job_class_id, self.machine_class_id)
        if self.machine_id is None:
            return (of_class,)
        return of_class, Key(self.job_class_id, None, self.machine_id)
