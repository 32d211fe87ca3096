"""Nodes of slurm.conf in a site's database, and what becomes of its past jobs."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable
from pathlib import Path

import polars as pl
import pytest

from sil.settings.experiment_file import read_experiment
from sil.site.past import past_log
from sil.site.site_in_use import SiteSource
from site_db import store
from site_db.site_file.nodes import cluster_of
from site_db.sites import SiteReader
from site_db.store import parse_address
from tests.commands import sil, succeeded
from tests.sil.cli.test_database_commands import done
from tests.site_db.jobs.test_accounting_import import ENDS, Row, log_of
from tests.site_db.site_texts import NODES

pytestmark = [pytest.mark.usefixtures("in_this_process", "without_reports")]

CONF = """Licenses=matlab:5
NodeName=n[01-10] CPUs=64 RealMemory=256000
NodeName=g1 CPUs=32 RealMemory=512000 Gres=gpu:h100:2,gpu:a100:4
PartitionName=batch Nodes=n[01-10] MaxTime=1-0 DefaultTime=90
PartitionName=gpu Nodes=g1 OverSubscribe=EXCLUSIVE MaxNodes=1
"""


@pytest.fixture
def here(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty database in an empty folder."""
    monkeypatch.delenv("SIL_DATABASE", raising=False)
    monkeypatch.setenv("COLUMNS", "1000")
    (here / "slurm.conf").write_text(CONF)
    done("init")
    return here


def import_log(rows: Iterable[Row], folder: Path) -> None:
    done("import-sacct", log_of(rows, folder), "--db", "site.db#ours")


def jobs_of(experiment: str, folder: Path) -> pl.DataFrame:
    """The table of jobs of an experiment on the site, of which there may be several."""
    out = folder / f"out-{len([*folder.glob('out-*')])}"
    (folder / "experiment.toml").write_text(f'name = "trial"\nsite = "from the database"\n{experiment}')
    succeeded("run", "experiment.toml", "--site", "site.db", "--out", out)
    return pl.read_csv(out / "jobs.csv", schema_overrides={"allocated_resources": pl.String})


@pytest.mark.parametrize("nodes", ["inferred", "of slurm.conf"])
def test_64_jobs_of_one_core_that_shared_a_node_share_it_again(nodes: str, here: Path) -> None:
    """For a makespan of 3,600 s, not 64 times that."""
    if nodes == "of slurm.conf":
        (here / "one.conf").write_text("NodeName=n01 CPUs=64\nPartitionName=batch Nodes=n01\n")
        done("import-slurm-conf", "one.conf", "--db", "site.db#ours")
    import_log((Row(str(k), "n01", 0, 60) for k in range(64)), here)
    jobs = jobs_of('schedulers = ["fcfs", "easy", "conservative"]\n[workload]\njobs = 64\n', here)
    makespans = jobs.group_by("scheduler").agg(pl.col("finish_time").max())["finish_time"]
    assert makespans.to_list() == [3_600.0] * 3


def test_a_job_on_two_nodes_runs_for_its_own_time_on_two_nodes(here: Path) -> None:
    """3,600 s on 2 nodes, not 720 s on all 10; and five such jobs run beside each other."""
    pairs = [f"n[{k:02}-{k + 1:02}]" for k in range(1, 10, 2)]
    import_log((Row(str(k), pair, 0, 60, "cpu=128,node=2", cpus=128) for k, pair in enumerate(pairs)), here)
    jobs = jobs_of('schedulers = ["fcfs"]\n[workload]\njobs = 5\n', here)
    assert jobs.select("execution_time", "finish_time").rows() == [(3_600.0, 3_600.0)] * 5
    assert sorted(jobs["allocated_resources"]) == ["0-1", "2-3", "4-5", "6-7", "8-9"]


