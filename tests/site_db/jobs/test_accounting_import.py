"""Slurm's accounting in the database of a site of nodes, with values worked out by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest
from sqlalchemy import event, func, select
from sqlalchemy.orm import Session

from scheduler import UserError
from site_db.exchange import import_nodes
from site_db.files.formats import zone_named
from site_db.history.stored_statistics import disagreements
from site_db.jobs.accounting_import import import_accounting
from site_db.jobs.logged import Tally
from site_db.jobs.past import past_jobs, what_arrived
from site_db.rows import insert_rows
from site_db.schema import (
    ExecutionHistoryRow,
    ExecutionStatisticsRow,
    JobClassRow,
    JobRow,
    MachineClassRow,
    SourceRow,
    UserRow,
)
from site_db.site_file.importing import put_site
from site_db.site_file.nodes import cluster_of, never_satisfied
from site_db.site_file.tables import SiteFile
from site_db.site_file.validation import errors
from site_db.sites import SiteReader, find_site
from tests.site_db.conftest import ON_SQLITE
from tests.site_db.site_texts import SMALL, changed, read

HEADER = "JobID|User|JobName|Partition|AllocCPUS|NodeList|Submit|Start|End|State|TimelimitRaw|ReqTRES"
CONF = """NodeName=n[01-10] CPUs=64 RealMemory=256000
NodeName=g1 CPUs=32 RealMemory=512000 Gres=gpu:a100:4
PartitionName=batch Nodes=n[01-10] MaxTime=1-0
PartitionName=gpu Nodes=g1
"""
LATE = 2_000_000_000.0
"""Now, in seconds since 1970."""


def at(minutes: float | None) -> str:
    if minutes is None:
        return "Unknown"
    seconds = round(60 * minutes)
    return f"2026-01-01T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


class Row(NamedTuple):
    """A row of accounting; times are minutes of a day."""

    number: str
    nodes: str
    begin: float | None
    end: float
    tres: str = "cpu=1,node=1"
    state: str = "COMPLETED"
    partition: str = "batch"
    limit_min: str = "120"
    program: str = "sim"
    cpus: int = 1

    def __str__(self) -> str:
        times = f"{at(self.begin)}|{at(self.begin)}|{at(self.end)}"
        head = f"{self.number}|ann|{self.program}|{self.partition}|{self.cpus}|{self.nodes}"
        return f"{head}|{times}|{self.state}|{self.limit_min}|{self.tres}"


def log_of(rows: Iterable[Row], folder: Path, name: str = "log.txt") -> Path:
    path = folder / name
    path.write_text("\n".join([HEADER, *map(str, rows)]) + "\n")
    return path


class Imported(NamedTuple):
    tally: Tally
    skipped: int
    notes: list[str]


def imported(session: Session, rows: Iterable[Row], folder: Path, name: str = "log.txt") -> Imported:
    tally = Tally()
    skipped, notes = import_accounting(session, "ours", log_of(rows, folder, name), tally, LATE)
    session.expire_all()
    return Imported(tally, skipped, notes)


def put_nodes(session: Session, folder: Path, text: str = CONF) -> None:
    path = folder / "slurm.conf"
    path.write_text(text)
    import_nodes(session, "ours", path, 0.0)
    session.expire_all()


def file_of(session: Session) -> SiteFile:
    return SiteReader(session, "ours").as_file()


def count_runs(session: Session) -> int:
    query = select(func.count()).select_from(ExecutionHistoryRow)
    return session.scalar(query.where(ExecutionHistoryRow.site_id == find_site(session, "ours").id)) or 0


def runs_by_machine_class(session: Session) -> dict[str, int]:
    run, machine_class = ExecutionHistoryRow, MachineClassRow
    query = select(machine_class.name, func.count()).join(run, run.machine_class_id == machine_class.id)
    return dict(session.execute(query.group_by(machine_class.name)).all())


# -- nodes that are inferred from the jobs ------------------------------------------------------------------


@ON_SQLITE
def test_64_one_core_jobs_at_a_time_make_a_node_with_64_cores(session: Session, tmp_path: Path) -> None:
    found = imported(session, (Row(str(k), "n01", 0, 60) for k in range(64)), tmp_path)
    assert found.notes == [
        "the sizes and partitions of 1 node are inferred from the jobs that ran there: a node has what was "
        "in use at a time; for the true ones, import slurm.conf (sil db import-slurm-conf)"
    ]
    file = file_of(session)
    (machine,), (partition,), (job_class,) = file.machines, file.partitions, file.job_classes
    assert (machine.names, machine.processors) == (("n01",), 64)
    assert (partition.name, partition.nodes) == ("batch", ("n01",))
    assert job_class.name == "ann/sim/1 node with 1 CPU/batch"
    assert job_class.request is not None
    assert (job_class.request.nodes, job_class.request.cores, job_class.request.time_limit_s) == (1, 1, 7200)
    assert count_runs(session) == 64
    assert list(errors(file)) == []


@ON_SQLITE
def test_a_job_of_two_nodes_requests_two_nodes_and_makes_no_cluster(session: Session, tmp_path: Path) -> None:
    pairs = [f"n[{k:02}-{k + 1:02}]" for k in range(1, 10, 2)]
    rows = [Row(str(k), pair, 0, 60, "cpu=8,node=2", cpus=8) for k, pair in enumerate(pairs)]
    imported(session, rows, tmp_path)
    file = file_of(session)
    assert file.clusters == ()
    assert [group.processors for group in file.machines] == [4]
    assert len(file.machines[0].names) == 10
    (job_class,) = file.job_classes
    assert job_class.request is not None
    assert (job_class.request.nodes, job_class.request.cores) == (2, 4)
    assert count_runs(session) == 5


@ON_SQLITE
def test_nodes_are_inferred_from_what_ran_at_a_time_in_the_time_zone_of_the_log(
    session: Session, tmp_path: Path
) -> None:
    """The second job starts after the first one has ended, when the clock shows 02:30 again."""
    log, day = tmp_path / "log.txt", "2026-10-25T"
    rows = (f"1|{day}01:50:00|{day}02:50:00|3600", f"2|{day}02:30:00|{day}03:10:00|2400")
    log.write_text("".join(f"{row}|COMPLETED|4|n1\n" for row in ("JobID|Start|End|ElapsedRaw", *rows)))
    log.write_text(log.read_text().replace("COMPLETED|4|n1", "State|NCPUS|NodeList", 1))
    import_accounting(session, "ours", log, Tally(), LATE, zone_named("Europe/Berlin"))
    assert {node.cores for node in cluster_of(file_of(session)).nodes.values()} == {4}


@ON_SQLITE
def test_an_inferred_node_is_in_every_partition_of_its_jobs_and_its_class_depends_on_hardware_only(
    session: Session, tmp_path: Path
) -> None:
    rows = [
        Row("1", "n[01-02]", 0, 60, "cpu=8,node=2", partition="batch"),
        Row("2", "n[02-03]", 60, 120, "cpu=8,node=2", partition="short"),
        Row("3", "n03", 120, 180, "cpu=4,node=1", partition="batch,short"),
    ]
    imported(session, rows, tmp_path)
    file = file_of(session)
    assert {table.name: table.nodes for table in file.partitions} == {
        "batch": ("n01", "n02", "n03"),
        "short": ("n02", "n03"),
    }
    assert [(group.machine_class, group.names) for group in file.machines] == [
        ("4-cpus", ("n01", "n02", "n03"))
    ]
    assert runs_by_machine_class(session) == {"4-cpus": 3}


def test_the_true_nodes_can_be_imported_afterwards(session: Session, tmp_path: Path) -> None:
    rows = [Row(str(k), "n01", 0, 60) for k in range(64)]
    imported(session, [*rows, Row("64", "n02", 0, 60, "cpu=4,node=1", cpus=4)], tmp_path)
    put_nodes(session, tmp_path)
    file = file_of(session)
    assert list(errors(file)) == []
    assert len(cluster_of(file).nodes) == 11
    assert count_runs(session) == 65
    assert list(disagreements(session, find_site(session, "ours").id)) == []
    # n01 had 64 cores already, but no memory: the runs are those of other hardware.
    (batch, gpu) = (group.machine_class for group in file.machines)
    assert (batch, gpu) == ("64-cpus-256000-mb", "32-cpus-512000-mb-4-a100")


# -- nodes of slurm.conf -----------------------------------------------------------------------------------


def test_runs_count_for_the_machine_class_of_the_nodes_they_ran_on(session: Session, tmp_path: Path) -> None:
    put_nodes(session, tmp_path)
    rows = [
        Row("1", "n[01-02]", 0, 60, "cpu=2,node=2"),
        Row("2", "g1", 0, 60, "cpu=1,node=1,gres/gpu=1", partition="gpu"),
    ]
    assert imported(session, rows, tmp_path).notes == []
    assert runs_by_machine_class(session) == {"64-cpus-256000-mb": 1, "32-cpus-512000-mb-4-a100": 1}
    before = file_of(session)
    assert len(before.machines) == 2
    assert {table.name for table in before.partitions} == {"batch", "gpu"}


@ON_SQLITE
@pytest.mark.parametrize("nodes", ["", "None assigned", "zz9"], ids=["no list", "none", "an unknown node"])
def test_a_run_on_none_of_the_sites_nodes_counts_for_the_first_that_satisfies_the_job(
    nodes: str, session: Session, tmp_path: Path
) -> None:
    put_nodes(session, tmp_path)
    rows = [
        Row("1", nodes, 0, 60, "cpu=1,node=1"),
        Row("2", nodes, 0, 60, "cpu=1,node=1,gres/gpu=1", partition="gpu"),
    ]
    imported(session, rows, tmp_path)
    assert runs_by_machine_class(session) == {"64-cpus-256000-mb": 1, "32-cpus-512000-mb-4-a100": 1}


@ON_SQLITE
def test_nodes_that_the_site_lacks_are_counted_with_the_line_of_the_first(
    session: Session, tmp_path: Path
) -> None:
    put_nodes(session, tmp_path)
    one = [Row("1", "n01", 0, 60), Row("2", "zz9", 0, 60)]
    tail = "a run on no other node counts for the first node that satisfies the job"
    assert imported(session, one, tmp_path).notes == [
        f"1 node is not at the site, the first is zz9 in line 3; {tail}"
    ]
    several = [Row("3", "zz8,g1", 0, 60, "cpu=2,node=2"), Row("4", "zz[6-8]", 0, 60, "cpu=3,node=3")]
    assert imported(session, several, tmp_path, "more.txt").notes == [
        f"3 nodes are not at the site, the first is zz8 in line 2; {tail}"
    ]
    assert runs_by_machine_class(session) == {"64-cpus-256000-mb": 3, "32-cpus-512000-mb-4-a100": 1}


@ON_SQLITE
def test_a_log_without_nodes_for_a_new_site_says_what_to_import(session: Session, tmp_path: Path) -> None:
    (note,) = imported(session, [Row("1", "", 0, 60)], tmp_path).notes
    assert note.startswith("no job names its nodes (NodeList), and the site has none")
    assert "sil db import-slurm-conf" in note


@ON_SQLITE
def test_requests_that_never_fit_are_counted_and_the_site_can_be_used(
    session: Session, tmp_path: Path
) -> None:
    put_nodes(session, tmp_path)
    rows = [
        Row("1", "n01", 0, 60, "cpu=65,node=1"),
        Row("2", "n01", 60, 120, "cpu=65,node=1"),
        Row("3", "n01", 120, 180, partition="closed"),
    ]
    assert imported(session, rows, tmp_path).notes == [
        "2 jobs, the first is job 1, request 1 node with 65 CPUs in partition batch, which the nodes cannot "
        "satisfy even if all are free; refused when they arrive",
        "job 3 requests partition closed, which the site does not have; refused when it arrives",
        "1 node has more CPUs in use at a time than there are: n01 has 64, and jobs use up to 65, first in "
        "line 2; expected jobs that share no CPU, so the definition of the nodes may be outdated",
    ]
    file = file_of(session)
    assert list(errors(file)) == []
    assert [name for name, _ in never_satisfied(file)] == [
        "ann/sim/1 node with 65 CPUs/batch",
        "ann/sim/1 node with 1 CPU/closed",
    ]


# -- jobs that did not complete ----------------------------------------------------------------------------

ENDS = ["TIMEOUT", "FAILED", "PREEMPTED", "NODE_FAIL", "OUT_OF_MEMORY", "CANCELLED by 7"]


def test_jobs_that_did_not_complete_are_demand_and_load_and_no_lesson_on_run_times(
    session: Session, tmp_path: Path
) -> None:
    """18 of 100 jobs; they ran for 2 minutes, the others for 10."""
    put_nodes(session, tmp_path)
    states = ["COMPLETED"] * 82 + [ENDS[k % 6] for k in range(18)]
    rows = [
        Row(str(k), "n01", k, k + (10 if state == "COMPLETED" else 2), state=state)
        for k, state in enumerate(states)
    ]
    found = imported(session, rows, tmp_path)
    assert (found.tally.used, found.tally.rows) == (100, 100)
    site_id = find_site(session, "ours").id
    arrived = what_arrived(session, site_id, "ours")
    assert arrived.jobs == 100
    assert arrived.per_s == pytest.approx(99 / (99 * 60))
    past = past_jobs(session, site_id, "ours")
    assert sum(job.run_s for job in past) == 82 * 600 + 18 * 120
    assert Counter(job.run_s for job in past) == {600.0: 82, 120.0: 18}
    assert count_runs(session) == 82
    whole_class = ExecutionStatisticsRow.machine_class_id.is_not(None)
    statistics = select(ExecutionStatisticsRow.count, ExecutionStatisticsRow.mean_s).where(whole_class)
    assert session.execute(statistics).all() == [(82, 600.0)]
    reasons = select(JobRow.reason, func.count()).where(JobRow.state == "failed").group_by(JobRow.reason)
    assert dict(session.execute(reasons).all()) == {end.split()[0]: 3 for end in ENDS}
    assert list(disagreements(session, site_id)) == []


@ON_SQLITE
def test_a_class_of_which_no_run_completed_is_expected_to_run_as_long_as_those_that_did_not(
    session: Session, tmp_path: Path
) -> None:
    put_nodes(session, tmp_path)
    rows = [
        Row("1", "n01", 0, 10, state="TIMEOUT", program="a"),
        Row("2", "n01", 0, 30, state="FAILED", program="a"),
        Row("3", "n01", 0, 10, state="FAILED", program="b"),
        Row("4", "n01", 0, 60, program="b"),
    ]
    imported(session, rows, tmp_path)
    staff_s = [table.sequential_s for table in file_of(session).job_classes]
    assert staff_s == [{"64-cpus-256000-mb": 20 * 60.0}, {}]


@ON_SQLITE
def test_jobs_that_never_ran_are_refused(session: Session, tmp_path: Path) -> None:
    put_nodes(session, tmp_path)
    rows = [
        Row("1", "n01", 0, 60),
        Row("2", "", 0, 0, state="CANCELLED"),
        Row("3", "", 0, 60, state="PENDING"),
        Row("4", "None assigned", None, 60, state="CANCELLED by 7"),
    ]
    assert dict(imported(session, rows, tmp_path).tally.refused) == {
        "the run time is zero": 1,
        "the job has not ended": 1,
        "the job was cancelled before it started": 1,
    }


# -- time limits -------------------------------------------------------------------------------------------


@ON_SQLITE
def test_the_time_limit_of_a_class_is_the_longest_that_its_partition_allows(
    session: Session, tmp_path: Path
) -> None:
    """An administrator may extend one job's limit beyond that of the partition: other jobs must still fit."""
    put_nodes(session, tmp_path)
    rows = [
        Row("1", "n01", 0, 60, limit_min="120", program="a"),
        Row("2", "n01", 0, 60, limit_min="60", program="a"),
        Row("3", "n01", 0, 60, limit_min="100000", program="b"),
        Row("4", "g1", 0, 60, limit_min="100000", program="c", partition="gpu"),
        Row("5", "n01", 0, 60, limit_min="UNLIMITED", program="d"),
    ]
    imported(session, rows, tmp_path)
    tables = [table.request for table in file_of(session).job_classes]
    limits = [None if table is None else table.time_limit_s for table in tables]
    assert limits == [7_200.0, 86_400.0, 6_000_000.0, None]
    more = [Row("6", "n01", 60, 90, limit_min="240", program="a"), Row("7", "n01", 60, 90, program="d")]
    imported(session, more, tmp_path, "more.txt")
    tables = [table.request for table in file_of(session).job_classes]
    limits = [None if table is None else table.time_limit_s for table in tables]
    assert limits == [14_400.0, 86_400.0, 6_000_000.0, 7_200.0]


