"""On switches, jobs have the same nodes here and under Slurm's controller."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pytest

from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.workload.accounting import read_accounting
from sil.workload.settings import Rules
from site_db.slurm_conf import read_cluster
from tests.sil.slurm.installed import needs_slurm

pytestmark = [needs_slurm, pytest.mark.long]
BEGAN_S, N_JOBS = 1_772_442_000, 120
CONF = """ClusterName=c
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
TopologyPlugin=topology/tree
SchedulerParameters=bf_interval=5,sched_interval=5,batch_sched_delay=0,max_switch_wait=800
NodeName=n[0-15] CPUs=1
PartitionName=p Nodes=ALL Default=YES MaxTime=2-0
"""
TOPOLOGY = """SwitchName=a Nodes=n[0-3]
SwitchName=b Nodes=n[4-9]
SwitchName=c Nodes=n[10-15]
SwitchName=top Switches=a,b,c
"""


def accounting() -> str:
    """Jobs that arrive every 100 s, each when there are enough free nodes, and end between arrivals."""
    rng = random.Random(1)
    rows = ["JobID|User|Partition|Submit|Start|End|State|TimelimitRaw|ReqTRES|SubmitLine"]
    ends_s: list[tuple[int, int]] = []
    for k in range(N_JOBS):
        at_s = 100 * k
        ends_s = [(end_s, n) for end_s, n in ends_s if end_s > at_s]
        free = 16 - sum(n for _, n in ends_s)
        run_s = 50 + 100 * rng.randrange(1, 9)
        if free == 0:
            continue
        n = min(free, rng.choice([1, 1, 2, 3, 4, 5, 7]))
        ends_s.append((at_s + run_s, n))
        begin_s = BEGAN_S + at_s
        times = f"{begin_s}|{begin_s}|{begin_s + run_s}|COMPLETED|60"
        rows.append(f"{k + 1}|u|p|{times}|cpu={n},node={n}|sbatch job.sh")
    return "\n".join(rows) + "\n"


Start = tuple[int, float, str]
"""A job, how long it waited, and its nodes."""


def starts(log: str, scheduler: str, folder: Path) -> list[Start]:
    folder.mkdir()
    for name, text in (("sacct.txt", log), ("slurm.conf", CONF), ("topology.conf", TOPOLOGY)):
        (folder / name).write_text(text)
    name = scheduler.format(conf=folder / "slurm.conf")
    cluster = read_cluster(folder / "slurm.conf")
    Replay(read_accounting(folder / "sacct.txt", cluster, Rules(time_zone="UTC"))).run(resolve(name), folder)
    columns = "job_id", "waiting_time", "allocated_resources"
    return pl.read_csv(folder / "jobs.csv").sort("job_id").select(columns).rows()


def test_jobs_get_the_nodes_that_the_controller_gives_them(tmp_path: Path) -> None:
    real = starts(accounting(), "slurm: {conf}", tmp_path / "slurm")
    ours = starts(accounting(), "slurm_backfill", tmp_path / "ours")
    assert max(wait_s for _, wait_s, _ in real) < 30
    assert [(job, nodes) for job, _, nodes in ours] == [(job, nodes) for job, _, nodes in real]


def test_a_job_waits_for_one_leaf_switch_as_long_as_under_the_controller(tmp_path: Path) -> None:
    """Job 4 has one before its 10 minutes are over, and job 5, after 5 minutes, two."""
    rows = ["JobID|User|Partition|Submit|Start|End|State|TimelimitRaw|ReqTRES|SubmitLine"]
    jobs = [(0, 3, 3000, ""), (10, 5, 3000, ""), (20, 4, 300, ""), (30, 4, 100, "--switches=1@10 ")]
    jobs += [(1000, 4, 100, ""), (1010, 4, 100, "--switches=1@5 ")]
    for number, (at_s, n, run_s, options) in enumerate(jobs, start=1):
        times = f"{BEGAN_S + at_s}|{BEGAN_S + at_s}|{BEGAN_S + at_s + run_s}|COMPLETED|60"
        rows.append(f"{number}|u|p|{times}|cpu={n},node={n}|sbatch {options}job.sh")
    log = "\n".join(rows) + "\n"
    real = starts(log, "slurm: {conf}", tmp_path / "slurm")
    ours = starts(log, "slurm_backfill(bf_interval=1)", tmp_path / "ours")
    assert [nodes for _, _, nodes in ours] == [nodes for _, _, nodes in real]
    assert all(abs(a - b) < 40 for (_, a, _), (_, b, _) in zip(ours, real, strict=True))
    assert max(wait_s for _, wait_s, _ in ours) >= 290
