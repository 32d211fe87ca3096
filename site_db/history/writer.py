"""Execution history: whole runs, numbered, and their statistics kept up as they are recorded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from sqlalchemy import insert, literal, select, update
from sqlalchemy.orm import Session

from site_db.bulk import add_up_rows, insert_rows
from site_db.history.completed_run import CompletedRun, Key
from site_db.history.stored_statistics import (
    STORED,
    StoredStatistics,
    read_stored,
    stored_columns,
    write_stored,
)
from site_db.schema import (
    ExecutionHistoryRow,
    ExecutionSnapshotRow,
    ExecutionStatisticsRow,
    JobClassRow,
    SiteRow,
    UserUsageRow,
)

SNAPSHOT_EVERY = 4096
"""Runs of a site after which all statistics that changed are copied: the statistics as of any run are at most
so many runs, and one batch, from a copy."""

USAGE = ("jobs_submitted", "runs", "execution_time_s")
"""What a user has had of a queue."""

_COLUMNS = ("site_id", "number", "source_id", *CompletedRun._fields)


class HistoryWriter:
    """Records batches of whole runs of one site, each in the transaction of a session.

    Whoever records takes its numbers by updating the site's row, and so waits until the others have
    committed: no update is lost, and the numbers are in the order of the commits. The statistics of a job
    class are read once and then kept here; of what others recorded in between, only what it changed is read.
    So a batch costs in proportion to its own length and theirs.
    """

    def __init__(self, site_id: int) -> None:
        self._site_id = site_id
        self._kept: dict[Key, StoredStatistics] = {}
        self._classes_read: set[int] = set()
        """The job classes all of whose statistics are kept here."""
        self._recorded = 0
        self._version = -1

    def lock(self, session: Session) -> int:
        """Wait for the turn to record, till the end of the transaction. Returns the version of the site."""
        self._take_numbers(session, 0)
        return self._version

    def record(self, session: Session, source_id: int, runs: Sequence[CompletedRun]) -> int:
        """Add `runs` to the history in their order. Returns the number of the first.

        Statistics that are kept here are those of the transaction, so call `forget` if it fails. Raises
        IntegrityError for a run time that is none, with nothing recorded.
        """
        last = self._take_numbers(session, len(runs))
        first = last - len(runs) + 1
        if not runs:
            return first
        insert_rows(
            session,
            ExecutionHistoryRow,
            _COLUMNS,
            [(self._site_id, number, source_id, *run) for number, run in enumerate(runs, start=first)],
        )
        changed = self._count_in(session, runs)
        write_stored(session, {key: self._kept[key] for key in changed}, last)
        _add_usage(session, runs)
        self._snapshot_if_due(session, last)
        self._recorded = last
        return first

    def forget(self) -> None:
        """The transaction was rolled back: what is kept here is not what is in the database."""
        self._version = -1

    def _take_numbers(self, session: Session, n: int) -> int:
        site = SiteRow
        taken = (
            update(site)
            .where(site.id == self._site_id)
            .values(runs_recorded=site.runs_recorded + n)
            .returning(site.runs_recorded, site.version)
        )
        last, version = session.execute(taken).one()
        if version != self._version:
            # Places may have gone, and their statistics with them.
            self._kept.clear()
            self._classes_read.clear()
        elif last - n != self._recorded and self._classes_read:
            changed = read_stored(session, self._site_id, since=self._recorded)
            self._kept.update(
                {key: one for key, one in changed.items() if key.job_class_id in self._classes_read}
            )
        self._recorded, self._version = last - n, version
        return int(last)

    def _count_in(self, session: Session, runs: Sequence[CompletedRun]) -> list[Key]:
        by_key: defaultdict[Key, list[CompletedRun]] = defaultdict(list)
        for run in runs:
            for key in run.counts_for():
                by_key[key].append(run)
        unread = {key.job_class_id for key in by_key} - self._classes_read
        if unread:
            self._kept.update(read_stored(session, self._site_id, unread))
            self._classes_read.update(unread)
        for key, some in by_key.items():
            kept = self._kept.setdefault(key, StoredStatistics())
            kept.add([run.run_time_s for run in some], [run.size for run in some])
        return list(by_key)

    def _snapshot_if_due(self, session: Session, last: int) -> None:
        before = session.scalars(select(SiteRow.snapshot_at).where(SiteRow.id == self._site_id)).one()
        if last - before < SNAPSHOT_EVERY:
            return
        row = ExecutionStatisticsRow
        changed = (
            select(row.id, literal(last), *stored_columns(row))
            .join(JobClassRow, JobClassRow.id == row.job_class_id)
            .where(JobClassRow.site_id == self._site_id, row.changed_at > before)
        )
        session.execute(
            insert(ExecutionSnapshotRow).from_select(["statistics_id", "number", *STORED], changed)
        )
        session.execute(update(SiteRow).where(SiteRow.id == self._site_id).values(snapshot_at=last))


def _add_usage(session: Session, runs: Iterable[CompletedRun]) -> None:
    times_s: defaultdict[tuple[int, str], list[float]] = defaultdict(list)
    for run in runs:
        times_s[run.user_id, run.queue].append(run.run_time_s)
    rows = [(user, queue, 0, len(some), sum(some)) for (user, queue), some in sorted(times_s.items())]
    add_up_rows(session, UserUsageRow, ("user_id", "queue"), USAGE, rows)