# -- what logs may contain ---------------------------------------------------------------------------------


@ON_SQLITE
@pytest.mark.parametrize(
    "row",
    [
        Row("1", "n01", 0, 60, "cpu=1,node=1,gres/fpga=0,gres/gpu=0,license/matlab=0"),
        Row("1", "n01", 0, 60, "cpu=1,node=1,mem=0"),
        Row("1", "n01", 0, 60, partition="batch, gpu"),
        Row("1", "n01", 0, 60, "cpu=1,node=1,gres/gpu: a100=1"),
        Row("1", "n01", 0, 60, partition=""),
    ],
    ids=["amounts of nothing", "no memory", "partitions with a space", "a type with a space", "no partition"],
)
def test_odd_texts_are_read(row: Row, session: Session, tmp_path: Path) -> None:
    put_nodes(session, tmp_path, CONF.replace("gpu:a100:4", "gpu:a100:4,fpga:1"))
    assert imported(session, [row], tmp_path).tally.used == 1
    assert list(errors(file_of(session))) == []


@ON_SQLITE
@pytest.mark.parametrize(
    "tres", ["cpu=3000000000,node=1", "cpu=1,node=3000000000", "cpu=1,node=1,mem=2000000000P"]
)
def test_more_than_any_cluster_has_is_refused(tres: str, session: Session, tmp_path: Path) -> None:
    put_nodes(session, tmp_path)
    tally = imported(session, [Row("1", "n01", 0, 60), Row("2", "n01", 0, 60, tres)], tmp_path).tally
    assert dict(tally.refused) == {"its resources cannot be read: more than any cluster has": 1}


