"""The scheduler's Experience port over the site database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from scheduler.etc import EtcMatrix
from scheduler.model import ExecutionRecord, Job
from site_db.history import add_run
from site_db.schema import ExecutionStatisticsRow, ExpectedTimeRow, JobClassRow
from site_db.sites import Columns, find_site

ENOUGH_RUNS = 3
"""With fewer whole runs than this in the history, the expected time of the site file is believed."""


class SqlExperience:
    """What the history of a site says about how long jobs take.

    The expected time of (job class, machine class or cluster) is the mean of its runs in the history, if
    there are ENOUGH_RUNS of them, else what the site's staff gave. Where they gave nothing, it may not run.
    The table is read in one query, and again only after something was recorded here.
    """

    def __init__(self, engine: Engine, site_name: str) -> None:
        self._engine = engine
        with Session(engine) as session:
            site = find_site(session, site_name)
            self._site_id = site.id
            self._columns = Columns(site)
            self._job_class_row = {k.name: c for c, k in enumerate(site.job_classes)}
            self._job_class_id = {k.name: k.id for k in site.job_classes}
            self._machines = [(m.id, m.machine_class_id) for m in site.machines]
            self._cluster_ids = [c.id for c in site.clusters]
        self._by_class_s: NDArray[np.float64] | None = None

    def estimate(self, jobs: Sequence[Job]) -> EtcMatrix:
        """Expected seconds of `jobs` on the site's resources. Raises ValueError for an unknown job class."""
        if self._by_class_s is None:
            self._by_class_s = self._read()
        rows = [self._known(self._job_class_row, job) for job in jobs]
        return self._columns.matrix(self._by_class_s, np.array(rows, dtype=np.int64))

    def record(self, record: ExecutionRecord) -> None:
        """Add one whole run to the history, in a transaction of its own. Raises as `estimate` does."""
        c = record.resource - len(self._machines)
        on_machine = c < 0
        machine_id, machine_class_id = self._machines[record.resource] if on_machine else (None, None)
        with Session(self._engine) as session, session.begin():
            add_run(
                session,
                job_class_id=self._known(self._job_class_id, record.job),
                machine_class_id=machine_class_id,
                machine_id=machine_id,
                cluster_id=None if on_machine else self._cluster_ids[c],
                started_s=record.started_s,
                run_time_s=record.run_time_s,
                user=record.job.user,
                queue=record.job.queue,
            )
        self._by_class_s = None

    def _known(self, by_name: Mapping[str, int], job: Job) -> int:
        try:
            return by_name[job.job_class]
        except KeyError:
            known = ", ".join(by_name) or "none"
            raise ValueError(f"the site has no job class '{job.job_class}'; it has {known}") from None

    def _read(self) -> NDArray[np.float64]:
        given, seen = ExpectedTimeRow, ExecutionStatisticsRow
        query = (
            select(
                JobClassRow.name,
                given.machine_class_id,
                given.cluster_id,
                given.expected_s,
                seen.count,
                seen.mean_s,
            )
            .join(given, given.job_class_id == JobClassRow.id)
            .outerjoin(
                seen,
                (seen.job_class_id == given.job_class_id)
                & seen.machine_class_id.is_not_distinct_from(given.machine_class_id)
                & seen.cluster_id.is_not_distinct_from(given.cluster_id),
            )
            .where(JobClassRow.site_id == self._site_id)
        )
        by_class_s = np.full((len(self._job_class_row), self._columns.count), np.inf)
        with Session(self._engine) as session:
            for name, machine_class_id, cluster_id, expected_s, count, mean_s in session.execute(query):
                column = self._columns.of(machine_class_id, cluster_id)
                enough = count is not None and count >= ENOUGH_RUNS
                by_class_s[self._job_class_row[name], column] = mean_s if enough else expected_s
        return by_class_s
