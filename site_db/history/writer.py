"""Recording and pruning completed runs: they are numbered, and their statistics are updated with them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import CursorResult, delete, func, insert, literal, select, update
from sqlalchemy.orm import Session

from site_db import schema
from site_db.history.stored_statistics import (
    STORED,
    Key,
    Run,
    StoredStatistics,
    of_site,
    read_stored,
    read_stored_as_of,
    runs_by_key,
    write_snapshots,
    write_stored,
)
from site_db.rows import add_to_rows, insert_rows

SNAPSHOT_EVERY = 4096
"""The number of runs of a site after which all statistics that changed are copied: the statistics as of any
run are at most this many runs, and one batch, from a snapshot."""


class HistoryWriter:
    """Records batches of completed runs of one site, each in the transaction of a session.

    A writer takes its numbers by an update of the site's row, which waits until other writers have committed:
    no update is lost, and the numbers are in the order of the commits. The statistics of a job class are read
    once and then cached; afterwards only those that other writers changed are read. So a batch costs in
    proportion to its own length and theirs.
    """

    def __init__(self, site_id: int) -> None:
        self._site_id = site_id
        self._cache: dict[Key, StoredStatistics] = {}
        self._cached_classes: set[int] = set()
        """The job classes all of whose statistics are in the cache."""
        self._recorded = 0
        self._version = -1

    def lock(self, session: Session) -> int:
        """Lock the site until the end of the transaction. Returns its version."""
        self._take_numbers(session, 0)
        return self._version

    def record(self, session: Session, runs: Sequence[Run]) -> int:
        """Add runs to the history in their order. Returns the number of the first.

        The cache is that of the transaction, so call `reset` if it fails. Raises IntegrityError for an
        invalid run time, with nothing recorded.
        """
        last = self._take_numbers(session, len(runs))
        first = last - len(runs) + 1
        if not runs:
            return first
        rows = [{"site_id": self._site_id, "number": n, **run} for n, run in enumerate(runs, start=first)]
        insert_rows(session, schema.ExecutionHistoryRow, rows)
        write_stored(session, self._add(session, runs), last)
        times_s: defaultdict[tuple[int, str], list[float]] = defaultdict(list)
        for run in runs:
            times_s[run["user_id"], run["queue"]].append(run["run_time_s"])
        used = [usage(*of, runs=len(some), time_s=sum(some)) for of, some in sorted(times_s.items())]
        add_to_rows(session, schema.UserUsageRow, used)
        self._take_snapshot_if_due(session, last)
        self._recorded = last
        return first

    def reset(self) -> None:
        """Drop the cache, after the transaction was rolled back."""
        self._version = -1

    def _take_numbers(self, session: Session, n: int) -> int:
        site = schema.SiteRow
        taken = (
            update(site)
            .where(site.id == self._site_id)
            .values(runs_recorded=site.runs_recorded + n)
            .returning(site.runs_recorded, site.version)
        )
        last, version = session.execute(taken).one()
        if version != self._version:
            # Places may have been removed, with their statistics.
            self._cache.clear()
            self._cached_classes.clear()
        elif last - n != self._recorded and self._cached_classes:
            for key, stored in read_stored(session, self._site_id, since=self._recorded).items():
                if key.job_class_id in self._cached_classes:
                    self._cache[key] = stored
        self._recorded, self._version = last - n, version
        return int(last)

    def _add(self, session: Session, runs: Sequence[Run]) -> dict[Key, StoredStatistics]:
        """Add runs to the statistics. Returns those that changed."""
        by_key = runs_by_key(runs)
        missing = {key.job_class_id for key in by_key} - self._cached_classes
        if missing:
            self._cache.update(read_stored(session, self._site_id, missing))
            self._cached_classes.update(missing)
        for key, some in by_key.items():
            self._cache.setdefault(key, StoredStatistics()).add(some)
        return {key: self._cache[key] for key in by_key}

    def _take_snapshot_if_due(self, session: Session, last: int) -> None:
        site = schema.SiteRow
        before = session.scalars(select(site.snapshot_at).where(site.id == self._site_id)).one()
        if last - before < SNAPSHOT_EVERY:
            return
        row = schema.ExecutionStatisticsRow
        columns = row.id, literal(last), *(getattr(row, name) for name in STORED)
        changed = of_site(self._site_id, *columns).where(row.changed_at > before)
        into = insert(schema.ExecutionSnapshotRow)
        session.execute(into.from_select(["statistics_id", "number", *STORED], changed))
        session.execute(update(site).where(site.id == self._site_id).values(snapshot_at=last))


def usage(user_id: int, queue: str, jobs: int = 0, runs: int = 0, time_s: float = 0.0) -> dict[str, Any]:
    """A row of a user's usage of a queue."""
    sums = {"jobs_submitted": jobs, "runs": runs, "execution_time_s": time_s}
    return {"user_id": user_id, "queue": queue, **sums}


def prune(session: Session, site_id: int, to: int) -> int:
    """Delete the runs up to number `to`. Returns how many were deleted.

    A snapshot of the statistics as of `to` is stored, from which all later ones follow. Raises UserError.
    """
    HistoryWriter(site_id).lock(session)
    to = max(to, session.get_one(schema.SiteRow, site_id, populate_existing=True).runs_pruned)
    as_of = read_stored_as_of(session, site_id, to)
    snapshot, ids = schema.ExecutionSnapshotRow, of_site(site_id, schema.ExecutionStatisticsRow.id)
    session.execute(delete(snapshot).where(snapshot.statistics_id.in_(ids), snapshot.number <= to))
    current = read_stored(session, site_id)
    kept = [replace(old, id=current[key].id) for key, old in as_of.items() if key in current]
    write_snapshots(session, kept, to)
    run, job = schema.ExecutionHistoryRow, schema.JobRow
    deleted: CursorResult[Any] = session.execute(  # type: ignore[assignment]
        delete(run).where(run.site_id == site_id, run.number <= to)
    )
    # With their jobs, and those recorded before them that have no completed run.
    last = session.scalar(select(func.max(job.serial)).where(job.site_id == site_id, job.run_number <= to))
    if last is not None:
        before = (job.serial < last) & job.state.in_(("failed", "refused"))
        session.execute(delete(job).where(job.site_id == site_id, (job.run_number <= to) | before))
    session.execute(update(schema.SiteRow).where(schema.SiteRow.id == site_id).values(runs_pruned=to))
    return deleted.rowcount