# -- logs that overlap -------------------------------------------------------------------------------------


def test_jobs_of_an_earlier_log_are_skipped_even_if_the_nodes_have_changed_since(
    session: Session, tmp_path: Path
) -> None:
    """With threads on cores, a job's request and so its class is another one."""
    rows = [Row(str(k), "n01", k, k + 60) for k in range(10)]
    assert imported(session, rows[:7], tmp_path).skipped == 0
    put_nodes(
        session, tmp_path, CONF.replace("CPUs=64", "CPUs=64 Sockets=2 CoresPerSocket=16 ThreadsPerCore=2")
    )
    found = imported(session, rows[4:], tmp_path, "next.txt")
    assert (found.tally.used, found.skipped) == (6, 3)
    assert count_runs(session) == 10
    assert [table.name for table in file_of(session).job_classes] == [
        "ann/sim/1 node with 1 CPU/batch",
        "ann/sim/1 node with 2 CPUs/batch",
    ]


def test_a_requeued_job_counts_twice_and_a_repeated_row_once(session: Session, tmp_path: Path) -> None:
    put_nodes(session, tmp_path)
    first, again = Row("1", "n01", 0, 60, state="NODE_FAIL"), Row("1", "n02", 90, 120)
    found = imported(session, [first, again, again], tmp_path)
    assert (found.tally.used, found.skipped, count_runs(session)) == (3, 1, 1)


