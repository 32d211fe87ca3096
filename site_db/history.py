"""Execution history: whole runs, and their statistics kept up run by run."""

from __future__ import annotations

from typing import Any

from sqlalchemy import CursorResult, insert, update
from sqlalchemy.orm import Session

from site_db.schema import ExecutionHistoryRow, ExecutionStatisticsRow


def add_run(
    session: Session,
    *,
    job_class_id: int,
    machine_class_id: int | None,
    machine_id: int | None,
    cluster_id: int | None,
    started_s: float,
    run_time_s: float,
    user: str,
    queue: str,
) -> None:
    """Record one whole run and what it adds to the statistics of its job class in that place.

    Count, mean and sum of squared deviations are updated in place (Welford 1962), in the transaction of
    `session`: the cost does not grow with the history.
    """
    place = {"job_class_id": job_class_id, "machine_class_id": machine_class_id, "cluster_id": cluster_id}
    session.execute(
        insert(ExecutionHistoryRow).values(
            **place, machine_id=machine_id, run_time_s=run_time_s, started_s=started_s, user=user, queue=queue
        )
    )
    row = ExecutionStatisticsRow
    deviation_s = run_time_s - row.mean_s
    updated: CursorResult[Any] = session.execute(  # type: ignore[assignment]
        update(row)
        .where(row.job_class_id == job_class_id)
        .where(row.machine_class_id.is_not_distinct_from(machine_class_id))
        .where(row.cluster_id.is_not_distinct_from(cluster_id))
        .values(
            count=row.count + 1,
            mean_s=row.mean_s + deviation_s / (row.count + 1),
            sum_squared_deviations_s2=row.sum_squared_deviations_s2
            + deviation_s * deviation_s * row.count / (row.count + 1),
        )
    )
    if updated.rowcount == 0:
        session.execute(
            insert(row).values(**place, count=1, mean_s=run_time_s, sum_squared_deviations_s2=0.0)
        )
