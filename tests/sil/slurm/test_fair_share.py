"""Fair share, associations and QOS, which Slurm has in its database."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.settings.log_events import Events
from sil.slurm.installation import calling_user
from sil.slurm.naming import ASSOCIATIONS, QOS
from sil.trace.facts import Fact
from sil.workload.accounting import read_accounting
from sil.workload.settings import Rules
from site_db.slurm_conf import read_cluster
from tests.sil.slurm.installed import needs_slurm
from tests.sil.slurm.scenarios import QUICK, Rigid, operators, outcome_of

pytestmark = [needs_slurm, pytest.mark.skipif(shutil.which("mariadbd") is None, reason="without MariaDB")]
FAIR = f"{QUICK} PriorityType=priority/multifactor PriorityWeightFairshare=100000 PriorityCalcPeriod=1"
FLOOD = [Rigid(10, 200, nodes=2, limit_s=300, user="ann") for _ in range(8)]
LATE = Rigid(300, 200, nodes=2, limit_s=300, user="bob")


def test_a_latecomer_passes_a_flooding_user() -> None:
    in_order, fair = outcome_of([*FLOOD, LATE], 2), outcome_of([*FLOOD, LATE], 2, FAIR)
    assert in_order.starts(9)[0] > 1600
    assert fair.starts(9)[0] < 700


@pytest.mark.parametrize("settings", [QUICK, FAIR])
def test_users_may_be_called_as_the_one_who_runs_the_controller_or_as_no_user_can_be(settings: str) -> None:
    users = (calling_user(), "a:b", "x y", "o'x", "")
    found = outcome_of([Rigid(0, 5, user=user) for user in users], 5, settings)
    assert [len(found.starts(number)) for number in range(1, 6)] == [1] * 5


def test_associations_and_qos_are_those_beside_slurm_conf(tmp_path: Path) -> None:
    name = operators(
        tmp_path,
        f"AccountingStorageEnforce=associations,limits,qos\n{QUICK}\nPartitionName=p Nodes=ALL Default=YES\n",
    )
    (tmp_path / ASSOCIATIONS).write_text(
        "Cluster - 'c':Fairshare=1:QOS='normal'\nParent - 'root'\n"
        "Account - 'physics':Description='p':Organization='p':Fairshare=1:MaxJobs=1\nParent - 'physics'\n"
        "User - 'ann':DefaultAccount='physics':Fairshare=1:QOS='normal,short'\n"
    )
    (tmp_path / QOS).write_text("Name|Priority|MaxWall\nnormal|0|\nshort|10|00:05:00\n")
    jobs = [
        Rigid(0, 60),
        Rigid(0, 60),
        Rigid(0, 60, user="bob"),
        Rigid(0, 60, limit_s=3600, options={"qos": "short"}),
        Rigid(0, 60, options={"qos": "long"}),
    ]
    found = outcome_of(jobs, 2, "", name=name)
    assert found.starts(2)[0] >= found.ends(1)[0]  # at most one job of the account runs
    assert found.refusal(3) == "Slurm rejected it: there is no such account, or the user is not in it"
    assert found.refusal(4) == "Slurm never starts it: QOSMaxWallDurationPerJobLimit"
    assert found.refusal(5) == "Slurm rejected it: there is no such QOS"


ACCOUNTING = (
    "JobID|User|Account|QOS|Submit|Start|End|State|TimelimitRaw|ReqTRES|AllocTRES|NodeList\n"
    "1|ann|physics|normal|{}:00|{}:00|{}:09|COMPLETED|2|cpu=2,node=2|cpu=2,node=2|n[1-2]\n"
    "2|ann|physics|normal|{}:05|{}:05|{}:15|COMPLETED|2|cpu=2,node=2|cpu=2,node=2|n[1-2]\n"
    "3|ann|physics|urgent|{}:07|{}:07|{}:17|COMPLETED|2|cpu=2,node=2|cpu=2,node=2|n[1-2]\n"
    "4|ann|physics|absent|{}:08|{}:08|{}:18|COMPLETED|2|cpu=2,node=2|cpu=2,node=2|n[1-2]\n"
    "5|ann|physics|absent|{}:08|{}:08|{}:18|COMPLETED|2|cpu=2,node=2|cpu=2,node=2|n[1-2]\n"
).replace("{}", "2026-03-02T08:00")


def test_jobs_are_submitted_with_their_accounts_and_qos_unless_events_say_otherwise(tmp_path: Path) -> None:
    conf, accounting = tmp_path / "slurm.conf", tmp_path / "sacct.txt"
    accounting.write_text(ACCOUNTING)
    name = operators(
        tmp_path,
        f"AccountingStorageEnforce=associations,qos\nPriorityType=priority/multifactor\nPriorityWeightQOS=1000\n"
        f"{QUICK}\nPartitionName=p Nodes=ALL Default=YES\n",
    )
    (tmp_path / ASSOCIATIONS).write_text(
        "Cluster - 'c':Fairshare=1:QOS='normal,urgent'\nParent - 'root'\n"
        "Account - 'physics':Description='p':Organization='p':Fairshare=1\n"
        "Account - 'other':Description='o':Organization='o':Fairshare=1\n"
        "Parent - 'other'\nUser - 'ann':DefaultAccount='other':Fairshare=1\n"
        "Parent - 'physics'\nUser - 'ann':Fairshare=1\n"
    )
    (tmp_path / QOS).write_text("Name|Priority\nnormal|0\nurgent|10\n")
    log = read_accounting(accounting, read_cluster(conf), Rules())
    replay = Replay(log, events=Events(options={5: {"qos": "normal"}}))
    facts = replay.facts(resolve(name), tmp_path / "printed")
    started = facts.filter(pl.col("event") == Fact.RUN_STARTED)["job"].to_list()
    assert started[:2] == [1, 3]
    assert sorted(started) == [1, 2, 3, 5]
    (refused,) = facts.filter(pl.col("event") == Fact.JOB_REFUSED).rows(named=True)
    assert (refused["job"], refused["detail"]) == (4, "Slurm rejected it: there is no such QOS")


def test_without_a_dump_the_accounts_of_the_log_are_the_associations(tmp_path: Path) -> None:
    rows = (
        "1|Ann|Physics|High",
        "2|Ann|open|high",
        "3|bob|chemistry|high",
        "4|bob|physics|high",
        "5|eve||high",
    )
    rows = (*rows, "6|Ann|physics|normal")
    times = "{}:00|{}:00|{}:09|COMPLETED|2|cpu=1,node=1|cpu=1,node=1|n1".replace("{}", "2026-03-02T08:00")
    (tmp_path / "sacct.txt").write_text(
        "\n".join((ACCOUNTING.splitlines()[0], *(f"{row}|{times}" for row in rows), ""))
    )
    name = operators(
        tmp_path,
        f"AccountingStorageEnforce=associations\n{QUICK}\n"
        "PartitionName=p Nodes=ALL Default=YES AllowAccounts=physics AllowQos=high\n",
    )
    log = read_accounting(tmp_path / "sacct.txt", read_cluster(tmp_path / "slurm.conf"), Rules())
    facts = Replay(log).facts(resolve(name), tmp_path / "printed")
    started = facts.filter(pl.col("event") == Fact.RUN_STARTED)["job"].to_list()
    refused = facts.filter(pl.col("event") == Fact.JOB_REFUSED)["detail"].to_list()
    assert sorted(started) == [1, 4]
    whys = [re.search(r"p allows \w+ not \w+", each) for each in refused]
    said = [why[0] if why else each for why, each in zip(whys, refused, strict=True)]
    accounts = [f"p allows physics not {account}" for account in ("open", "chemistry", "all")]
    # Since 24.11 Slurm does not say which account is not allowed.
    assert said in (
        [*words, "p allows high not normal"]
        for words in (accounts, ["Slurm never starts it: PartitionConfig"] * 3)
    )


def test_a_quality_of_service_preempts_another(tmp_path: Path) -> None:
    preempts = (
        f"PreemptType=preempt/qos\nPreemptMode=REQUEUE\n{QUICK}\nPartitionName=p Nodes=ALL Default=YES\n"
    )
    name = operators(tmp_path, f"AccountingStorageEnforce=associations,qos\n{preempts}")
    (tmp_path / ASSOCIATIONS).write_text(
        "Cluster - 'c':Fairshare=1:QOS='normal'\nParent - 'root'\n"
        "User - 'ann':DefaultAccount='root':Fairshare=1:QOS='normal,urgent'\n"
    )
    (tmp_path / QOS).write_text("Name|Priority|Preempt\nnormal|0|\nurgent|10|normal\n")
    urgent = Rigid(100, 50, nodes=2, options={"qos": "urgent"})
    found = outcome_of([Rigid(0, 600, nodes=2, limit_s=900), urgent], 2, "", name=name)
    assert found.starts(2)[0] == pytest.approx(100, abs=10)
    assert len(found.starts(1)) == 2
