"""Replays under Slurm's controller: its decisions are carried out, and it is notified of what happens."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import Result

from scheduler.node_request import Node, Partition, Request
from sil.outcome.jobs import JOBS
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.settings.log_events import Command, Events
from sil.settings.replays import Engine
from sil.slurm.installation import installed
from sil.slurm.running import credential_used
from sil.trace.facts import TRACE, Fact
from sil.trace.held import MACHINES_AS_TEXT
from sil.trace.reading import read_facts
from sil.workload.job_log import log_on_nodes
from sil.workload.lublin import Lublin
from sil.workload.swf_writing import write_swf
from site_db.site_file.cluster import SiteNodes
from site_db.slurm.policy import read_policy
from site_db.slurm_conf import read_cluster
from tests.commands import sil, the_sentence
from tests.sil.experiment.test_experiment import ROOT
from tests.sil.experiment.test_replay import FIVE, Row, log_of
from tests.sil.slurm.installed import needs_slurm

pytestmark = needs_slurm

LIKE_EASY = (
    "slurm (SchedulerParameters=bf_job_part_count_reserve=1,bf_window=10080,bf_max_job_test=5000,"
    "default_queue_depth=10000,batch_sched_delay=0,bf_interval=5)"
)
"""Backfilling with a reservation for the first job only, and without pauses."""
CONF = """
ClusterName=site
SlurmctldHost=head
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
NodeName=a[1-2] CPUs=4 RealMemory=4000 NodeAddr=10.1.1.[1-2]
NodeName=b CPUs=8 RealMemory=4000
PartitionName=all Nodes=ALL Default=YES
"""


def rows(*jobs: tuple[int, int, int, int]) -> list[Row]:
    """Of a log: submission, run time, processors and estimate of each job."""
    return [
        (n, float(at), float(run), size, float(limit), 1) for n, (at, run, size, limit) in enumerate(jobs, 1)
    ]


def replayed(folder: Path, name: str, *options: str) -> Result:
    return sil(
        *("replay", folder / "log.swf", "--scheduler", name, "--out", folder / "out", "--workers", "1"),
        *options,
    )


def starts_under(name: str, replay: Replay, folder: Path) -> pl.DataFrame:
    facts = replay.facts(resolve(name), folder / "printed")
    assert Fact.FAULT not in facts["event"].to_list(), facts.tail(1).to_dicts()
    return (
        facts.filter(pl.col("event") == Fact.RUN_STARTED)
        .select("job", "time_s", MACHINES_AS_TEXT)
        .sort("job")
    )


def test_it_starts_jobs_when_easy_does_but_for_the_time_it_takes(tmp_path: Path) -> None:
    log = Lublin().jobs(30, 16, np.random.default_rng(5)).at_load(0.9)
    replay = Replay(log, engine=Engine.HARNESS)
    easy, slurm = (starts_under(name, replay, tmp_path) for name in ("easy", LIKE_EASY))
    assert len(slurm) == len(log.jobs)
    later_s = slurm["time_s"] - easy["time_s"]
    assert (later_s.abs() <= 10.0).mean() > 0.8, later_s.to_list()


def test_slurm_backfill_starts_jobs_when_the_controller_does_but_for_the_time_it_takes(
    tmp_path: Path,
) -> None:
    """The controller takes a second at each end of a run, and up to an interval before a cycle."""
    rng, n_jobs = np.random.default_rng(1), 36
    nodes = {f"n{n}": Node(4, partitions=frozenset({"p"})) for n in range(1, 17)}
    cluster = SiteNodes(nodes, {"p": Partition("p")}, {}, has_memory=False)
    requests = [Request(int(2 ** rng.integers(0, 5)), 4) for _ in range(n_jobs)]
    limits_s = 60.0 * rng.choice([1, 2, 5, 10, 20], n_jobs)
    runs_s = np.ceil(limits_s * rng.uniform(0.1, 1.0, n_jobs))
    jobs = [
        (k + 1, 30.0 * k, runs_s[k], 4 * request.chunks, limits_s[k], 1, k)
        for k, request in enumerate(requests)
    ]
    replay = Replay(log_on_nodes("log", jobs, cluster, requests), engine=Engine.HARNESS)
    quick = "SchedulerParameters=bf_interval=5,batch_sched_delay=0,bf_window_linear=1"
    names = f"slurm ({quick})", "slurm_backfill(bf_interval=5)", "conservative"
    slurm, same, other = (starts_under(name, replay, tmp_path)["time_s"].to_numpy() for name in names)
    assert (abs(same - slurm) <= 60.0).mean() > 0.9, same - slurm
    assert (abs(other - slurm) <= 60.0).mean() < 0.7, other - slurm


@pytest.mark.long
def test_slurm_backfill_starts_jobs_of_several_partitions_where_and_when_the_controller_does(
    tmp_path: Path,
) -> None:
    """In the controller, a partition that has stopped does not stop all of another with the same nodes."""
    rng, n_jobs = np.random.default_rng(1), 40
    lines = (
        "ClusterName=c\nSelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nNodeName=n[1-7] CPUs=4\n"
        "SchedulerParameters=bf_interval=5,batch_sched_delay=0,bf_window_linear=1\n"
        "PartitionName=p Nodes=n[1-3] PriorityTier=1\nPartitionName=q Nodes=n[4-5] PriorityTier=3\n"
        "PartitionName=r Nodes=n[6-7] PriorityTier=2\n"
    )
    (tmp_path / "slurm.conf").write_text(lines)
    cluster = replace(read_cluster(tmp_path / "slurm.conf"), policy=read_policy([tmp_path / "slurm.conf"]))
    named = [frozenset(rng.choice(["p", "q", "r"], rng.integers(1, 4), replace=False)) for _ in range(n_jobs)]
    requests = [Request(int(rng.integers(1, 3)), 4, partitions=names) for names in named]
    limits_s = 60.0 * rng.choice([1, 2, 5, 10], n_jobs)
    runs_s = np.ceil(limits_s * rng.uniform(0.1, 1.0, n_jobs))
    rows = [
        (k + 1, 30.0 * k, runs_s[k], 4 * request.chunks, limits_s[k], 1, k)
        for k, request in enumerate(requests)
    ]
    replay = Replay(log_on_nodes("log", rows, cluster, requests), engine=Engine.HARNESS)
    names = f"slurm: {tmp_path / 'slurm.conf'}", "slurm_backfill(bf_interval=5)", "conservative"
    slurm, same, other = (starts_under(name, replay, tmp_path) for name in names)
    assert _share_alike(same, slurm) > 0.95, list(zip(slurm.rows(), same.rows(), strict=True))
    assert _share_alike(other, slurm) < 0.7


@pytest.mark.long
def test_slurm_backfill_chooses_the_nodes_that_the_controller_does_by_their_free_cpus(tmp_path: Path) -> None:
    rng, n_jobs = np.random.default_rng(1), 60
    lines = (
        "ClusterName=c\nSelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nNodeName=n[1-3] CPUs=4\n"
        "NodeName=n[4-6] CPUs=8\nNodeName=n7 CPUs=4\nPartitionName=p Nodes=ALL\n"
        "SchedulerParameters=bf_interval=5,batch_sched_delay=0,bf_window_linear=1\n"
    )
    (tmp_path / "slurm.conf").write_text(lines)
    requests = [
        Request(int(rng.integers(1, 4)), int(rng.integers(1, 5)), partitions=frozenset({"p"}))
        for _ in range(n_jobs)
    ]
    limits_s = 60.0 * rng.choice([1, 2, 5, 10], n_jobs)
    runs_s = np.ceil(limits_s * rng.uniform(0.1, 1.0, n_jobs))
    rows = [(k + 1, 30.0 * k, runs_s[k], each.cpus, limits_s[k], 1, k) for k, each in enumerate(requests)]
    log = log_on_nodes("log", rows, read_cluster(tmp_path / "slurm.conf"), requests)
    first = "slurm_backfill(bf_interval=5, selection=first_fit)"
    names = f"slurm: {tmp_path / 'slurm.conf'}", "slurm_backfill(bf_interval=5)", first
    slurm, same, other = (starts_under(name, Replay(log, engine=Engine.HARNESS), tmp_path) for name in names)
    assert _share_alike(same, slurm) > 0.95
    assert _share_alike(other, slurm) < 0.7


def _share_alike(some: pl.DataFrame, others: pl.DataFrame) -> float:
    """The share of jobs that start within a minute of one another, on the same nodes."""
    alike = ((some["time_s"] - others["time_s"]).abs() <= 60) & (some["machines"] == others["machines"])
    return float(alike.mean())  # type: ignore[arg-type]


def test_the_cpus_of_an_operators_nodes_are_the_processors(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(CONF)
    log = log_of(rows((0, 100, 16, 200), (1, 50, 4, 60), (2, 50, 12, 60)), 16)
    found = starts_under(f"slurm: {tmp_path / 'slurm.conf'}", Replay(log, engine=Engine.HARNESS), tmp_path)
    assert found["machines"][0] == "0-15"
    assert (found["time_s"] >= pl.Series([0.0, 100.0, 100.0])).all()
    assert (found["time_s"] < pl.Series([40.0, 170.0, 170.0])).all()


def test_a_report_proves_the_program_and_lists_what_is_replaced(tmp_path: Path) -> None:
    write_swf(tmp_path / "log.swf", log_of(FIVE, 16))
    (tmp_path / "slurm.conf").write_text(CONF)
    name = f"slurm: {tmp_path / 'slurm.conf'} (SchedulerParameters=bf_window=2880)"
    done = replayed(tmp_path, name)
    assert done.exit_code == 0, done.output
    first, credential, summary, *others = json.loads((tmp_path / "out" / "summary.json").read_text())[
        "programs"
    ][name]
    assert "unmodified: SHA-256 " in first
    assert credential == credential_used(installed())
    assert (
        summary == "left out of slurm.conf, or replaced: SlurmctldHost, NodeAddr (2 settings, see the report)"
    )
    assert summary in " ".join(done.stderr.split())
    assert "line 3: SlurmctldHost=head became SlurmctldHost=localhost(127.0.0.1)" in others[0]
    assert "line 7: NodeAddr=10.1.1.[1-2] was left out: all nodes share an address" in others[1]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Programs under test" in page
    assert "all nodes share an address" in page


def test_the_report_has_the_share_of_equal_starts_of_a_second_run(tmp_path: Path) -> None:
    write_swf(tmp_path / "log.swf", log_of(FIVE, 3))
    done = replayed(tmp_path, "slurm", "--scheduler", "slurm #2")
    assert done.exit_code == 0, done.output
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Differences to slurm" in page
    assert re.search(r"less for [\d.]+ % of 5 jobs, more for [\d.]+ %, equal for [\d.]+ %", page)


def test_events_may_be_between_two_microseconds(tmp_path: Path) -> None:
    jobs = [(1, 0.0, 10.1234567, 2, 60.0, 1), (2, 5.7654321, 10.00000049, 2, 60.0, 1)]
    found = starts_under("slurm", Replay(log_of(jobs, 2), engine=Engine.HARNESS), tmp_path)
    assert len(found) == 2


def test_its_time_is_charged_if_it_is_measured(tmp_path: Path) -> None:
    log = log_of(rows((0, 10, 2, 100), (5, 10, 2, 100)), 2)
    free, slow = (
        starts_under("slurm", Replay(log, engine=Engine.HARNESS, decision_cost=cost), tmp_path)["time_s"]
        for cost in ("none", "measured(factor=10000)")
    )
    assert float(slow[0]) > float(free[0]) + 1.0, (free.to_list(), slow.to_list())


@pytest.mark.long
def test_backfilling_ends_at_its_time_limit_if_its_time_is_charged(tmp_path: Path) -> None:
    deep = [(10, 600, 8, 1200)] * 100
    log = log_of(rows((0, 300, 15, 600), (5, 300, 16, 600), *deep, (10, 5, 1, 60)), 16)
    cancelled = Events(commands=(Command(250.0, ("scancel", "--state=PENDING")),))
    free, limited, unlimited = (
        starts_under(
            f"slurm (SchedulerParameters=bf_max_time={limit_s},bf_max_job_test=5000,default_queue_depth=2)",
            Replay(log, engine=Engine.HARNESS, decision_cost=cost, events=cancelled),
            tmp_path,
        )["job"]
        for cost, limit_s in (("none", 1), ("measured(factor=2000)", 1), ("measured(factor=2000)", 300))
    )
    assert [len(log.jobs) in started for started in (free, limited, unlimited)] == [True, False, True]


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("slurm", ("--decision-cost", "fixed(seconds=1)"), "can only be measured"),
        ("slurm", ("--estimates", "actual"), "time limits, which are the users' estimates"),
        ("easy", ("--pause-at", "5"), "--pause-at is for Slurm's controller"),
        ("easy", ("--slurm-step", "5"), "--slurm-step is for Slurm's controller"),
        ("slurm: missing.conf", (), "there is no file missing.conf"),
        ("slurm: (", (), "expected 'slurm', 'slurm: slurm.conf', or either with settings"),
        ("slurm (StateSaveLocation=/tmp)", (), "StateSaveLocation cannot be set"),
    ],
)
def test_options_and_names_that_do_not_suit_the_controller_are_refused(
    name: str, options: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    write_swf(tmp_path / "log.swf", log_of(FIVE, 3))
    assert sentence in the_sentence(replayed(tmp_path, name, *options))


def test_slurms_commands_see_a_paused_controller(tmp_path: Path) -> None:
    write_swf(tmp_path / "log.swf", log_of(rows((0, 1000, 3, 2000), (5, 10, 2, 60)), 3))
    command = [sys.executable, "-m", "sil", "replay", "log.swf", "--scheduler", "slurm", "--pause-at", "30"]
    with subprocess.Popen(
        [*command, "--no-report", "--out", "out"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    ) as replay:  # fmt: skip
        assert replay.stdin is not None
        assert replay.stderr is not None
        told = []
        for line in replay.stderr:
            told.append(line.strip())
            if "Press Enter" in line:
                break
        (entrance,) = (line for line in told if "SLURM_CONF" in line)
        look = "squeue -h -o '%j %T' --sort=i; scontrol show config; sdiag"
        is_export = entrance.startswith("export")  # else it starts a shell in another root
        look = f"{entrance}; {look}" if is_export else f"{entrance} -c {shlex.quote(look)}"
        seen = subprocess.run(["sh", "-c", look], capture_output=True, text=True, timeout=120, check=True)
        assert seen.stdout.splitlines()[:3] == [
            "1 RUNNING",
            "2 PENDING",
            "Configuration data as of 2020-01-01T00:00:30",
        ]
        assert "Jobs submitted:" in seen.stdout
        replay.communicate("\n", timeout=120)
    assert replay.returncode == 0
    facts = read_facts(tmp_path / "out" / "slurm" / TRACE)
    assert (facts["event"] == Fact.RUN_ENDED).sum() == 2
    assert pl.read_csv(tmp_path / "out" / "slurm" / JOBS)["success"].to_list() == [1, 1]
