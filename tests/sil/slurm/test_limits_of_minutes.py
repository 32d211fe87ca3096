"""Under limits of TRES-minutes and of nodes jobs start when Slurm's controller starts them.

Jobs that have long waited while nothing runs are given up there, so that there is a long run.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.slurm.naming import ASSOCIATIONS, QOS
from sil.trace.facts import Fact
from sil.workload.accounting import read_accounting
from sil.workload.settings import Rules
from site_db.slurm.policy import read_policy
from site_db.slurm_conf import read_cluster
from tests.sil.slurm.installed import needs_slurm

pytestmark = [
    needs_slurm,
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("mariadbd") is None, reason="without MariaDB"),
]
CPUS, N_NODES, BEGAN_S, N_JOBS = 8, 4, 1_772_442_000, 30
CONF = f"""ClusterName=c
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
NodeName=n[1-{N_NODES}] CPUs={CPUS}
PartitionName=p Nodes=ALL Default=YES MaxTime=2-0
PriorityType=priority/multifactor
PriorityDecayHalfLife=02:00:00
PriorityCalcPeriod=1
SchedulerParameters=bf_interval=5,sched_interval=5,batch_sched_delay=0
"""
NO_QOS = "Name|Priority\nnormal|0"
NEAR_S = 30.0
"""The controller calculates priorities at other seconds of a minute, and takes some at the ends of runs."""


def write_site(folder: Path, enforces: str, group: str, rng: random.Random) -> None:
    dump = (
        "Cluster - 'c':Fairshare=1:QOS='normal'",
        "Parent - 'root'",
        f"Account - 'lab':Fairshare=1:{group}",
        "Parent - 'lab'",
        *(f"User - '{user}':DefaultAccount='lab':Fairshare=1" for user in ("ann", "bob")),
        "Parent - 'root'",
        "Account - 'other':Fairshare=1",
        "Parent - 'other'",
        "User - 'eve':DefaultAccount='other':Fairshare=1",
    )
    at_s, of_other = BEGAN_S, CPUS if "node" in group else 1  # all of a node, or others would choose by it
    rows = [  # of another account, a job that runs as long as others wait, so that the controller is heard
        "JobID|User|Account|QOS|Partition|Submit|Start|End|State|TimelimitRaw|ReqTRES|NodeList",
        f"{N_JOBS + 1}|eve|other|normal|p|{at_s}|{at_s}|{at_s + 100_000}|COMPLETED|2000|cpu={of_other}"
        f",node=1|n4",
    ]
    for number in range(1, N_JOBS + 1):
        at_s += rng.randrange(10, 200)
        (nodes, cpus), run_s = rng.choice([(1, 2), (1, 4), (2, 8)]), rng.randrange(100, 1_500)
        minutes = run_s // 60 + rng.choice([2, 10, 30])
        times = f"{at_s}|{at_s}|{at_s + run_s}|COMPLETED|{minutes}"
        who = f"{number}|{rng.choice(['ann', 'bob'])}|lab|normal|p"
        rows.append(f"{who}|{times}|cpu={cpus},node={nodes}|n[1-{nodes}]")
    conf = f"{CONF}AccountingStorageEnforce=associations,qos,{enforces}\n"
    names = {"slurm.conf": conf, ASSOCIATIONS: "\n".join(dump), QOS: NO_QOS, "sacct.txt": "\n".join(rows)}
    for name, text in names.items():
        (folder / name).write_text(f"{text}\n")


def starts_s(folder: Path, scheduler: str) -> dict[int, float]:
    cluster = read_cluster(folder / "slurm.conf")
    policy = read_policy([folder / name for name in ("slurm.conf", ASSOCIATIONS, QOS)])
    log = read_accounting(folder / "sacct.txt", replace(cluster, policy=policy), Rules(time_zone="UTC"))
    facts = Replay(log).facts(resolve(scheduler), folder / "printed")
    started = facts.filter(pl.col("event") == Fact.RUN_STARTED)
    return dict(started.select("job", "time_s").iter_rows())


@pytest.mark.parametrize(
    ("enforces", "group"),
    [
        pytest.param("safe", "GrpTRESMins=cpu=600", id="used safely"),
        pytest.param("limits", "GrpTRESRunMins=cpu=500", id="to run"),
        pytest.param("safe", "GrpWall=150", id="wall time"),
        pytest.param("limits", "GrpTRES=node=2", id="nodes"),
    ],
)
def test_jobs_start_when_the_controller_starts_them(tmp_path: Path, enforces: str, group: str) -> None:
    write_site(tmp_path, enforces, group, random.Random(3))
    real_s = starts_s(tmp_path, f"slurm: {tmp_path / 'slurm.conf'}")
    here_s = starts_s(tmp_path, "slurm_backfill")
    assert here_s == pytest.approx(real_s, abs=NEAR_S)
    dump = tmp_path / ASSOCIATIONS
    dump.write_text(dump.read_text().replace(f":{group}", ""))
    without_s = starts_s(tmp_path, "slurm_backfill")
    assert sum(abs(without_s[job] - at_s) for job, at_s in real_s.items()) > 10_000