def test_the_past_of_a_site_has_the_load_of_jobs_that_did_not_complete(here: Path) -> None:
    """18 of 100 jobs ran for 2 minutes, the others for 10, one core each; the last came after 99 minutes."""
    done("import-slurm-conf", "slurm.conf", "--db", "site.db#ours")
    states = ["COMPLETED"] * 82 + [ENDS[k % 6] for k in range(18)]
    rows = (
        Row(str(k), "n01", k, k + (10 if state == "COMPLETED" else 2), state=state)
        for k, state in enumerate(states)
    )
    import_log(rows, here)
    engine = store.open_database(parse_address("site.db"))
    with store.reading(engine) as session:
        file = SiteReader(session, "ours").as_file()
        log = past_log(session, file, cluster_of(file), None)
    engine.dispose()
    assert (len(log.jobs), log.span_s) == (100, 99 * 60)
    assert log.load == pytest.approx((82 * 600 + 18 * 120) / (672 * 99 * 60))
    assert sorted(log.jobs["run_s"].to_list()) == [120.0] * 18 + [600.0] * 82


def test_jobs_that_the_nodes_cannot_satisfy_any_more_are_refused_and_the_others_run(here: Path) -> None:
    done("import-slurm-conf", "slurm.conf", "--db", "site.db#ours")
    rows = [
        Row("1", "n01", 0, 60),
        Row("2", "g1", 0, 60, "cpu=1,node=1,gres/gpu=1", partition="gpu"),
        Row("3", "n01", 0, 60, "cpu=60,node=1", cpus=60),
    ]
    import_log(rows, here)
    (here / "new.conf").write_text(
        "NodeName=n[01-10] CPUs=48 RealMemory=256000\nPartitionName=batch Nodes=ALL\n"
    )
    result = sil("db", "import-slurm-conf", "new.conf")
    assert "such jobs are refused when they arrive (1 of 2 classes" in " ".join(result.stderr.split())
    jobs = jobs_of('schedulers = ["easy"]\n[workload]\njobs = 3\norder = "cyclic"\n', here)
    assert jobs.select("job_class", "execution_time").rows() == [("ann/sim/1 node with 1 CPU/batch", 3_600.0)]
    (refusals,) = json.loads((here / "out-0" / "summary.json").read_text())["refusals"]
    assert refusals.startswith("easy: 2 of 3 jobs were refused")
    found = succeeded("db", "check")
    assert len(found.stderr.strip().splitlines()) == 2
    assert "requests 1 node with 60 CPUs in partition batch, which the nodes cannot satisfy" in found.stderr


def test_an_export_stands_alone_though_its_times_are_those_of_past_jobs(here: Path) -> None:
    """A partition of the past is gone, which is said with the line of the request."""
    done("import-slurm-conf", "slurm.conf", "--db", "site.db#ours")
    import_log(
        [Row("1", "n01", 0, 90, "cpu=1,node=1"), Row("2", "n01", 0, 60, "cpu=2,node=1", partition="old")],
        here,
    )
    done("export", "--out", "site.toml")
    done("init", "--db", "other.db")
    imported = succeeded("db", "import", "site.toml", "--db", "other.db")
    (note,) = imported.stderr.splitlines()
    assert re.match(
        r"Note: site.toml, line \d+: job class .*partition old, which the site does not have", note
    )
    assert done("export", "--db", "other.db") == (here / "site.toml").read_text()
    shown = json.loads(done("show", "--db", "other.db", "--json"))
    assert {row["expected_s"] for row in shown["expected_times"]} == {5400.0, 3600.0}


