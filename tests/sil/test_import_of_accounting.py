"""Slurm's accounting into the database of a site of nodes: an operator's findings, with the true values."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.node_request import Node
from site_db import sites, store
from site_db.jobs.arrived import what_arrived
from site_db.jobs.logs.logged_job import LoggedJob
from site_db.jobs.logs.occupancy import Occupancy
from site_db.jobs.logs.sacct import EXPECTED
from site_db.jobs.logs.sacct_command import COLUMNS
from site_db.jobs.logs.tres import Tres
from site_db.jobs.past import past_jobs
from site_db.store import parse_address
from tests.sil.test_cli import sil

pytestmark = pytest.mark.usefixtures("in_this_process", "without_reports")

HEADER = "JobID|User|JobName|Partition|AllocCPUS|NodeList|Submit|Start|End|State|TimelimitRaw"
DAY = "2026-01-01T"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert sil("db", "init").exit_code == 0


def row(
    number: object, cpus: int, nodes: str, state: str = "COMPLETED", user: str = "ann", hours: str = "00 01"
) -> str:
    start, end = hours.split()
    at = f"{DAY}00:00:00|{DAY}{start}:00:00|{DAY}{end}:00:00"
    return f"{number}|{user}|sim|batch|{cpus}|{nodes}|{at}|{state}|90"


def imported(*rows: str, to: str = "site.db#lab") -> str:
    """What the import prints."""
    Path("sacct.txt").write_text("\n".join((HEADER, *rows)) + "\n")
    done = sil("db", "import-sacct", "sacct.txt", "--db", to)
    assert done.exit_code == 0, done.output
    return " ".join((done.stdout + done.stderr).split())


def with_conf(text: str) -> None:
    Path("slurm.conf").write_text(text)
    assert sil("db", "import-slurm-conf", "slurm.conf", "--db", "site.db#lab").exit_code == 0


def run(jobs: int, *schedulers: str) -> pl.DataFrame:
    names = ", ".join(f"'{name}'" for name in schedulers)
    text = f"name = 'x'\nsite = 'lab'\nschedulers = [{names}]\n[workload]\njobs = {jobs}\n"
    Path("x.toml").write_text(text)
    done = sil("run", "x.toml", "--site", "site.db#lab", "--out", "out")
    assert done.exit_code == 0, done.output
    return pl.read_csv("out/jobs.csv", schema_overrides={"allocated_resources": pl.String})


CONF_OF_ONE = "NodeName=n01 CPUs=64\nPartitionName=batch Nodes=n01\n"


@pytest.mark.parametrize("conf", [None, CONF_OF_ONE], ids=["inferred", "slurm.conf"])
def test_64_jobs_of_one_core_that_shared_a_node_share_it_again(conf: str | None) -> None:
    """A makespan of 3,600 s, not 64 times that."""
    if conf is not None:
        with_conf(conf)
    imported(*(row(k, 1, "n01") for k in range(64)))
    jobs = run(64, "fcfs", "easy", "conservative")
    assert (
        jobs.group_by("scheduler").agg(pl.col("finish_time").max())["finish_time"].to_list() == [3600.0] * 3
    )


def test_a_job_on_two_nodes_runs_for_its_own_time_on_two_nodes() -> None:
    """3,600 s on 2 nodes, not 720 s on all 10."""
    imported(*(row(k, 128, f"n[{2 * k - 1:02}-{2 * k:02}]") for k in range(1, 6)))
    jobs = run(1, "fcfs")
    assert jobs.select("execution_time", "allocated_resources").rows() == [(3600.0, "0-1")]
    # And five of them run beside each other.
    assert run(5, "fcfs")["finish_time"].max() == 3600.0


def test_jobs_that_did_not_complete_are_demand_and_load_but_no_lesson_on_run_times() -> None:
    with_conf(CONF_OF_ONE)
    states = ["COMPLETED"] * 6 + [
        "TIMEOUT",
        "FAILED",
        "PREEMPTED",
        "NODE_FAIL",
        "CANCELLED by 7",
        "OUT_OF_MEMORY",
    ]
    rows = [row(k, 1, "n01", state, hours="00 01" if k < 6 else "00 03") for k, state in enumerate(states)]
    imported(
        *rows,
        row(99, 1, "n01", "FAILED", user="bob", hours="00 02").replace(
            "T00:00:00|2026-01-01T00", "T01:00:00|2026-01-01T01", 1
        ),
    )
    engine = store.open_database(parse_address("site.db"))
    with store.reading(engine) as session:
        site = sites.find_site(session, "lab")
        assert what_arrived(session, site.id, "lab").jobs == 13
        assert sum(job.run_s for job in past_jobs(session, site.id, "lab")) == 6 * 3600 + 6 * 3 * 3600 + 3600
    with sqlite3.connect("site.db") as connection:
        assert connection.execute("SELECT count, mean_s FROM execution_statistics").fetchall() == [
            (6, 3600.0)
        ]
    # Bob's class has no completed run: it is expected to run as long as the one that failed.
    shown = " ".join(sil("db", "show", "--job-class", "bob/sim/1 node with 1 CPU/batch").stdout.split())
    assert "3,600.0" in shown
    assert "staff" in shown


def test_a_node_is_in_every_partition_and_of_the_class_of_its_hardware() -> None:
    """Though its first job was in one of two partitions."""
    imported(row(1, 4, "n01"), row(2, 4, "n01").replace("batch", "short"), row(3, 4, "n02"))
    exported = sil("db", "export").stdout
    assert exported.count("[[machine_classes]]") == 2  # n01 had eight CPUs in use, n02 four
    assert 'name = "batch"\nnodes = ["n[01-02]"]' in exported
    assert 'name = "short"\nnodes = ["n01"]' in exported


def test_the_import_names_undeclared_licences_and_time_limits_that_are_missing_or_exceeded() -> None:
    """As a replay of the same log does."""
    with_conf(CONF_OF_ONE)
    rows = [row(1, 1, "n01"), row(2, 1, "n01", hours="00 02"), row(3, 1, "n01").removesuffix("90")]
    licensed = [f"{one}|cpu=1,node=1,license/abaqus=2" for one in rows[:1]]
    Path("sacct.txt").write_text("\n".join([f"{HEADER}|ReqTRES", *licensed, *(f"{x}|" for x in rows[1:])]))
    done = sil("db", "import-sacct", "sacct.txt")
    printed = " ".join(done.stderr.split())
    assert "1 job: abaqus is requested, which the cluster does not declare" in printed
    assert "1 job ran for longer than the time limit" in printed
    assert "1 job without a time limit" in printed


def test_the_recommended_columns_are_the_same_everywhere() -> None:
    document = Path(__file__).parents[2] / "docs" / "nodes.md"
    for text in (document.read_text(), EXPECTED, sil("db", "import-sacct", "--help").stdout):
        assert COLUMNS in "".join(text.split())
    assert COLUMNS.replace(",", "|") in document.read_text()
    assert "sil db import-sacct --help" in " ".join(sil("replay", "--help").stdout.replace("│", "").split())


def test_cpus_that_were_used_twice_are_reported_with_node_amounts_and_line() -> None:
    with_conf(CONF_OF_ONE)
    printed = imported(
        row(1, 40, "n01"), row(2, 24, "n01"), row(3, 1, "n01"), row(4, 64, "n01", hours="01 02")
    )
    assert (
        "1 node has more CPUs in use at a time than there are: n01 has 64, and jobs use up to 65" in printed
    )
    assert "first in line 4" in printed


def test_jobs_that_follow_each_other_within_a_second_use_no_cpu_twice() -> None:
    with_conf(CONF_OF_ONE)
    assert "more CPUs" not in imported(row(1, 64, "n01"), row(2, 64, "n01", hours="01 02"))


def test_nodes_that_the_site_lacks_are_reported_and_the_jobs_are_recorded() -> None:
    with_conf(CONF_OF_ONE)
    printed = imported(row(1, 4, "n07"), row(2, 4, ""))
    assert "1 nodes are not at the site, the first is n07 in line 2" in printed or "1 node is not" in printed
    assert "2 of 2 rows" in printed


def test_without_any_node_the_import_says_that_nothing_can_be_simulated() -> None:
    assert "no job names its nodes (NodeList)" in imported(row(1, 4, ""))


def test_a_job_in_two_logs_is_recorded_once() -> None:
    with_conf(CONF_OF_ONE)
    imported(row(1, 4, "n01"), row(2, 4, "n01"))
    assert "Left out: 1 (recorded before)" in imported(row(2, 4, "n01"), row(3, 4, "n01"))


def test_importing_the_same_slurm_conf_again_changes_nothing() -> None:
    with_conf(CONF_OF_ONE)
    imported(row(1, 4, "n01"))
    before = sil("db", "export").stdout
    with_conf(CONF_OF_ONE)
    assert sil("db", "export").stdout == before
    assert "agree with its history of 1 runs" in sil("db", "check").stdout


def test_nodes_of_scontrol_are_in_the_partitions_that_they_name() -> None:
    Path("nodes.txt").write_text("NodeName=n1 CPUTot=8 RealMemory=1000 Partitions=batch,all\n")
    assert sil("db", "import-slurm-conf", "nodes.txt", "--db", "site.db#lab").exit_code == 0
    exported = sil("db", "export").stdout
    assert 'name = "all"\nnodes = ["n1"]' in exported
    assert 'name = "batch"\nnodes = ["n1"]' in exported


def test_nodes_without_any_partition_are_rejected() -> None:
    Path("slurm.conf").write_text("NodeName=n1 CPUs=8\n")
    done = sil("db", "import-slurm-conf", "slurm.conf", "--db", "site.db#lab")
    assert done.exit_code == 2
    assert "slurm.conf: there is no partition, which jobs are submitted to" in " ".join(done.stderr.split())


def test_a_job_that_was_cancelled_before_it_started_is_left_out_with_this_reason() -> None:
    with_conf(CONF_OF_ONE)
    never = f"2|ann|sim|batch|1|None assigned|{DAY}00:00:00|Unknown|{DAY}01:00:00|CANCELLED by 7|90"
    assert "Refused: 1 (the job was cancelled before it started; line 3)" in imported(row(1, 1, "n01"), never)


def test_show_lists_partitions_and_check_finds_contradictions() -> None:
    with_conf(
        "Licenses=matlab:5\nNodeName=g[1-2] CPUs=8 Gres=gpu:a100:4\nPartitionName=gpu Nodes=ALL MaxTime=60\n"
    )
    shown = sil("db", "show").stdout
    assert "8 a100" in shown
    assert "3,600" in shown
    assert "matlab" in shown
    with sqlite3.connect("site.db") as connection:
        connection.execute("DELETE FROM partition_node")
    done = sil("db", "check")
    assert done.exit_code == 1
    assert "partition 'gpu' has no nodes" in done.stderr


# -- occupancy against a version that looks at every second -------------------------------------------


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from("ab"), min_size=1, max_size=2, unique=True),
            st.integers(1, 4),
            st.integers(0, 6),
            st.integers(1, 4),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_occupancy_is_that_of_every_second(drawn: list[tuple[list[str], int, int, int]]) -> None:
    occupancy, jobs = Occupancy(), []
    for line, (nodes, each, start, length) in enumerate(drawn, start=2):
        cpus = each * len(nodes)
        jobs.append((nodes, each, start, start + length))
        occupancy.add(
            LoggedJob(
                str(line),
                "u",
                "p",
                "batch",
                cpus,
                tuple(nodes),
                0.0,
                float(start),
                float(start + length),
                resources=Tres(cpus, len(nodes)),
                line=line,
            )
        )
    most = {
        name: max(
            sum(each for nodes, each, start, end in jobs if name in nodes and start <= second < end)
            for second in range(11)
        )
        for name in {name for nodes, *_ in jobs for name in nodes}
    }
    assert {name: node.cores for name, node in occupancy.cluster().nodes.items()} == most
    small = {name: Node(cores - 1) for name, cores in most.items()}
    assert {one.node: one.used for one in occupancy.overbooked(small)} == most
    assert list(occupancy.overbooked({name: Node(cores) for name, cores in most.items()})) == []
