"""History and its statistics, as of the past and pruned; for writers that are killed see the campaign."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, func, select, update
from sqlalchemy.orm import Session

from scheduler import UserError
from site_db import store
from site_db.history import stored_statistics, writer
from site_db.history.stored_statistics import (
    MOMENTS,
    Key,
    StoredStatistics,
    disagreements,
    read_stored,
    read_stored_as_of,
)
from site_db.history.writer import prune
from site_db.jobs.records import LIVE, JobRecord, Source, SourceKind
from site_db.jobs.writer import JobWriter
from site_db.schema import ExecutionHistoryRow, ExecutionSnapshotRow, ExecutionStatisticsRow, JobRow, SiteRow
from site_db.site_file import importing
from tests.examples import up_to
from tests.site_db.site_texts import SMALL, a_run, read

RESOURCES = ("f1", "f2", "s1", "s2", "odd", "pair")
SITE_ID = 1
Summaries = dict[object, tuple[list[object], list[tuple[int, int]]]]


def run(time_s: float, resource: str = "f1", size: float | None = None) -> JobRecord:
    return a_run(resource, time_s, members={"pair": 2, "mixed": 3}.get(resource, 1), size=size)


def add(engine: Engine, *jobs: JobRecord, key: str = "live") -> None:
    with Session(engine) as session, session.begin():
        JobWriter(session, "small").add(session, Source(SourceKind.LIVE, key), jobs)


def summaries(kept: dict[Key, StoredStatistics]) -> Summaries:
    return {
        key: ([getattr(one.runs, name) for name in MOMENTS], one.sketch.bins()) for key, one in kept.items()
    }


def assert_same(one: Summaries, other: Summaries) -> None:
    assert one.keys() == other.keys()
    for key, (moments, pairs) in one.items():
        assert moments == pytest.approx(other[key][0], rel=1e-9, abs=1e-9), key
        assert pairs == other[key][1], key


# -- what recording costs ----------------------------------------------------------------------------------


def test_a_writer_reads_the_statistics_of_a_job_class_only_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_for: list[Collection[int] | None] = []

    def watch(
        session: Session, site_id: int, job_class_ids: Collection[int] | None = None
    ) -> dict[Key, StoredStatistics]:
        asked_for.append(job_class_ids)
        return read_stored(session, site_id, job_class_ids)

    monkeypatch.setattr(writer, "read_stored", watch)
    with Session(engine) as session:
        jobs = JobWriter(session, "small")
        for resource in ("f1", "f2", "s1", "odd", "f1"):
            jobs.add(session, LIVE, [run(10.0, resource)])
    assert asked_for == [{1}]


# -- as of the past ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [1, 3, 1000])
def test_statistics_as_of_any_run_equal_those_recorded_after_it(
    every: int, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "SNAPSHOT_EVERY", every)
    after: list[Summaries] = [{}]
    for k in range(10):
        add(engine, run(10.0 + k, RESOURCES[k % 4], size=float(k + 1) if k % 3 else None))
        with Session(engine) as session:
            after.append(summaries(read_stored(session, SITE_ID)))
    with Session(engine) as session:
        for number, expected in enumerate(after):
            assert_same(summaries(read_stored_as_of(session, SITE_ID, number)), expected)


def test_reading_the_past_scans_only_runs_since_the_last_snapshot(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "SNAPSHOT_EVERY", 5)
    for k in range(17):
        add(engine, run(10.0 + k))
    looked_at: list[tuple[int, int]] = []
    real = stored_statistics.add_runs

    def watch(session: Session, site_id: int, after: int, to: int, kept: dict[Key, StoredStatistics]) -> None:
        looked_at.append((after, to))
        real(session, site_id, after, to, kept)

    monkeypatch.setattr(stored_statistics, "add_runs", watch)
    with Session(engine) as session:
        read_stored_as_of(session, SITE_ID, 17)
        read_stored_as_of(session, SITE_ID, 9)
    assert looked_at == [(15, 17), (5, 9)]


def test_runs_of_seconds_and_weeks_in_one_place_are_recorded(engine: Engine) -> None:
    for _ in range(3):
        add(engine, *(run(time_s) for time_s in (1.0, 2e6) * 500))
    with Session(engine) as session:
        assert disagreements(session, SITE_ID) == []


def test_pruning_less_than_a_concurrent_prune_has_no_effect(engine: Engine) -> None:
    add(engine, *(run(10.0 + k) for k in range(50)))
    with Session(engine) as early:
        early.get_one(SiteRow, SITE_ID)  # as it was before the other one
        early.commit()
        with store.changing(engine) as session:
            prune(session, SITE_ID, 45)
        with early.begin():
            assert prune(early, SITE_ID, 10) == 0
    with Session(engine) as session:
        assert session.get_one(SiteRow, SITE_ID).runs_pruned == 45
        assert disagreements(session, SITE_ID) == []


def test_a_reader_sees_one_snapshot_despite_concurrent_recording_and_pruning(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "SNAPSHOT_EVERY", 20)
    add(engine, *(run(10.0 + k) for k in range(30)))
    real = stored_statistics.add_runs

    def interrupted(session: Session, *rest: Any) -> None:
        monkeypatch.setattr(stored_statistics, "add_runs", real)
        with store.changing(engine) as other:
            JobWriter(other, "small").add(other, LIVE, [run(99.0)] * 10)
            prune(other, SITE_ID, 35)
        real(session, *rest)

    with store.reading(engine) as session:
        before = summaries(read_stored(session, SITE_ID))
        monkeypatch.setattr(stored_statistics, "add_runs", interrupted)
        assert_same(summaries(read_stored_as_of(session, SITE_ID, 30)), before)


@settings(max_examples=up_to(50))
@given(
    batches=st.lists(
        st.lists(st.tuples(st.floats(0.1, 1e5), st.sampled_from(RESOURCES)), min_size=1, max_size=6),
        min_size=1,
        max_size=6,
    ),
    every=st.integers(1, 9),
    data=st.data(),
)
def test_statistics_agree_with_the_history_for_any_batches_and_pruning(
    batches: list[list[tuple[float, str]]], every: int, data: st.DataObject, shared_folder: Path
) -> None:
    path = shared_folder / "batches.sqlite"
    engine = store.replace(path)
    with Session(engine) as session, session.begin():
        importing.put_site(session, read(SMALL, shared_folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "SNAPSHOT_EVERY", every)
        for runs in batches:
            add(engine, *(run(time_s, resource) for time_s, resource in runs))
    n = sum(map(len, batches))
    to = data.draw(st.integers(0, n))
    with Session(engine) as session, session.begin():
        assert disagreements(session, SITE_ID) == []
        before = summaries(read_stored_as_of(session, SITE_ID, n))
        assert prune(session, SITE_ID, to) == to
        assert_same(summaries(read_stored_as_of(session, SITE_ID, n)), before)
        assert disagreements(session, SITE_ID) == []
    engine.dispose()


def test_pruned_runs_are_deleted_and_their_statistics_kept(engine: Engine) -> None:
    add(engine, *(run(10.0 * k) for k in range(1, 11)))
    with Session(engine) as session, session.begin():
        before = summaries(read_stored(session, SITE_ID))
        assert prune(session, SITE_ID, 7) == 7
    with Session(engine) as session:
        assert session.scalars(select(ExecutionHistoryRow.number)).all() == [8, 9, 10]
        assert session.scalars(select(JobRow.run_number).order_by(JobRow.serial)).all() == [8, 9, 10]
        assert summaries(read_stored(session, SITE_ID)) == before
        with pytest.raises(UserError, match="can be read as of run 7 to 10, not as of run 6"):
            read_stored_as_of(session, SITE_ID, 6)
    add(engine, run(5.0))
    with Session(engine) as session:
        assert session.scalar(select(func.max(ExecutionHistoryRow.number))) == 11


def test_statistics_that_disagree_with_the_history_are_detected(engine: Engine) -> None:
    add(engine, run(10.0), run(20.0, "s1"))
    with Session(engine) as session, session.begin():
        row = ExecutionStatisticsRow
        session.execute(update(row).where(row.machine_id.is_not(None)).values(mean_s=row.mean_s * 1.001))
    with Session(engine) as session:
        assert [key.machine_id is not None for key in disagreements(session, SITE_ID)] == [True, True]


def test_few_snapshots_of_the_statistics_are_stored(engine: Engine) -> None:
    add(engine, *(run(10.0 + k % 7, RESOURCES[k % 5]) for k in range(5000)))
    with Session(engine) as session:
        n = session.scalar(select(func.count()).select_from(ExecutionSnapshotRow))
    assert n == 7  # five machines and their two classes, once


def test_a_run_at_another_site_with_the_same_file_does_not_count(tmp_path: Path) -> None:
    engine = store.replace(tmp_path / "two.sqlite")
    with Session(engine) as session, session.begin():
        importing.put_site(session, read(SMALL, tmp_path))
        importing.put_site(session, read(SMALL.replace('"small"', '"other"'), tmp_path))
    add(engine, run(10.0))
    with Session(engine) as session:
        assert read_stored(session, 2) == {}
        assert session.scalars(select(SiteRow.runs_recorded).order_by(SiteRow.id)).all() == [1, 0]
    engine.dispose()