def test_the_same_log_again_is_refused(session: Session, tmp_path: Path) -> None:
    imported(session, [Row("1", "n01", 0, 60)], tmp_path)
    with pytest.raises(UserError, match="the site 'ours' has the jobs of this file already"):
        imported(session, [Row("1", "n01", 0, 60)], tmp_path)


@ON_SQLITE
def test_a_site_of_machines_keeps_one_job_per_machine_and_says_so(session: Session, tmp_path: Path) -> None:
    put_site(session, read(changed('name = "small"', 'name = "ours"', SMALL), tmp_path))
    (note,) = imported(session, [Row("1", "f1", 0, 60), Row("2", "f[1-2]", 60, 90)], tmp_path).notes
    assert note.startswith("the site 'ours' has machines but no partitions: each job is assumed to have its")
    assert file_of(session).partitions == ()


# -- what arrived, from many jobs of many classes ----------------------------------------------------------


def put_jobs(session: Session, n_jobs: int, n_classes: int) -> int:
    """A site with as many jobs, a minute apart, of classes in turn. Returns its id."""
    name = f"with {n_jobs} jobs"
    put_site(session, SiteFile(name=name, machine_classes=(), job_classes=()))
    site_id = find_site(session, name).id
    source = SourceRow(site_id=site_id, kind="sacct", key="log")
    user = UserRow(site_id=site_id, name="ann", position=0, listed=False)
    session.add_all([source, user])
    session.flush()
    of_class = {"site_id": site_id, "description": "", "size": ""}
    classes = [{**of_class, "name": f"class {k}", "position": k} for k in range(n_classes)]
    insert_rows(session, JobClassRow, classes)
    ids = session.scalars(
        select(JobClassRow.id).where(JobClassRow.site_id == site_id).order_by(JobClassRow.position)
    ).all()
    common = {"site_id": site_id, "source_id": source.id, "user_id": user.id, "queue": "batch"}
    rows = [
        {
            **common,
            "serial": k + 1,
            "number": str(k),
            "job_class_id": ids[k % n_classes],
            "state": "done" if k % 5 else "failed",
            "reason": "",
            "submitted_unix_s": 60.0 * k,
            "preemptions": 0,
        }
        for k in range(n_jobs)
    ]
    insert_rows(session, JobRow, rows)
    return site_id


def statements(session: Session, site_id: int) -> int:
    """How many statements `what_arrived` needs."""
    seen: list[str] = []

    def note(connection: object, cursor: object, statement: str, *rest: object) -> None:
        seen.append(statement)

    engine = session.get_bind()
    event.listen(engine, "before_cursor_execute", note)
    try:
        what_arrived(session, site_id, "ours")
    finally:
        event.remove(engine, "before_cursor_execute", note)
    return len(seen)


def test_what_arrived_needs_as_many_statements_for_few_jobs_as_for_many_of_many_classes(
    session: Session,
) -> None:
    few, many = put_jobs(session, 100, 10), put_jobs(session, 8_000, 4_500)
    assert statements(session, few) == statements(session, many) <= 3
    arrived = what_arrived(session, many, "ours")
    assert arrived.jobs == 8_000
    assert arrived.per_s == pytest.approx(1 / 60)
    assert Counter(round(8_000 * share) for share in arrived.job_classes.values()) == {2: 3_500, 1: 1_000}
    assert arrived.queues == {"batch": 1.0}