def test_nodes_that_are_down_are_left_out_of_replays_and_experiments_until_they_are_up(here: Path) -> None:
    (here / "slurm.conf").write_text(
        "NodeName=n1 CPUs=4\nNodeName=n2 CPUs=4 State=DOWN\nPartitionName=batch Nodes=n[1-2]\n"
    )
    printed = sil("db", "import-slurm-conf", "slurm.conf", "--db", "site.db#ours")
    note = "1 node is down: n2; experiments start without it, until: sil db state NODE up"
    assert note in " ".join(printed.stderr.split())
    log = log_of([Row(str(k), "n1", 0, 60, "cpu=4,node=1", cpus=4) for k in (1, 2)], here)
    done("import-sacct", log, "--db", "site.db#ours")
    one_node = [0.0, 3600.0]
    assert sorted(jobs_of('schedulers = ["easy"]\n[history]\n', here)["starting_time"]) == one_node
    for nodes in (("--nodes", "slurm.conf"), ("--site", "site.db")):
        replayed = sil("replay", log, *nodes, "--scheduler", "easy", "--out", "r", "--no-report")
        assert "1 node left out, since it is down: n2" in replayed.stderr
        assert pl.read_csv("r/easy/jobs.csv")["starting_time"].to_list() == one_node
    done("state", "n2", "up")
    assert jobs_of('schedulers = ["easy"]\n[history]\n', here)["starting_time"].to_list() == [0.0, 0.0]


OVERLAPPING = """NodeName=n[1-2] CPUs=4
PartitionName=low Nodes=n[1-2]
PartitionName=high Nodes=n1
PartitionName=other Nodes=n[1-2]
"""
QUEUES = """schedulers = ["fcfs"]
[history]
[[queues]]
name = "low"
priority = 1
[[queues]]
name = "high"
priority = 2
displaces = ["low"]
"""


def test_a_job_of_several_partitions_has_the_queue_of_the_best_one_and_its_rights(here: Path) -> None:
    """Both nodes are full with a job of the queue low when a job for either partition arrives."""
    (here / "slurm.conf").write_text(OVERLAPPING)
    done("import-slurm-conf", "slurm.conf", "--db", "site.db#ours")
    rows = [
        Row("1", "n[1-2]", 0, 60, "cpu=8,node=2", partition="low", cpus=8),
        Row("2", "n1", 10, 30, "cpu=4,node=1", partition="low,high", cpus=4),
    ]
    import_log(rows, here)
    jobs = jobs_of(QUEUES, here).sort("job_id")
    assert jobs.select("queue", "starting_time").rows() == [("low", 1800.0), ("high", 600.0)]


def test_jobs_of_a_partition_without_a_queue_run_after_the_others_and_a_note_says_so(here: Path) -> None:
    (here / "slurm.conf").write_text(OVERLAPPING)
    done("import-slurm-conf", "slurm.conf", "--db", "site.db#ours")
    nodes, tres = "n[1-2]", "cpu=8,node=2"
    rows = [
        Row(str(k), nodes, k, 60, tres, partition=p, cpus=8) for k, p in enumerate(("low", "other", "low"))
    ]
    import_log(rows, here)
    (here / "experiment.toml").write_text(f'name = "x"\nsite = "from the database"\n{QUEUES}')
    result = sil("run", "experiment.toml", "--site", "site.db", "--out", "out")
    assert "no queue is named like a partition of the jobs of other: they have priority 0" in " ".join(
        (result.stdout + result.stderr).split()
    )
    jobs = pl.read_csv("out/jobs.csv").sort("starting_time")
    assert jobs["queue"].to_list() == ["low", "low", "other"]


def test_a_job_of_several_partitions_is_demand_of_the_one_that_has_its_nodes(here: Path) -> None:
    (here / "slurm.conf").write_text(OVERLAPPING)
    done("import-slurm-conf", "slurm.conf", "--db", "site.db#ours")
    rows = [
        Row("1", "n1", 0, 60, partition="high,low"),
        Row("2", "n2", 0, 60, partition="high,low"),
        Row("3", "", 0, 60, partition="high,low"),
    ]
    import_log(rows, here)
    found = json.loads(done("demand", "--json"))["demand"]
    assert {row["partition"]: row["jobs"] for row in found} == {"high": 2, "low": 1}


