"""What a controller manages in the replay of a log: its users, their accounts, and jobs that are left out."""

from __future__ import annotations

from pathlib import Path

from sil.runs.slurm_on_log import slurm_world
from sil.settings.estimates import Estimates, run_times_by
from sil.slurm.world import SlurmWorld
from sil.workload.accounting import read_accounting
from sil.workload.swf_rules import Rules
from site_db.slurm_conf import read_cluster

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


def test_components_of_a_heterogeneous_job_are_left_out_with_a_sentence(tmp_path: Path) -> None:
    left_out = world_of(tmp_path).left_out
    assert len(left_out) == 2
    assert set(left_out.values()) == {
        "it is one of 2 components of the heterogeneous job 2, which Slurm starts together: not modelled "
        "under its controller"
    }
