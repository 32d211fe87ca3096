"""The demand for nodes: what the past jobs of a site requested and used, by partition, account and so on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import case, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from site_db.jobs.arrived import observed
from site_db.jobs.records import DemandBy, JobState
from site_db.schema import JobRow, UserRow
from site_db.site_file.cluster import Held

HOUR_S = 3600.0


_KEYS: Mapping[DemandBy, InstrumentedAttribute[str]] = {
    DemandBy.PARTITION: JobRow.queue,
    DemandBy.ACCOUNT: JobRow.account,
    DemandBy.QOS: JobRow.qos,
    DemandBy.USER: UserRow.name,
}


@dataclass
class Demand:
    """Of some jobs: their number, how many completed, the hours of the CPUs and GPUs that they kept from
    others (`Cluster.held`), and the sum of their waiting times."""

    jobs: int = 0
    completed: int = 0
    cpu_h: float = 0.0
    gpu_h: float = 0.0
    waiting_s: float = 0.0

    def add(self, jobs: int, completed: int, held_s: float, waiting_s: float, held: Held) -> None:
        """Add jobs of one class, each of which kept `held` from others, for `held_s` in total."""
        self.jobs += jobs
        self.completed += completed
        self.cpu_h += held_s * held.cpus / HOUR_S
        self.gpu_h += held_s * held.gpus / HOUR_S
        self.waiting_s += waiting_s


def demand(session: Session, site_id: int, held_by: Mapping[int, Held], by: DemandBy) -> Mapping[str, Demand]:
    """The demand of all jobs that started and were not simulated; the largest number of CPU hours first.

    `held_by` has what a job of a class keeps from others, by the id of the class; others have one CPU.
    """
    key: Any = _KEYS.get(by, case((JobRow.state == JobState.DONE.value, "COMPLETED"), else_=JobRow.reason))
    done = func.sum(case((JobRow.state == JobState.DONE.value, 1), else_=0))
    held_s = func.sum(JobRow.ended_unix_s - JobRow.started_unix_s)
    waiting_s = func.sum(JobRow.started_unix_s - JobRow.submitted_unix_s)
    query = (
        select(key, JobRow.job_class_id, func.count(), done, held_s, waiting_s)
        .join(UserRow, UserRow.id == JobRow.user_id)
        .where(*observed(site_id), JobRow.ended_unix_s.is_not(None))
        .group_by(key, JobRow.job_class_id)
        .order_by(key, JobRow.job_class_id)
    )
    found: defaultdict[str, Demand] = defaultdict(Demand)
    for name, job_class_id, jobs, completed, ran_s, waited_s in session.execute(query):
        found[name].add(jobs, completed, ran_s, waited_s, held_by.get(job_class_id, Held(1, 0)))
    return dict(sorted(found.items(), key=lambda item: (-item[1].cpu_h, item[0])))
