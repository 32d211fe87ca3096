"""A week of jobs under fair share, QOS and limits: who starts when, here and under Slurm's controller.

What differs: the controller takes seconds at the ends of runs, so that jobs start later, and those after them
later still. In the end a job fits into a gap in one of the two schedules only: of 600 jobs, the first 220
start within two minutes of one another. Seconds suffice for that: if they are added at random here, the mean
waits of the cases lie on both sides of the controller's.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.slurm.naming import ASSOCIATIONS, QOS
from sil.workload.accounting import read_accounting
from sil.workload.job_log import JobLog
from sil.workload.settings import Rules
from site_db.slurm.policy import read_policy
from site_db.slurm_conf import read_cluster
from tests.sil.slurm.installed import needs_slurm

pytestmark = [
    needs_slurm,
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("mariadbd") is None, reason="without MariaDB"),
]
CPUS, N_NODES, BEGAN_S, N_JOBS, LOAD = 8, 8, 1_772_442_000, 600, 0.9
CONF = f"""ClusterName=c
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
NodeName=n[1-{N_NODES}] CPUs={CPUS}
PartitionName=p Nodes=ALL Default=YES MaxTime=2-0
AccountingStorageEnforce=associations,limits,qos
PriorityType=priority/multifactor
PriorityDecayHalfLife=1-0
PriorityCalcPeriod=5
PriorityMaxAge=7-0
PriorityWeightAge=1000
PriorityWeightFairshare=10000
PriorityWeightJobSize=100
PriorityWeightQOS=2000
"""
QUALITIES = "Name|Priority|UsageFactor|GrpTRES\nnormal|0|1.0|\nurgent|10|2.0|cpu=32\n"
ACCOUNTS = {"phys": 5, "chem": 3, "bio": 1}


def write_site(folder: Path, rng: random.Random) -> None:
    account_of = {f"u{k}": rng.choice([*ACCOUNTS]) for k in range(12)}
    dump = ["Cluster - 'c':Fairshare=1:QOS='normal,urgent'", "Parent - 'root'"]
    dump += [f"Account - '{name}':Fairshare={shares}" for name, shares in ACCOUNTS.items()]
    for account in ACCOUNTS:
        dump.append(f"Parent - '{account}'")
        dump += [
            f"User - '{user}':DefaultAccount='{account}':Fairshare={rng.choice([1, 2, 5])}:MaxJobs=20"
            for user, of in account_of.items()
            if of == account
        ]
    jobs = []
    for _ in range(N_JOBS):
        run_s = min(int(rng.lognormvariate(7.5, 1.2)) + 30, 86_000)
        minutes = min(2 * 1440, int(run_s / 60 * rng.choice([1.05, 1.5, 3, 8])) + 1)
        jobs.append((rng.choice([*account_of]), rng.choice([1, 1, 1, 2, 4]), run_s, minutes))
    span_s = sum(nodes * run_s for _, nodes, run_s, _ in jobs) / (N_NODES * LOAD)
    at_s = sorted(rng.uniform(0, span_s) for _ in jobs)
    rows = ["JobID|User|Account|QOS|Partition|Submit|Start|End|State|TimelimitRaw|ReqTRES|NodeList"]
    for number, (user, nodes, run_s, minutes) in enumerate(jobs, start=1):
        begin_s, qos = BEGAN_S + int(at_s[number - 1]), "urgent" if rng.random() < 0.15 else "normal"
        times = f"{begin_s}|{begin_s}|{begin_s + run_s}|COMPLETED|{minutes}"
        where = f"cpu={CPUS * nodes},node={nodes}|n[1-{nodes}]"
        rows.append(f"{number}|{user}|{account_of[user]}|{qos}|p|{times}|{where}")
    files = {"slurm.conf": CONF, ASSOCIATIONS: "\n".join(dump), QOS: QUALITIES, "sacct.txt": "\n".join(rows)}
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n")


def log_of(folder: Path, conf: str = CONF) -> JobLog:
    (folder / "policy.conf").write_text(conf)
    cluster = read_cluster(folder / "slurm.conf")
    cluster = replace(
        cluster, policy=read_policy([folder / name for name in ("policy.conf", ASSOCIATIONS, QOS)])
    )
    return read_accounting(folder / "sacct.txt", cluster, Rules(time_zone="UTC"))


def waits_s(log: JobLog, scheduler: str, folder: Path) -> np.ndarray:
    folder.mkdir()
    Replay(log).run(resolve(scheduler), folder)
    return pl.read_csv(folder / "jobs.csv").sort("job_id")["waiting_time"].to_numpy()


def test_jobs_start_when_the_controller_starts_them_and_not_so_under_another_policy(tmp_path: Path) -> None:
    write_site(tmp_path, random.Random(1))
    real_s = waits_s(log_of(tmp_path), f"slurm: {tmp_path / 'slurm.conf'}", tmp_path / "slurm")
    right_s = waits_s(log_of(tmp_path), "slurm_backfill", tmp_path / "right")
    no_fair_share = CONF.replace("PriorityWeightFairshare=10000", "PriorityWeightFairshare=0")
    wrong_s = waits_s(log_of(tmp_path, no_fair_share), "slurm_backfill", tmp_path / "wrong")
    assert abs(right_s.mean() / real_s.mean() - 1) < 0.1
    assert np.median(np.abs(right_s - real_s)) < np.median(np.abs(wrong_s - real_s)) / 2
    assert _n_alike(right_s, real_s) > 200 > _n_alike(wrong_s, real_s)
    of_cases_s = [
        waits_s(with_longer_runs(log_of(tmp_path), case), "slurm_backfill", tmp_path / f"case-{case}").mean()
        for case in range(16)
    ]
    assert min(of_cases_s) < real_s.mean() < max(of_cases_s)


def with_longer_runs(log: JobLog, case: int) -> JobLog:
    """The log, in which each run takes up to 7 s longer."""
    more_s = pl.Series(np.random.default_rng(case).integers(0, 8, len(log.jobs)))
    return replace(log, jobs=log.jobs.with_columns(pl.col("run_s") + more_s.cast(pl.Float64)))


def _n_alike(a_s: np.ndarray, b_s: np.ndarray) -> int:
    """How many jobs wait within two minutes as long, up to the first that does not."""
    return int(np.argmin(np.abs(a_s - b_s) < 120))
