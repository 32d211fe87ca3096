"""The configuration made from an operator's slurm.conf: settings that are kept, replaced, and listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler import UserError
from sil.slurm.configuration import Configuration, configuration_of, gres_conf, read_configuration
from sil.slurm.running import running
from sil.slurm.settings.selection import Surroundings
from site_db.files.input_errors import InvalidFile
from site_db.slurm.values import changed
from tests.sil.slurm.installed import needs_slurm

CONF = Path(__file__).parent / "operator" / "slurm.conf"
HERE = Surroundings("/run", "me", 1001, 1002)


@pytest.fixture(scope="module")
def conf() -> Configuration:
    return read_configuration(CONF)


def of(text: str, folder: Path) -> Configuration:
    (folder / "slurm.conf").write_text(text)
    return read_configuration(folder / "slurm.conf")


def test_what_decides_where_and_when_jobs_run_is_kept_word_for_word(conf: Configuration) -> None:
    lines = conf.text(HERE).splitlines()
    for kept in (
        "SchedulerParameters=bf_window=4320,bf_continue,bf_max_job_test=2000,bf_interval=60",
        "PreemptType=preempt/partition_prio",
        "PriorityWeightFairshare=10000",
        "SelectTypeParameters=CR_Core_Memory",
        "NodeName=DEFAULT RealMemory=256000 State=UNKNOWN",
        "PartitionName=gpu Nodes=g[1-2] PriorityTier=20 PreemptMode=off",
    ):
        assert kept in lines


def test_nodes_keep_what_they_are_and_lose_their_addresses(conf: Configuration) -> None:
    here = ["127.0.0.1"]
    lines = conf.text(HERE).splitlines()
    assert f"NodeName=g[1-2] CPUs=32 Gres=gpu:a100:4 Weight=50 NodeAddr={','.join(here * 2)}" in lines
    assert (
        f"NodeName=n[01-08] CPUs=64 Sockets=2 CoresPerSocket=32 ThreadsPerCore=1 Weight=10 Feature=ib "
        f"NodeAddr={','.join(here * 8)}" in lines
    )
    assert conf.files["gres.conf"] == "AutoDetect=off\nNodeName=g[1-2] Name=gpu Type=a100 Count=4\n"


def test_a_type_of_gpus_may_begin_with_a_digit() -> None:
    assert gres_conf(["NodeName=g Gres=gpu:1g.5gb,gpu:3g.20gb:2"]) == (
        "AutoDetect=off\nNodeName=g Name=gpu Type=1g.5gb Count=1\nNodeName=g Name=gpu Type=3g.20gb Count=2\n"
    )


@pytest.mark.parametrize("name", ["default-[1-2]", "Default.a", "defaults"])
def test_a_node_whose_name_begins_with_default_is_a_node(name: str, tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(f"NodeName={name} CPUs=4 Gres=gpu:2\nPartitionName=a Nodes=ALL\n")
    conf = read_configuration(tmp_path / "slurm.conf")
    assert f"NodeName={name} CPUs=4 Gres=gpu:2 NodeAddr=127.0.0.1" in conf.text(HERE)
    assert f"NodeName={name} Name=gpu Count=2" in conf.files["gres.conf"]


def test_each_replaced_line_is_listed_with_its_place_and_the_reason(conf: Configuration) -> None:
    found = {str(item).removeprefix(f"{CONF.parent}/") for item in conf.replaced}
    assert (
        "slurm.conf, line 8: AuthType=auth/munge became (munge of the run, or none): it runs as the calling "
        "user, with credentials of its own" in found
    )
    assert (
        "slurm.conf, line 18: Prolog=/etc/slurm/prolog.d/* was left out: no programs run with jobs" in found
    )
    assert "nodes.conf, line 2: NodeAddr=10.0.1.[1-8] was left out: all nodes share an address" in found
    assert "nodes.conf, line 4: State=CLOUD became State=UNKNOWN: nodes do not save power" in found
    assert not any("SwitchType" in item for item in found), "it was so already"


def test_every_setting_of_the_file_is_either_kept_or_listed(conf: Configuration) -> None:
    listed = {item.old for item in conf.replaced}
    kept = " ".join(conf.lines).split()
    for path in (CONF, CONF.with_name("nodes.conf")):
        text = path.read_text().replace("\\\n", "")
        for line in text.splitlines():
            for word in line.partition("#")[0].split():
                is_ours = (
                    word.startswith(("Include", "SwitchType", "ReturnToService")) or "nodes.conf" in word
                )
                assert word in kept or word in listed or is_ours, word


def test_nothing_is_set_twice(conf: Configuration) -> None:
    keys = [line.partition("=")[0].lower() for line in conf.text(HERE).splitlines() if line]
    once = [key for key in keys if key not in ("nodename", "partitionname")]
    assert len(once) == len(set(once))


def test_options_of_the_scheduler_are_given_one_by_one(conf: Configuration) -> None:
    found = conf.with_settings(
        "SchedulerParameters=bf_window=2880,bf_resolution=60 PriorityType=priority/basic"
    )
    assert (
        "SchedulerParameters=bf_window=2880,bf_continue,bf_max_job_test=2000,bf_interval=60,bf_resolution=60"
        in found.lines
    )
    assert "PriorityType=priority/basic" in found.lines
    assert "PriorityType=priority/multifactor" not in found.lines
    assert str(found.replaced[-1]).endswith(
        "PriorityType=priority/multifactor became PriorityType=priority/basic: "
        "as given with the scheduler's name"
    )
    without = conf.with_settings("SchedulerParameters=")
    assert not any(line.startswith("SchedulerParameters") for line in without.lines)


def test_a_partition_keeps_what_is_called_like_a_setting_that_is_given(conf: Configuration) -> None:
    lines = conf.with_settings("PreemptMode=SUSPEND,GANG").lines
    assert "PreemptMode=SUSPEND,GANG" in lines
    assert "PreemptMode=REQUEUE" not in lines
    assert "PartitionName=gpu Nodes=g[1-2] PriorityTier=20 PreemptMode=off" in lines


def test_what_needs_accounting_is_left_out_without_it_and_listed(tmp_path: Path) -> None:
    text = (
        "AccountingStorageTRES=gres/gpu SchedulerType=sched/backfill\nNodeName=n1\nPartitionName=p Nodes=n1\n"
    )
    found = of(text, tmp_path)
    assert "SchedulerType=sched/backfill" in found.text(HERE).splitlines()
    assert [str(item).partition(": ")[2] for item in found.replaced] == [
        "AccountingStorageTRES=gres/gpu was left out: there is no accounting"
    ]


def test_an_option_is_replaced_by_its_name() -> None:
    assert changed("schedulerparameters", "a=1, b,c=3", "c=4,d") == "a=1,b,c=4,d"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            "SlurmctldPort=1",
            "SlurmctldPort cannot be set: the controller runs here, on loopback; leave it out",
        ),
        (
            "NodeName=n1",
            "NodeName cannot be set with the scheduler's name; change it in a copy of slurm.conf",
        ),
        ("bf_window", "'bf_window' in 'bf_window' is no setting of slurm.conf"),
    ],
)
def test_a_setting_that_cannot_be_given_is_rejected(
    conf: Configuration, settings: str, sentence: str
) -> None:
    with pytest.raises(UserError) as caught:
        conf.with_settings(settings)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("AccountingStorageEnforce=limits", True),
        ("PriorityType=priority/multifactor\nPriorityWeightFairshare=100", True),
        ("PriorityType=priority/multifactor\nPriorityWeightAge=100", False),
        ("PreemptType=preempt/qos", True),
        ("AccountingStorageType=accounting_storage/slurmdbd", False),
    ],
)
def test_accounting_is_needed_for_fair_share_and_qos_only(text: str, needs: bool, tmp_path: Path) -> None:
    assert of(f"{text}\nNodeName=n1 CPUs=1\nPartitionName=p Nodes=n1\n", tmp_path).needs_accounting is needs


def test_topology_comes_with_its_file(tmp_path: Path) -> None:
    text = "TopologyPlugin=topology/tree\nNodeName=n[1-2] CPUs=1\nPartitionName=p Nodes=ALL\n"
    with pytest.raises(InvalidFile, match=r"needs topology\.conf beside it; add that file$"):
        of(text, tmp_path)
    (tmp_path / "topology.conf").write_text("SwitchName=s1 Nodes=n[1-2]\n")
    assert of(text, tmp_path).files["topology.conf"] == "SwitchName=s1 Nodes=n[1-2]\n"


def test_a_file_without_nodes_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="there is no node; expected lines like"):
        of("ClusterName=x\n", tmp_path)


def test_the_default_is_slurms_own_with_backfilling() -> None:
    assert "SchedulerType=sched/backfill" in configuration_of(100).lines
    assert not any("SchedulerParameters" in line for line in configuration_of(100).lines)


@needs_slurm
def test_slurmctld_runs_with_what_is_kept(conf: Configuration) -> None:
    with running(
        conf.with_settings("PriorityType=priority/basic AccountingStorageEnforce="), 1.6e9
    ) as controller:
        shown = controller.slurm("scontrol", "show", "config")
        assert "bf_window=4320,bf_continue,bf_max_job_test=2000,bf_interval=60" in shown
        nodes = controller.slurm("sinfo", "--noheader", "--format=%P %D %G %l").splitlines()
        assert nodes == ["batch* 12 (null) 2-00:00:00", "gpu 2 gpu:a100:4 2-00:00:00"]