def test_after_all_nodes_are_replaced_jobs_run_as_long_as_on_the_old_ones(here: Path) -> None:
    """Nothing else is known of the new hardware."""
    done("import-slurm-conf", "slurm.conf", "--db", "site.db#ours")
    import_log((Row(str(k), "n01", 0, 60) for k in range(3)), here)
    (here / "new.conf").write_text(CONF.replace("CPUs=64", "CPUs=96").replace("CPUs=32", "CPUs=48"))
    done("import-slurm-conf", "new.conf")
    jobs = jobs_of('schedulers = ["easy"]\n[workload]\njobs = 2\n', here)
    assert jobs["execution_time"].to_list() == [3_600.0, 3_600.0]


def test_a_site_file_of_nodes_and_its_database_give_the_same_site(here: Path) -> None:
    (here / "nodes.toml").write_text(NODES)
    done("import", "nodes.toml")
    (here / "experiment.toml").write_text(
        'name = "trial"\nsite = "nodes.toml"\nschedulers = ["easy"]\n[workload]\njobs = 5\n'
    )
    experiment = read_experiment(here / "experiment.toml")
    of_file = SiteSource(experiment, here, None).snapshot(here / "one.db")
    of_database = SiteSource(experiment, here, parse_address("site.db")).snapshot(here / "two.db")
    assert of_file.digest() == of_database.digest()


def test_importing_slurm_conf_prints_the_nodes_and_how_they_are_modelled(here: Path) -> None:
    printed = done("import-slurm-conf", "slurm.conf", "--db", "site.db#ours").splitlines()
    assert printed == [
        "site.db: the site 'ours' is new: 11 nodes with 672 CPUs and 6 GPUs.",
        "Nodes: 10 with 64 CPUs, 256,000 MiB; 1 with 32 CPUs, 512,000 MiB, 4 a100 GPUs, 2 h100 GPUs.",
        "Jobs share nodes by CPUs, memory and GPUs; partitions, by number of nodes: batch (10), gpu (1, "
        "exclusive); the whole site has 5 matlab.",
    ]
    assert "the site 'ours' is updated: 11 nodes" in done("import-slurm-conf", "slurm.conf")
    text = done("export")
    done("import-slurm-conf", "slurm.conf")
    assert done("export") == text
    assert done("check").startswith("The statistics of the site 'ours' agree")


def test_a_partition_without_nodes_is_kept_and_its_jobs_are_refused(here: Path) -> None:
    (here / "soon.conf").write_text(CONF + 'PartitionName=soon Nodes=""\n')
    done("import-slurm-conf", "soon.conf", "--db", "site.db#ours")
    text = done("export")
    assert "nodes = []" in text
    (here / "exported.toml").write_text(text)
    done("import", "exported.toml", "--db", "site.db")
    assert done("export") == text
    (here / "sacct.txt").write_text(
        "JobID|User|State|Submit|Start|End|NCPUS|NNodes|Partition\n"
        "1|ann|COMPLETED|2026-03-02T09:00:00|2026-03-02T09:00:00|2026-03-02T10:00:00|2|1|soon\n"
        "2|ann|COMPLETED|2026-03-02T09:00:00|2026-03-02T09:00:00|2026-03-02T10:00:00|2|1|batch\n"
    )
    names = ("--nodes", "soon.conf", "--scheduler", "fcfs", "--no-report", "--out", "replayed")
    assert "fcfs: 1 of 2 jobs was refused" in sil("replay", "sacct.txt", *names).stderr


def test_show_lists_what_nodes_and_partitions_have_and_check_finds_contradictions(here: Path) -> None:
    done("import-slurm-conf", "slurm.conf", "--db", "site.db#ours")
    shown = done("show")
    assert "4 a100" in shown
    assert "86,400" in shown
    assert "matlab" in shown
    with sqlite3.connect("site.db") as connection:
        connection.execute("DELETE FROM partition_node")
    found = sil("db", "check")
    assert found.exit_code == 1
    assert "no partition has nodes" in found.stderr
