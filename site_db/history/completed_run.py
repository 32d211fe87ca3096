"""A completed run, with ids, and the statistics that it counts for."""

from __future__ import annotations

from typing import NamedTuple


class Key(NamedTuple):
    """The job class and the place of a row of statistics, by ids; one of the three places is given."""

    job_class_id: int
    machine_class_id: int | None = None
    machine_id: int | None = None
    cluster_id: int | None = None
    members: int | None = None


class CompletedRun(NamedTuple):
    """A completed run on a machine (of a class), on some machine of a class, or on a cluster; its fields are
    columns of the execution history."""

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
        """The keys of the statistics that it counts for."""
        if self.cluster_id is not None:
            return (Key(self.job_class_id, None, None, self.cluster_id, self.members),)
        of_class = Key(self.job_class_id, self.machine_class_id)
        if self.machine_id is None:
            return (of_class,)
        return of_class, Key(self.job_class_id, None, self.machine_id)
