"""Months of accounting, made up."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from sil.rehearsal.month import Arrivals, Month, OperatorsActs, month_of
from sil.workload.accounting import recorded_in
from sil.workload.settings import Rules
from site_db.jobs.sacct.columns import RAN, RUNNING
from site_db.slurm_conf import read_cluster

CONF = """ClusterName=ours
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
PriorityType=priority/multifactor
PriorityWeightAge=1000
Licenses=matlab:2
NodeName=n[1-4] CPUs=4 CoresPerSocket=4
PartitionName=main Nodes=ALL Default=YES MaxTime=1-0
PartitionName=long Nodes=n[1-2] MaxTime=7-0
"""
HEADER = (
    "JobID|User|Account|QOS|JobName|Partition|Submit|Eligible|Start|End|ElapsedRaw|State|TimelimitRaw|ReqTRES|AllocTRES|"
    "NodeList|Reservation|SubmitLine"
)
UNENDED = ("RUNNING", "PENDING")
ORIGIN_S = 1_767_225_600


def row(
    number: str,
    submit_s: int,
    start_s: int,
    end_s: int,
    line: str = "sbatch job.sh",
    *,
    cpus: int = 4,
    node: str = "n1",
    eligible_s: int | None = None,
    user: str = "ann",
    account: str = "physics",
    qos: str = "normal",
    partition: str = "main",
    reservation: str = "",
    minutes: int = 600,
    state: str = "COMPLETED",
) -> str:
    times = (submit_s, submit_s if eligible_s is None else eligible_s, start_s, end_s)
    tres = f"cpu={cpus},node=1"
    return "|".join(
        (
            *(number, user, account, qos, "job", partition),
            *(str(ORIGIN_S + time_s) for time_s in times[:3]),
            *("Unknown" if state in UNENDED else str(ORIGIN_S + end_s), str(end_s - start_s), state),
            *(str(minutes), tres, tres, node, reservation, line),
        )
    )


def written(folder: Path, *rows: str, conf: str = CONF) -> tuple[Path, Path]:
    """The files of accounting and configuration."""
    log, slurm_conf = folder / "sacct.txt", folder / "slurm.conf"
    log.write_text("\n".join((HEADER, *rows, "")))
    slurm_conf.write_text(conf)
    return log, slurm_conf


def month(
    folder: Path,
    *rows: str,
    since: datetime | None = None,
    warm_up_days: float = 0.0,
    arrivals: Arrivals = Arrivals.AS_SUBMITTED,
) -> Month:
    log, conf = written(folder, *rows)
    rules = Rules(time_zone="UTC")
    done = OperatorsActs.beside(conf, UTC)
    recorded = recorded_in(log, rules, RAN | {RUNNING})
    return month_of(recorded, read_cluster(conf), rules, done, since, warm_up_days, arrivals)
