"""Execution history: whole runs, numbered, and their statistics kept up as they are recorded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from typing import Any, NamedTuple

from sqlalchemy import CursorResult, bindparam, case, delete, func, insert, literal, select, update
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased

from site_db.quantile_sketch import QuantileSketch
from site_db.schema import (
    ExecutionHistoryRow,
    ExecutionSnapshotRow,
    ExecutionStatisticsRow,
    JobClassRow,
    JobRow,
    MachineRow,
    SiteRow,
    UserUsageRow,
)
from site_db.statistics import RunStatistics

SNAPSHOT_EVERY = 4096
"""Runs of a site after which all statistics that changed are copied: the statistics as of any run are at most
so many runs, and one batch, from a copy."""

MOMENTS = (
    "count",
    "mean_s",
    "squares_s2",
    "least_s",
    "sized_count",
    "sized_mean_s",
    "mean_size",
    "squares_size2",
    "products",
)
_KEPT = (*MOMENTS, "sketch")


class Key(NamedTuple):
    """What one row of statistics is about, by ids: one of the three places is filled."""

    job_class_id: int
    machine_class_id: int | None = None
    machine_id: int | None = None
    cluster_id: int | None = None
    members: int | None = None


@dataclass(frozen=True, slots=True)
class WholeRun:
    """One whole run by ids: on a machine (of a class), on some machine of a class, or on a cluster."""

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
            return (Key(self.job_class_id, cluster_id=self.cluster_id, members=self.members),)
        of_class = Key(self.job_class_id, machine_class_id=self.machine_class_id)
        if self.machine_id is None:
            return (of_class,)
        return of_class, Key(self.job_class_id, machine_id=self.machine_id)


@dataclass(slots=True)
class Kept:
    """Statistics and quantiles of one key; `id` is its row, None before there is one."""

    runs: RunStatistics
    sketch: QuantileSketch
    id: int | None = None

    def columns(self) -> dict[str, Any]:
        columns = {name: getattr(self.runs, name) for name in MOMENTS}
        return {**columns, "sketch": self.sketch.flat()}


class PrunedHistory(ValueError):
    """The history as it was then is forgotten. The message is one sentence for the user."""


class HistoryWriter:
    """Records batches of whole runs of one site, each in the transaction of a session.

    Whoever records takes its numbers by updating the site's row, and so waits until the others have
    committed: no update is lost, and the numbers are in the order of the commits. Statistics are read once
    and then kept here, as long as nobody else has recorded in between: a batch costs in proportion to its own
    length.
    """

    def __init__(self, site_id: int) -> None:
        self._site_id = site_id
        self._kept: dict[Key, Kept] = {}
        self._class_of: dict[int, int] = {}
        self._recorded = -1

    def lock(self, session: Session) -> int:
        """Wait for the turn to record, till the end of the transaction. Returns the last number there is."""
        return self._take_numbers(session, 0)

    def record(self, session: Session, source_id: int, runs: Sequence[WholeRun]) -> int:
        """Add `runs` to the history in their order. Returns the number of the first.

        Statistics that are kept here are those of the transaction, so call `forget` if it fails. Raises
        IntegrityError for a run time that is none, with nothing recorded.
        """
        last = self._take_numbers(session, len(runs))
        first = last - len(runs) + 1
        if not runs:
            return first
        # Past the unit of work, which would look at each row again.
        session.connection().execute(
            insert(ExecutionHistoryRow.__table__),  # type: ignore[arg-type]
            [
                {
                    "site_id": self._site_id,
                    "number": number,
                    "source_id": source_id,
                    "job_class_id": run.job_class_id,
                    "machine_class_id": run.machine_class_id,
                    "machine_id": run.machine_id,
                    "cluster_id": run.cluster_id,
                    "members": run.members,
                    "started_unix_s": run.started_unix_s,
                    "run_time_s": run.run_time_s,
                    "size": run.size,
                    "user_id": run.user_id,
                    "queue": run.queue,
                }
                for number, run in enumerate(runs, start=first)
            ],
        )
        changed = self._count_in(session, runs)
        _write(session, {key: self._kept[key] for key in changed}, last)
        _add_usage(session, runs)
        self._snapshot_if_due(session, last)
        self._recorded = last
        return first

    def forget(self) -> None:
        """The transaction was rolled back: what is kept here is not what is in the database."""
        self._recorded = -1

    def _take_numbers(self, session: Session, n: int) -> int:
        site = SiteRow
        taken = (
            update(site)
            .where(site.id == self._site_id)
            .values(runs_recorded=site.runs_recorded + n)
            .returning(site.runs_recorded)
        )
        last = int(session.execute(taken).scalar_one())
        if last - n != self._recorded:
            self._kept.clear()
            self._recorded = last - n
        return last

    def _count_in(self, session: Session, runs: Sequence[WholeRun]) -> list[Key]:
        times_of: defaultdict[Key, list[float]] = defaultdict(list)
        sizes_of: defaultdict[Key, list[float | None]] = defaultdict(list)
        for run in runs:
            for key in run.counts_for():
                times_of[key].append(run.run_time_s)
                sizes_of[key].append(run.size)
        unread = {key.job_class_id for key in times_of if key not in self._kept}
        if unread:
            read = read_kept(session, self._site_id, unread)
            self._kept.update({key: kept for key, kept in read.items() if key not in self._kept})
        for key, times_s in times_of.items():
            kept = self._kept.setdefault(key, Kept(RunStatistics(), QuantileSketch()))
            kept.runs = kept.runs.merged(RunStatistics.of(times_s, sizes_of[key]))
            kept.sketch = kept.sketch.merged(QuantileSketch.of(times_s))
        return list(times_of)

    def _snapshot_if_due(self, session: Session, last: int) -> None:
        before = session.scalars(select(SiteRow.snapshot_at).where(SiteRow.id == self._site_id)).one()
        if last - before < SNAPSHOT_EVERY:
            return
        row = ExecutionStatisticsRow
        changed = (
            select(row.id, literal(last), *_columns(row))
            .join(JobClassRow, JobClassRow.id == row.job_class_id)
            .where(JobClassRow.site_id == self._site_id, row.changed_at > before)
        )
        session.execute(
            insert(ExecutionSnapshotRow).from_select(["statistics_id", "number", *_KEPT], changed)
        )
        session.execute(update(SiteRow).where(SiteRow.id == self._site_id).values(snapshot_at=last))


def read_kept(
    session: Session, site_id: int, job_class_ids: Collection[int] | None = None
) -> dict[Key, Kept]:
    """All statistics of a site with their quantiles, or those of some job classes."""
    row = ExecutionStatisticsRow
    query = (
        select(row.id, *_key(row), *_columns(row))
        .join(JobClassRow, JobClassRow.id == row.job_class_id)
        .where(JobClassRow.site_id == site_id)
    )
    if job_class_ids is not None:
        query = query.where(row.job_class_id.in_(job_class_ids))
    return {
        Key(*key): _kept(moments, id) for id, *rest in session.execute(query) for key, moments in [_cut(rest)]
    }


def read_statistics(session: Session, site_id: int) -> list[tuple[Key, RunStatistics]]:
    """All statistics of a site as they stand now, without quantiles: one query."""
    row = ExecutionStatisticsRow
    query = (
        select(*_key(row), *(getattr(row, name) for name in MOMENTS))
        .join(JobClassRow, JobClassRow.id == row.job_class_id)
        .where(JobClassRow.site_id == site_id)
        .order_by(row.id)
    )
    n = len(Key._fields)
    return [(Key(*columns[:n]), RunStatistics(*columns[n:])) for columns in session.execute(query)]


def read_kept_as_of(session: Session, site_id: int, number: int) -> dict[Key, Kept]:
    """All statistics with quantiles as they stood after run `number`: from the copies made last before it and
    the runs since then, never more than SNAPSHOT_EVERY runs and a batch.

    Raises PrunedHistory where that is forgotten, and for a number that was not recorded yet.
    """
    site = session.get_one(SiteRow, site_id)
    if not site.runs_pruned <= number <= site.runs_recorded:
        raise PrunedHistory(
            f"the history of the site '{site.name}' can be read as of run {site.runs_pruned} to "
            f"{site.runs_recorded}, not as of run {number}"
        )
    row, copy, earlier = ExecutionStatisticsRow, ExecutionSnapshotRow, aliased(ExecutionSnapshotRow)
    latest = (
        select(func.max(earlier.number))
        .where(earlier.statistics_id == row.id, earlier.number <= number)
        .scalar_subquery()
    )
    query = (
        select(copy.number, row.id, *_key(row), *_columns(copy))
        .join(JobClassRow, JobClassRow.id == row.job_class_id)
        .join(copy, (copy.statistics_id == row.id) & (copy.number == latest))
        .where(JobClassRow.site_id == site_id)
    )
    found: dict[Key, Kept] = {}
    copied_at = site.runs_pruned
    for at, id, *rest in session.execute(query):
        copied_at = max(copied_at, at)
        key, moments = _cut(rest)
        found[Key(*key)] = _kept(moments, id)
    for key, runs in runs_by_key(session, site_id, copied_at, number).items():
        kept = found.setdefault(key, Kept(RunStatistics(), QuantileSketch()))
        kept.runs = kept.runs.merged(RunStatistics.of(*runs))
        kept.sketch = kept.sketch.merged(QuantileSketch.of(runs[0]))
    return found


def runs_by_key(
    session: Session, site_id: int, after: int, to: int
) -> dict[Key, tuple[list[float], list[float | None]]]:
    """Run times and sizes of the runs `after` < number <= `to`, by the statistics that they count for."""
    run, machine = ExecutionHistoryRow, MachineRow
    query = (
        select(
            run.job_class_id,
            run.machine_class_id,
            # A machine that was put into another class has begun anew.
            case((machine.machine_class_id == run.machine_class_id, run.machine_id)),
            run.cluster_id,
            run.members,
            run.started_unix_s,
            run.run_time_s,
            run.user_id,
            run.queue,
            run.size,
        )
        .outerjoin(machine, machine.id == run.machine_id)
        .where(run.site_id == site_id, run.number > after, run.number <= to)
        .order_by(run.number)
    )
    found: dict[Key, tuple[list[float], list[float | None]]] = {}
    for columns in session.execute(query):
        whole_run = WholeRun(*columns)
        for key in whole_run.counts_for():
            times_s, sizes = found.setdefault(key, ([], []))
            times_s.append(whole_run.run_time_s)
            sizes.append(whole_run.size)
    return found


def prune(session: Session, site_id: int, to: int) -> int:
    """Forget the runs up to number `to`; what they taught stays. Returns how many were forgotten.

    The statistics as of `to` are kept as a copy, from which all later ones can be told. Raises PrunedHistory.
    """
    HistoryWriter(site_id).lock(session)
    as_it_was = read_kept_as_of(session, site_id, to)
    of_site = (
        select(ExecutionStatisticsRow.id)
        .join(JobClassRow, JobClassRow.id == ExecutionStatisticsRow.job_class_id)
        .where(JobClassRow.site_id == site_id)
    )
    copy = ExecutionSnapshotRow
    session.execute(delete(copy).where(copy.statistics_id.in_(of_site), copy.number <= to))
    ids = {key: kept.id for key, kept in read_kept(session, site_id).items()}
    copies = [
        {"statistics_id": ids[key], "number": to, **kept.columns()}
        for key, kept in as_it_was.items()
        if key in ids
    ]
    if copies:
        session.execute(insert(copy), copies)
    run = ExecutionHistoryRow
    gone: CursorResult[Any] = session.execute(  # type: ignore[assignment]
        delete(run).where(run.site_id == site_id, run.number <= to)
    )
    _forget_jobs(session, site_id, to)
    session.execute(update(SiteRow).where(SiteRow.id == site_id).values(runs_pruned=to))
    return gone.rowcount


def _forget_jobs(session: Session, site_id: int, to: int) -> None:
    """The jobs of forgotten runs, and those recorded before them that never came to a whole run."""
    job = JobRow
    last = session.scalar(select(func.max(job.id)).where(job.site_id == site_id, job.run_number <= to))
    if last is not None:
        over = job.state.in_(("failed", "refused"))
        session.execute(
            delete(job).where(job.site_id == site_id, (job.run_number <= to) | ((job.id < last) & over))
        )


def disagreements(session: Session, site_id: int) -> Iterable[Key]:
    """The statistics that are not those of the history: count exactly, moments to 1e-9. Reads all of it."""
    site = session.get_one(SiteRow, site_id)
    told = read_kept_as_of(session, site_id, site.runs_pruned)
    for key, runs in runs_by_key(session, site_id, site.runs_pruned, site.runs_recorded).items():
        kept = told.setdefault(key, Kept(RunStatistics(), QuantileSketch()))
        kept.runs = kept.runs.merged(RunStatistics.of(*runs))
        kept.sketch = kept.sketch.merged(QuantileSketch.of(runs[0]))
    there = read_kept(session, site_id)
    return [
        key
        for key in sorted(told.keys() | there.keys(), key=str)
        if not (key in told and key in there and _agree(told[key], there[key]))
    ]


def _agree(one: Kept, other: Kept) -> bool:
    pairs = [(getattr(one.runs, name), getattr(other.runs, name)) for name in MOMENTS]
    scale = max(one.runs.mean_s**2, one.runs.mean_size**2, 1e-300)
    close = all(isclose(a, b, rel_tol=1e-9, abs_tol=1e-9 * scale) for a, b in pairs)
    return one.runs.count == other.runs.count and close and one.sketch.pairs() == other.sketch.pairs()


def _write(session: Session, changed: Mapping[Key, Kept], number: int) -> None:
    """Write statistics; those that have no row yet get one."""
    row = ExecutionStatisticsRow
    new = [(key, kept) for key, kept in changed.items() if kept.id is None]
    old = [kept for kept in changed.values() if kept.id is not None]
    if old:
        session.connection().execute(
            update(row.__table__)  # type: ignore[arg-type]
            .where(row.__table__.c.id == bindparam("row_id"))
            .values({name: bindparam(f"new_{name}") for name in (*_KEPT, "changed_at")}),
            [
                {
                    "row_id": kept.id,
                    "new_changed_at": number,
                    **{f"new_{name}": value for name, value in kept.columns().items()},
                }
                for kept in old
            ],
        )
    if new:
        ids = session.scalars(
            insert(row).returning(row.id, sort_by_parameter_order=True),
            [{**key._asdict(), **kept.columns(), "changed_at": number} for key, kept in new],
        )
        for (_, kept), id in zip(new, ids, strict=True):
            kept.id = id


def _add_usage(session: Session, runs: Iterable[WholeRun]) -> None:
    usage: defaultdict[tuple[int, str], list[float]] = defaultdict(list)
    for run in runs:
        usage[run.user_id, run.queue].append(run.run_time_s)
    for (user_id, queue), times_s in usage.items():
        add_to_usage(session, user_id, queue, runs=len(times_s), execution_time_s=sum(times_s))


def add_to_usage(
    session: Session,
    user_id: int,
    queue: str,
    *,
    jobs_submitted: int = 0,
    runs: int = 0,
    execution_time_s: float = 0.0,
) -> None:
    """Add to what a user has had of a queue. The site must be locked."""
    row = UserUsageRow
    more = {"jobs_submitted": jobs_submitted, "runs": runs, "execution_time_s": execution_time_s}
    updated: CursorResult[Any] = session.execute(  # type: ignore[assignment]
        update(row)
        .where(row.user_id == user_id, row.queue == queue)
        .values({name: getattr(row, name) + value for name, value in more.items()})
        .execution_options(synchronize_session=False)
    )
    if not updated.rowcount:
        session.execute(insert(row).values(user_id=user_id, queue=queue, **more))


_Rows = type[ExecutionStatisticsRow] | type[ExecutionSnapshotRow]


def _key(row: type[ExecutionStatisticsRow]) -> list[InstrumentedAttribute[Any]]:
    return [getattr(row, name) for name in Key._fields]


def _columns(row: _Rows) -> list[InstrumentedAttribute[Any]]:
    return [getattr(row, name) for name in _KEPT]


def _cut(columns: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    n = len(Key._fields)
    return columns[:n], columns[n:]


def _kept(columns: Sequence[Any], id: int) -> Kept:
    *moments, sketch = columns
    return Kept(RunStatistics(*moments), QuantileSketch.from_flat(sketch), id)
