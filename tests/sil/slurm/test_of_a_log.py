"""What a controller manages in the replay of a log: its users, their accounts, and jobs that are together."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from sil.runs.free_nodes import slurm_world
from sil.runs.on_log import Replay
from sil.runs.simulation import run_times_by
from sil.runs.under_test import resolve
from sil.settings.replays import Estimates
from sil.slurm.world import SlurmWorld
from sil.trace.facts import Fact
from sil.trace.log_ids import LOG_ID
from sil.workload.accounting import read_accounting
from sil.workload.settings import Rules
from site_db.slurm_conf import read_cluster
from tests.sil.slurm.installed import needs_slurm

ROWS = (
    "1|ann|b|normal",
    "2+0|bob|a|normal",
    "2+1|bob|a|normal",
    "3|ann|a|normal",
    "4|eve||normal",
    "5+0|eve||x",
)


def world_of(folder: Path) -> SlurmWorld:
    times = "|{}:00|{}:00|{}:09|COMPLETED|2|cpu=1,node=1|cpu=1,node=1|n1".replace("{}", "2026-03-02T08:00")
    header = "JobID|User|Account|QOS|Submit|Start|End|State|TimelimitRaw|ReqTRES|AllocTRES|NodeList"
    (folder / "sacct.txt").write_text("\n".join((header, *(f"{row}{times}" for row in ROWS), "")))
    (folder / "slurm.conf").write_text("NodeName=n1 CPUs=8\n")
    log = read_accounting(folder / "sacct.txt", read_cluster(folder / "slurm.conf"), Rules())
    return slurm_world(log, Estimates.USER, run_times_by(Estimates.USER, lambda job: 60.0))


def test_users_have_the_accounts_of_their_jobs_the_first_as_default(tmp_path: Path) -> None:
    assert world_of(tmp_path).accounts == {"ann": ["b", "a"], "bob": ["a"]}


def test_the_components_of_heterogeneous_jobs_are_together_in_order(tmp_path: Path) -> None:
    ((jobs,),) = world_of(tmp_path).components
    ids = read_accounting(tmp_path / "sacct.txt", read_cluster(tmp_path / "slurm.conf"), Rules()).jobs
    assert ids.filter(ids["job"].is_in(jobs))[LOG_ID].to_list() == ["2+0", "2+1"]


CONF = (
    "SelectType=select/cons_tres\nGresTypes=gpu\n"
    "NodeName=g[1-3] CPUs=4 Gres=gpu:2\nPartitionName=p Nodes=ALL Default=YES\n"
)
HEADER = "JobID|User|Submit|Start|End|State|TimelimitRaw|ReqTRES|AllocTRES|NodeList"


@needs_slurm
def test_components_start_and_end_together_on_what_slurm_gives_them(tmp_path: Path) -> None:
    rows = (
        "1|ann|{}:00:00|{}:00:00|{}:10:00|COMPLETED|20|cpu=4,node=1|cpu=4,node=1|g1",
        "5+0|ann|{}:01:00|{}:10:00|{}:11:00|COMPLETED|5|cpu=4,node=1|cpu=4,node=1|g1",
        "5+1|ann|{}:01:00|{}:10:00|{}:12:00|COMPLETED|5|cpu=8,node=2,gres/gpu=4|cpu=8,node=2,gres/gpu=4|g[2-3]",
        "6|ann|{}:01:30|{}:13:00|{}:14:00|COMPLETED|60|cpu=12,node=3|cpu=12,node=3|g[1-3]",
        "7+0|ann|{}:01:40|{}:13:00|{}:14:00|COMPLETED|5|cpu=4,node=1|cpu=4,node=1|g1",
        "7+1|ann|{}:01:40|{}:13:00|{}:14:00|COMPLETED|5|cpu=4,node=1|cpu=4,node=1|g2",
    )
    (tmp_path / "sacct.txt").write_text("\n".join((HEADER, *rows, "")).replace("{}", "2026-03-02T08"))
    (tmp_path / "slurm.conf").write_text(CONF)
    log = read_accounting(tmp_path / "sacct.txt", read_cluster(tmp_path / "slurm.conf"), Rules())
    facts = Replay(log).facts(resolve(f"slurm: {tmp_path / 'slurm.conf'}"), tmp_path / "printed")
    names = dict(log.jobs.select("job", LOG_ID).iter_rows())
    assert not facts.filter(pl.col("event").is_in([Fact.JOB_REFUSED, Fact.FAULT])).height

    def times(event: Fact) -> dict[str, float]:
        rows = facts.filter(pl.col("event") == event).select("job", "time_s").iter_rows()
        return {names[job]: time_s for job, time_s in rows}

    started, ended = times(Fact.RUN_STARTED), times(Fact.RUN_ENDED)
    assert started["1"] < 5
    assert started["5+0"] == started["5+1"] >= 600
    assert ended["5+1"] - ended["5+0"] == pytest.approx(60, abs=1)
    assert started["6"] >= ended["5+1"], "the nodes of the first component are free when the last one is over"
    assert started["7+0"] == started["7+1"] >= ended["6"]
