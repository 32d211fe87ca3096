"""A site file that comes again: what changes, what stays, and what may not go."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from site_db.files.input_errors import InvalidFile
from site_db.history.stored_statistics import disagreements
from site_db.history.writer import prune
from site_db.jobs.records import JobRecord
from site_db.schema import ExecutionHistoryRow, ExecutionStatisticsRow, JobRow, MachineRow, SiteRow, UserRow
from site_db.site_file.importing import SiteConflict, put_file, put_site
from site_db.sites import SiteReader
from tests.site_db.site_texts import NODES, SMALL, a_run, blamed_line, changed, dump, read, record

F1_IS_SLOW = changed(
    '"s[1-2]", "odd"', '"s[1-2]", "odd", "f1"', changed('names = ["f[1-2]"]', 'names = ["f2"]')
)


def put(session: Session, text: str, folder: Path) -> None:
    put_site(session, read(text, folder))
    session.expire_all()


def conflict(session: Session, text: str, folder: Path) -> str:
    with pytest.raises(SiteConflict) as caught:
        put_site(session, read(text, folder))
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "runs"),
    [(SMALL, [a_run("f1"), a_run("pair", members=2)]), (NODES, [a_run("g1", job_class="train")])],
    ids=["small", "nodes"],
)
def test_importing_an_unchanged_file_changes_nothing(
    text: str, runs: list[JobRecord], session: Session, tmp_path: Path
) -> None:
    put(session, text, tmp_path)
    record(session, *runs, site=read(text, tmp_path).name)
    session.execute(update(SiteRow).values(version=6))
    before = dump(session)
    put(session, text, tmp_path)
    session.execute(update(SiteRow).values(version=6))
    assert dump(session) == before


def test_a_changed_file_updates_the_site_and_keeps_the_history(session: Session, tmp_path: Path) -> None:
    record(session, a_run("f1", 12.0), a_run("s1", 40.0))
    statistics = select(func.count(), func.sum(ExecutionStatisticsRow.mean_s))
    before = session.execute(statistics).one()
    new = changed("least_share = 0.5", "least_share = 1.0", changed("slow = 30.5", "slow = 44"))
    put(session, new, tmp_path)
    assert SiteReader(session, "small").as_file() == read(new, tmp_path)
    assert session.execute(statistics).one() == before
    assert session.scalar(select(func.count()).select_from(ExecutionHistoryRow)) == 2
    site_id = SiteReader(session, "small").site.id
    assert list(disagreements(session, site_id)) == []


def test_a_new_machine_is_added_and_a_removed_one_leaves_its_runs_to_its_class(
    session: Session, tmp_path: Path
) -> None:
    record(session, a_run("odd", 40.0))
    put(session, changed('"s[1-2]", "odd"', '"s[1-2]", "new"'), tmp_path)
    names = session.scalars(select(MachineRow.name).order_by(MachineRow.position)).all()
    assert names == ["f1", "f2", "s1", "s2", "new"]
    run = session.scalars(select(ExecutionHistoryRow)).one()
    assert (run.machine_id, run.machine_class_id is None) == (None, False)
    assert session.scalars(select(JobRow.machine_id)).all() == [None]
    statistics = session.scalars(select(ExecutionStatisticsRow)).all()
    assert [one.machine_id for one in statistics] == [None]


def test_a_machine_that_changes_its_class_loses_its_statistics(session: Session, tmp_path: Path) -> None:
    """What was done by other hardware of the same name says nothing of it."""
    record(session, a_run("f1", 12.0), a_run("f2", 14.0))
    put(session, F1_IS_SLOW, tmp_path)
    machines = {id: name for name, id in SiteReader(session, "small").ids("machines").items()}
    own = session.scalars(
        select(ExecutionStatisticsRow.machine_id).where(ExecutionStatisticsRow.machine_id.is_not(None))
    ).all()
    assert [machines[id] for id in own if id is not None] == ["f2"]
    assert list(disagreements(session, SiteReader(session, "small").site.id)) == []


def test_a_machine_that_returns_to_its_first_class_does_not_regain_its_statistics(
    session: Session, tmp_path: Path
) -> None:
    record(session, *(a_run("f1", 12.0) for _ in range(40)))
    put(session, F1_IS_SLOW, tmp_path)
    put(session, SMALL, tmp_path)
    record(session, a_run("f1", 90.0))
    site_id = SiteReader(session, "small").site.id
    assert list(disagreements(session, site_id)) == []
    own = select(ExecutionStatisticsRow.count).where(ExecutionStatisticsRow.machine_id.is_not(None))
    assert session.scalars(own).all() == [1]
    prune(session, site_id, 40)
    assert list(disagreements(session, site_id)) == []


def test_a_user_removed_from_the_file_stays_known_from_jobs_without_limits(
    session: Session, tmp_path: Path
) -> None:
    listed = SMALL + '\n[[users]]\nname = "ann"\nqueues = ["day"]\nmost_jobs = 2\n'
    put(session, listed, tmp_path)
    record(session, a_run("f1"))
    assert [policy.most_jobs for policy in SiteReader(session, "small").user_policies()] == [2]
    put(session, SMALL, tmp_path)
    assert SiteReader(session, "small").user_policies() == []
    ann = session.scalars(select(UserRow)).one()
    assert (ann.name, ann.listed, ann.all_queues, ann.most_jobs) == ("ann", False, True, None)


@pytest.mark.parametrize(
    ("run", "old_name", "new_name", "what"),
    [
        (a_run("f1"), "short", "brief", "job class 'short'"),
        (a_run("pair", members=2), "pair", "two", "cluster 'pair'"),
        (a_run("s1"), "slow", "late", "machine class 'slow'"),
    ],
    ids=["job class", "cluster", "machine class"],
)
def test_a_name_used_in_the_history_cannot_be_removed(
    run: JobRecord, old_name: str, new_name: str, what: str, session: Session, tmp_path: Path
) -> None:
    record(session, run)
    session.commit()
    before = dump(session)
    assert conflict(session, SMALL.replace(old_name, new_name), tmp_path) == (
        f"the {what} is not in the file any more, but the history of the site 'small' has 1 run of it; "
        f"keep it in the file, or delete them first with `sil db prune`"
    )
    session.rollback()
    assert dump(session) == before


def test_a_name_whose_runs_were_pruned_may_be_removed(session: Session, tmp_path: Path) -> None:
    """Otherwise the sentence above would give bad advice."""
    record(session, a_run("f1"))
    prune(session, SiteReader(session, "small").site.id, 1)
    put(session, SMALL.replace("short", "brief"), tmp_path)
    assert [*SiteReader(session, "small").ids("job_classes")] == ["brief", "long", "wide"]


def test_a_job_class_without_any_time_is_rejected_with_its_line(session: Session, tmp_path: Path) -> None:
    text = SMALL + '\n[[job_classes]]\nname = "odd" # HERE\n\n[job_classes.commands]\nfast = "odd"\n'
    path = tmp_path / "site.toml"
    path.write_text(text)
    with pytest.raises(InvalidFile) as caught:
        put_file(session, read(text, tmp_path), path)
    assert str(caught.value) == (
        f"{path}, line {blamed_line(text)}: job class 'odd' has no time anywhere, neither from the site's "
        f"staff nor in the history; give it at least one in sequential_s or parallel_s"
    )


def test_staff_times_may_be_removed_where_there_is_history(session: Session, tmp_path: Path) -> None:
    record(session, a_run("f1", 120.0, job_class="long"))
    text = changed("[job_classes.sequential_s]\nfast = 100", '[job_classes.commands]\nfast = "long"')
    put(session, text, tmp_path)
    assert SiteReader(session, "small").as_file() == read(text, tmp_path)
