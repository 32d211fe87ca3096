"""Logs under a policy: with the nodes of a site, or as one node of the machine's size."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import sil
from sil.experiment.log_sweep import LogSweep
from sil.gym.backfill import Episodes
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.settings.replays import Engine
from sil.site.logs import LogFile
from sil.trace.facts import Fact
from sil.workload.job_log import JobLog
from sil.workload.settings import Slicing
from site_db.files.input_errors import InvalidFile
from site_db.jobs.logged import Charged

CONF = (
    "PriorityType=priority/multifactor\nPriorityWeightFairshare=1000\nEnforcePartLimits=ALL\n"
    "NodeName=n[1-2] CPUs=4\nPartitionName=a Nodes=ALL PriorityTier=2 MinNodes=2\n"
)
DUMP = (
    "Cluster - 'c'\nAccount - 'group-2':GrpJobsAccrue=100\nParent - 'group-2'\nUser - 'user-1':Fairshare=3\n"
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
        "1 job whose user has no association in the policy, without its shares and limits: user-5"
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
        "sacctmgr.cfg, line 2: ignored: GrpJobsAccrue=100 of account group-2",
    ]
    assert under.notes[1].startswith(f"1 setting of slurm.conf {order} (EnforcePartLimits=ALL)")


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


HEADER = "JobID|User|Account|QOS|Partition|Submit|Eligible|Start|End|State|TimelimitRaw|ReqTRES|NodeList\n"
ROW = "{}|{}|a|{}|{}|1772442000|1772442000|1772442005|1772446200|COMPLETED|{}|cpu=1,mem=1G,node=1|n1\n"
NODES = (
    "NodeName=n1 CPUs=16\nPartitionName=p Nodes=n1 MaxTime=1-0\nPartitionName=q Nodes=n1 DefaultTime=3:0:0\n"
)
ENFORCE = "AccountingStorageEnforce={}\nPartitionName=p PriorityTier=2\nPartitionName=q\n"


def of_accounting(folder: Path, *rows: tuple[object, ...], **files: str) -> JobLog:
    """The jobs of some rows (id, user, QOS, partition, limit in minutes) under the policy of some files."""
    (folder / "sacct.txt").write_text(HEADER + "".join(ROW.format(*row) for row in rows))
    (folder / "nodes.conf").write_text(NODES)
    for name, text in files.items():
        (folder / name).write_text(text)
    return sil.read_log(
        folder / "sacct.txt", nodes=folder / "nodes.conf", policy=[folder / name for name in files]
    )


def refused(log: JobLog) -> list[str]:
    """Why jobs of a log are refused, by fcfs in the engine that is not compiled."""
    facts = Replay(log, engine=Engine.HARNESS).facts(resolve("fcfs"), Path("printed"))
    compiled = Replay(log, engine=Engine.COMPILED).facts(resolve("fcfs"), Path("printed"))
    assert facts.equals(compiled)
    return facts.filter(pl.col("event") == Fact.JOB_REFUSED)["detail"].to_list()


def test_jobs_of_a_qos_that_is_not_defined_are_counted(folder: Path) -> None:
    log = of_accounting(
        folder, (1, "u", "normal", "p", 90), (2, "u", "typo", "p", 90), qos="Name|Priority\nnormal|0\n"
    )
    note = "1 job whose QOS is not defined in the policy, without its shares and limits: typo"
    assert note in log.notes


QOS = "Name|Priority|MaxWall\nnormal|0|02:00:00\nhigh|1|\n"


@pytest.mark.parametrize(
    ("partition", "minutes", "limit_s", "reasons"),
    [
        ("p", "Partition_Limit", 7_200, []),  # the partition would allow a day
        ("p", "1439", 86_340, ["its time limit of 86,340 s is above 7,200 s"]),
        ("q", "Partition_Limit", 10_800, ["its time limit of 10,800 s is above 7,200 s"]),  # as Slurm does
    ],
)
def test_maxwall_is_the_limit_of_a_job_that_states_none_unless_its_partition_has_a_default(
    partition: str, minutes: str, limit_s: float, reasons: list[str], folder: Path
) -> None:
    conf = ENFORCE.format("limits,safe") + "PartitionName=other"
    dump = "Cluster - 'c':QOS='normal'\nAccount - 'a'\nParent - 'a'\nUser - 'u'\n"
    log = of_accounting(folder, (1, "u", "normal", partition, minutes), conf=conf, dump=dump, qos=QOS)
    assert log.jobs["estimate_s"].to_list() == [limit_s]
    assert [text.rpartition(": ")[2] for text in refused(log)] == reasons


def test_jobs_without_association_or_of_a_qos_that_is_not_permitted_are_refused_if_that_is_enforced(
    folder: Path,
) -> None:
    dump = "Cluster - 'c':QOS='normal'\nAccount - 'a'\nParent - 'a'\nUser - 'u'\n"
    jobs = (
        (1, "u", "normal", "p", 90),
        (2, "v", "", "p", 90),
        (3, "u", "high", "p", 90),
        (4, "u", "x", "p", 90),
    )
    found = {
        words: of_accounting(folder, *jobs, conf=ENFORCE.format(words), dump=dump, qos=QOS)
        for words in ("none", "associations", "qos")
    }
    of_user = "job 2 never starts: InvalidAccount: its user has no association in the policy (v in a)"
    of_qos = (
        "job 3 never starts: InvalidQOS: its QOS is none of its association (high of u)",
        "job 4 never starts: InvalidQOS: its QOS is not defined in the policy (x)",
    )
    expected = {"none": [], "associations": [of_user], "qos": [of_user, *of_qos]}
    assert {words: refused(log) for words, log in found.items()} == expected
    assert "1 job whose user has no association in the policy, refused: v in a" in found["qos"].notes


def test_a_policy_and_nodes_of_different_files_are_compared(folder: Path) -> None:
    conf = (
        "PriorityWeightAge=1\nSchedulerParameters=assoc_limit_stop\nPreemptMode=REQUEUE\n"
        "EnforcePartLimits=ALL\nPriorityWeightTRES=mem=1\nNodeName=n[1-2] CPUs=4\n"
        "PartitionName=p Nodes=ALL MaxTime=5 AllowQos=high PriorityJobFactor=3\n"
        "PartitionName=typo PriorityTier=2\n"
    )
    jobs = ((1, "u", "normal", "p", 90), (2, "u", "normal", "p,q", 90))
    log = of_accounting(folder, *jobs, conf=conf)
    assert log.cluster is not None
    notes = [note.replace(f"{folder}/", "") for note in (*log.cluster.notes, *log.notes)]
    lacking = "memory is no resource of the nodes (SelectTypeParameters)"
    assert f"conf, line 5: ignored: PriorityWeightTRES=mem=1 of slurm.conf, because {lacking}" in notes
    beginnings = [
        "2 lines of the policy's slurm.conf describe nodes, or what partitions have and allow",
        "conf, line 7: ignored: AllowQos=high of PartitionName=p",
        "1 setting of slurm.conf for the order of jobs, for preemption or for limits (EnforcePartLimits=ALL)",
        "conf, line 2: ignored: SchedulerParameters=assoc_limit_stop of slurm.conf",
        "the nodes have no partition typo of the policy",
        "the policy does not have the partition q of the nodes: PriorityTier and PriorityJobFactor are 1",
        "1 job of several partitions, with tier, job factor and QOS of the best one (slurm_backfill",
    ]
    for beginning in beginnings:
        assert sum(note.startswith(beginning) for note in notes) == 1, beginning


def test_sweeps_are_under_the_policy_of_their_logs_and_have_it_in_their_digests(folder: Path) -> None:
    conf = "PriorityWeightAge=1\nAccountingStorageEnforce={}\n"
    dump = "Cluster - 'c'\nAccount - 'a'\nParent - 'a'\nUser - 'u':MaxJobs={}\n"
    jobs = [(number, "u", "normal", "p", 90) for number in range(1, 4)]
    waits, digests = [], set()
    for enforced, most in (("none", 1), ("limits", 1), ("limits", 2)):
        log = of_accounting(folder, *jobs, conf=conf.format(enforced), dump=dump.format(most))
        waits.append(sil.sweep(log, "easy").table["waiting_time_mean"].to_list())
        digests.add(LogSweep((Slicing().sliced(log),), (resolve("easy"),)).digest())
    assert waits == [[0.0], [4_195.0], [4_195.0 / 3]]
    assert len(digests) == 3


def test_an_environment_refuses_a_log_with_a_policy_in_a_sentence(folder: Path) -> None:
    log = sil.read_log(folder / "log.swf", policy=[folder / "slurm.conf", folder / "sacctmgr.cfg"])
    with pytest.raises(sil.UserError, match="its jobs request parts of nodes, but the environment has"):
        Episodes(log, 2, 0.0)
