"""A site whose policy is known, since its accounting was made under it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl

from sil.rehearsal.run import Rehearsal, read_rehearsal
from sil.rehearsal.sections import judged_title
from sil.rehearsal.uses import Grade
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.site.logs import LogFile
from sil.workload.slices import DAY_S
from tests.commands import succeeded
from tests.sil.rehearsal.months import HEADER, row

CONF = """ClusterName=ours
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PriorityType=priority/multifactor
PriorityDecayHalfLife=1-0
PriorityCalcPeriod=1
PriorityWeightAge=1000
PriorityMaxAge=7-0
PriorityWeightFairshare=100000
PriorityWeightQOS=30000
AccountingStorageEnforce=associations,limits,qos
NodeName=n[1-8] CPUs=8 CoresPerSocket=8
PartitionName=main Nodes=ALL Default=YES MaxTime=1-0
PartitionName=test Nodes=n[1-2] MaxTime=1-0
"""
DUMP = """Cluster - 'ours':Fairshare=1:QOS='normal,urgent'
Parent - 'root'
Account - 'physics':Fairshare=6
Account - 'biology':Fairshare=2
Parent - 'physics'
User - 'ann':DefaultAccount='physics':Fairshare=5
User - 'bob':DefaultAccount='physics':Fairshare=1:MaxJobs=6
Parent - 'biology'
User - 'cat':DefaultAccount='biology':Fairshare=1:MaxJobs=4
User - 'dan':DefaultAccount='biology':Fairshare=1
"""
QOS = "Name|Priority|MaxTRESPU\nnormal|0|\nurgent|10|cpu=16\n"
FILES = {"slurm.conf": CONF, "sacctmgr.cfg": DUMP, "qos.txt": QOS}
DAYS, WARM_UP_DAYS, JOBS = 28, 7, 2_000
ACCOUNTS = {"ann": "physics", "bob": "physics", "cat": "biology", "dan": "biology"}


def accounting(folder: Path, rows: list[str]) -> Path:
    path = folder / "sacct.txt"
    path.write_text("\n".join((HEADER, *rows, "")))
    return path


def made(folder: Path) -> None:
    """The files of a site: four weeks at a load of 0.9, with the starts that its policy gives the jobs."""
    for name, text in FILES.items():
        (folder / name).write_text(text)
    random_, jobs = random.Random(7), []
    for submit_s in sorted(random_.randrange(int(DAYS * DAY_S)) for _ in range(JOBS)):
        run_s = min(60 + int(random_.expovariate(1 / 15_000)), 80_000)
        user = random_.choices([*ACCOUNTS], (3, 2, 2, 1))[0]
        of_job: dict[str, Any] = {
            "cpus": random_.choice((1, 2, 4, 4, 8, 8)),
            "user": user,
            "account": ACCOUNTS[user],
            "qos": "urgent" if random_.random() < 0.1 else "normal",
            "partition": "test" if random_.random() < 0.005 else "main",
            "minutes": next(limit for limit in (120, 480, 1440) if 60 * limit >= run_s),
        }
        jobs.append((submit_s, run_s, of_job))
    path = accounting(
        folder, [row(str(k), at_s, at_s, at_s + run_s, **of) for k, (at_s, run_s, of) in enumerate(jobs, 1)]
    )
    log = LogFile(nodes=folder / "slurm.conf", policy=[folder / name for name in FILES]).read(path)
    out = folder / "decided"
    out.mkdir()
    assert Replay(log).run(resolve("easy"), out).fault is None
    table = pl.read_csv(out / "jobs.csv").select("job_id", "starting_time", "allocated_resources")
    starts = {number: (start_s, node) for number, start_s, node in table.iter_rows()}
    rows = []
    for k, (at_s, run_s, of) in enumerate(jobs, 1):
        start_s = round(starts[k][0]) + jobs[0][0]
        rows.append(row(str(k), at_s, start_s, start_s + run_s, node=f"n{int(starts[k][1]) + 1}", **of))
    accounting(folder, rows)


def validated(site: Path, policy: Path, out: Path, *more: str) -> tuple[Rehearsal, str]:
    given = [word for name in FILES for word in ("--policy", str(policy / name))]
    given += ["--from", f"2026-01-{1 + WARM_UP_DAYS:02d}", "--warm-up-days", str(WARM_UP_DAYS), *more]
    files = "--accounting", site / "sacct.txt", "--nodes", site / "slurm.conf"
    printed = succeeded("validate", *files, *given, "--out", out).stdout
    return read_rehearsal(out), printed


def grades(found: Rehearsal) -> dict[str, Grade]:
    return {judged_title(each): each.grade for each in found.reproduction.judgements}
