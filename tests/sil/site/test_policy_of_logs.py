"""Logs under a policy: with the nodes of a site, or as one node of the machine's size."""

from __future__ import annotations

from pathlib import Path

import pytest

import sil
from sil.site.logs import LogFile
from site_db.files.input_errors import InvalidFile
from site_db.jobs.records import Charged

CONF = (
    "PriorityType=priority/multifactor\nPriorityWeightFairshare=1000\nPreemptType=preempt/qos\n"
    "NodeName=n[1-2] CPUs=4\nPartitionName=a Nodes=ALL PriorityTier=2 MinNodes=2\n"
)
DUMP = (
    "Cluster - 'c'\nAccount - 'group-2':GrpWall=100\nParent - 'group-2'\nUser - 'user-1':Fairshare=3\n"
    "User - 'user-3'\n"
)
LOG = "; MaxProcs: 8\n" + "".join(
    f"{job} {job} 5 100 4 -1 900 4 200 -1 1 {user} {group} 7 1 2 -1 -1\n"
    for job, user, group in ((1, 1, 2), (2, 3, 2), (3, 1, 4), (4, 1, 4), (5, 3, -1), (6, 5, -1))
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"slurm.conf": CONF, "sacctmgr.cfg": DUMP, "log.swf": LOG}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_without_nodes_a_log_is_on_one_node_with_its_groups_as_accounts(folder: Path) -> None:
    log = sil.read_log(folder / "log.swf", policy=[folder / "slurm.conf", folder / "sacctmgr.cfg"])
    assert log.cluster is not None
    assert log.cluster.policy is not None
    assert [node.cores for node in log.cluster.nodes.values()] == [8]
    assert [log.charged[k] for k in log.jobs["charged"]] == [
        Charged(account, "") for account in ("group-2", "group-2", "group-4", "group-4", "", "")
    ]
    assert [request.memory_mib for request in log.requests] == [0]
    assert set(log.sources) == {"log.swf", "slurm.conf", "sacctmgr.cfg"}


def test_the_number_of_processors_may_be_given_and_one_file_stands_for_itself(folder: Path) -> None:
    log = sil.read_log(folder / "log.swf", policy=str(folder / "slurm.conf"), processors=16)
    assert log.processors == 16
    assert log.cluster is not None
    assert log.cluster.cores == 16


def test_jobs_of_users_who_are_not_in_their_accounts_are_counted(folder: Path) -> None:
    log = sil.read_log(folder / "log.swf", policy=[folder / "slurm.conf", folder / "sacctmgr.cfg"])
    assert log.notes[-1] == (
        "3 jobs of users who are not in their accounts by the policy, and run without shares and without "
        "limits of accounts: user-1 in group-4, user-5"
    )


def test_notes_on_nodes_leave_out_what_the_policy_has(folder: Path) -> None:
    conf, dump = folder / "slurm.conf", folder / "sacctmgr.cfg"
    without, under = LogFile(nodes=conf).cluster, LogFile(nodes=conf, policy=[conf, dump]).cluster
    assert without is not None
    assert under is not None
    order = "for the order of jobs, for preemption or for limits"
    assert [note.replace(f"{folder}/", "").partition(", because")[0] for note in without.notes][:2] == [
        "slurm.conf, line 5: ignored: PriorityTier=2 of PartitionName=a",
        "slurm.conf, line 5: ignored: MinNodes=2 of PartitionName=a",
    ]
    assert without.notes[2].startswith(f"3 settings of slurm.conf {order}")
    assert [note.replace(f"{folder}/", "").partition(", because")[0] for note in under.notes][::2] == [
        "slurm.conf, line 5: ignored: MinNodes=2 of PartitionName=a",
        "sacctmgr.cfg, line 2: ignored: GrpWall=100 of account group-2",
    ]
    assert under.notes[1].startswith(f"1 setting of slurm.conf {order} (PreemptType=preempt/qos)")


def test_accounting_needs_nodes_and_batsim_has_none(folder: Path) -> None:
    (folder / "sacct.txt").write_text("JobID|State|Start|End\n1|COMPLETED|1|2\n")
    (folder / "jobs.json").write_text('{"nb_res": 1, "jobs": [], "profiles": {}}')
    with pytest.raises(
        InvalidFile, match="this is Slurm's accounting, whose jobs request parts of nodes; name"
    ):
        sil.read_log(folder / "sacct.txt", policy=folder / "slurm.conf")
    with pytest.raises(
        InvalidFile, match=r"Batsim's workloads are for identical nodes; leave out .* policy="
    ):
        sil.read_log(folder / "jobs.json", policy=folder / "slurm.conf")


def test_keys_of_another_slurm_conf_than_that_of_the_policy_are_said_to_be_ignored(folder: Path) -> None:
    conf, other = folder / "slurm.conf", folder / "other.conf"
    other.write_text("NodeName=n1 CPUs=16\nPartitionName=p Nodes=n1 PriorityTier=9\n")
    cluster = sil.read_log(folder / "log.swf", nodes=other, policy=[conf, folder / "sacctmgr.cfg"]).cluster
    assert cluster is not None
    assert any("PriorityTier=9" in note for note in cluster.notes)


def test_jobs_of_a_qos_that_is_not_defined_are_counted(folder: Path) -> None:
    (folder / "qos.txt").write_text("Name|Priority\nnormal|0\n")
    row = "{}|user-1|a|{}|p|1772442000|1772442000|1772442005|1772446200|COMPLETED|90|cpu=1,node=1|n1"
    header = "JobID|User|Account|QOS|Partition|Submit|Eligible|Start|End|State|TimelimitRaw|ReqTRES|NodeList"
    rows = (header, row.format(1, "normal"), row.format(2, "typo"), "")
    (folder / "sacct.txt").write_text("\n".join(rows))
    (folder / "nodes.conf").write_text("NodeName=n1 CPUs=16\nPartitionName=p Nodes=n1\n")
    log = sil.read_log(folder / "sacct.txt", nodes=folder / "nodes.conf", policy=folder / "qos.txt")
    assert "1 job of QOS that the policy does not define, without limits: typo" in log.notes
