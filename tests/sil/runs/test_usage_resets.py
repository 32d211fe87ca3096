"""Slurm sets usage to 0 when a day, a week, a month, ... begins, as PriorityUsageResetPeriod says."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from scheduler.priority.policy import SitePolicy
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.settings.replays import Engine
from sil.trace.log_clock import LogClock
from sil.workload.accounting import read_accounting
from sil.workload.settings import Rules
from site_db.slurm.policy import read_policy
from site_db.slurm_conf import read_cluster
from tests.sil.runs.test_policies_on_nodes import starts_of

CONF = """ClusterName=c
SelectType=select/cons_tres
NodeName=n CPUs=4
PartitionName=p Nodes=ALL
PriorityType=priority/multifactor
PriorityDecayHalfLife=0
AccountingStorageEnforce=safe
"""
DUMP = """Cluster - 'c'
Parent - 'root'
Account - 'lab':GrpTRESMins=cpu=100
Parent - 'lab'
User - 'ann':DefaultAccount='lab'
"""
SACCT = """JobID|User|Account|Partition|Submit|Start|End|State|TimelimitRaw|ReqTRES|NodeList
1|ann|lab|p|2026-03-30T12:00:00|2026-03-30T12:00:00|2026-03-30T13:30:00|COMPLETED|90|cpu=1,node=1|n
2|ann|lab|p|2026-03-30T14:00:00|2026-03-30T14:00:00|2026-03-30T14:30:00|COMPLETED|30|cpu=1,node=1|n
"""
SHARES = """Account|User|RawUsage|GrpTRESRaw
lab||5400|cpu=90
lab|ann|5400|cpu=90
"""


def policy_of(folder: Path, *lines: str, shares: str = "") -> SitePolicy:
    texts = {
        "slurm.conf": "\n".join((CONF, *lines, "")),
        "dump": DUMP,
        **({"sshare": shares} if shares else {}),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    return read_policy([folder / name for name in texts])


@pytest.mark.parametrize("engine", [Engine.COMPILED, Engine.HARNESS])
@pytest.mark.parametrize(
    ("period", "expected"),
    [("DAILY", "2026-03-31 00:00:00"), ("WEEKLY", "2026-04-05 00:00:00"), ("MONTHLY", "2026-04-01 00:00:00")],
)
def test_a_job_waits_for_used_minutes_until_usage_is_set_to_0(
    tmp_path: Path, engine: Engine, period: str, expected: str
) -> None:
    policy = policy_of(tmp_path, f"PriorityUsageResetPeriod={period}")
    (tmp_path / "sacct").write_text(SACCT)
    cluster = replace(read_cluster(tmp_path / "slurm.conf"), policy=policy)
    log = read_accounting(tmp_path / "sacct", cluster, Rules(time_zone="UTC"))
    starts = starts_of(Replay(log, engine=engine).facts(resolve("easy"), tmp_path / "printed"))
    assert {job: log.clock.date(at_s) for job, at_s in starts.items()} == {
        1: "2026-03-30 12:00:00",
        2: expected,
    }


def test_now_forgets_the_usage_before_the_first_job(tmp_path: Path) -> None:
    before, now = (
        policy_of(tmp_path, *lines, shares=SHARES) for lines in ((), ["PriorityUsageResetPeriod=NOW"])
    )
    assert max(each.usage for each in before.associations) == 5_400.0
    assert not any(each.usage or each.used for each in now.associations)


def test_a_job_that_waits_for_ever_is_announced_once(tmp_path: Path) -> None:
    assert [note for note in policy_of(tmp_path).notes if "for ever" in note] == [
        "usage never decays (PriorityDecayHalfLife=0) and is never set to 0 (PriorityUsageResetPeriod), "
        "so that jobs wait for ever once GrpTRESMins or GrpWall are used up"
    ]


def test_periods_begin_on_sundays_and_first_days_at_midnight_of_the_zone() -> None:
    began = datetime(2026, 11, 28, 22, tzinfo=UTC)
    clock = LogClock(7_200.0, began.timestamp(), ZoneInfo("Europe/Berlin"))  # 1 o'clock on Sunday

    def first(period: str) -> str | None:
        return clock.date(next(clock.begins_of(period, 1e9)))

    days = [first(period) for period in ("daily", "weekly", "monthly", "quarterly", "yearly")]
    expected = ("2026-11-30", "2026-12-06", "2026-12-01", "2027-01-01", "2027-01-01")
    assert days == [f"{day} 00:00:00" for day in expected]
