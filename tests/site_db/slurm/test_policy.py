"""The policy of a site, from slurm.conf and from what Slurm's accounting says."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pytest

from scheduler.priority.policy import (
    PARENT,
    Association,
    Multifactor,
    PartitionPolicy,
    Preempted,
    Preemption,
    PreemptMode,
    QualityOfService,
    ResourceLimits,
    SitePolicy,
    Weights,
)
from site_db.files.input_errors import InvalidFile
from site_db.slurm.policy import read_policy

CONF, DUMP, QOS, SHARES = "slurm.conf", "sacctmgr.cfg", "qos.txt", "sshare.txt"
TREE = (
    "Cluster - 'c':Fairshare=1:QOS='normal':MaxJobs=50",
    "Parent - 'root'",
    "Account - 'physics':Fairshare=3:GrpTRES=cpu=100,gres/gpu=2:GrpJobs=10:Priority=7:QOS='high,normal'",
    "Parent - 'physics'",
    "Account - 'Theory':Fairshare=2:MaxTRESPerJob=cpu=8,mem=4G",
    "User - 'Ann':Fairshare=1",
    "Parent - 'theory'",
    "User - 'Ann':DefaultAccount='theory':Fairshare=2147483647:MaxJobs=3:MaxWallDurationPerJob=60:"
    "QOS='normal'",
)
QUALITIES = (
    "Name|Priority|Preempt|Flags|UsageFactor|GrpTRES|GrpSubmit|MaxWall|MaxTRESPU|MaxJobsPU|MaxSubmitPA",
    "normal|0|||1.000000||||||",
    "high|1000|normal|DenyOnLimit,NoDecay|2.000000|cpu=3,gres/gpu=2|9|1-00:00:00|mem=4G|2|7",
)


def read(folder: Path, **files: tuple[str, ...]) -> SitePolicy:
    """The policy of files, by their keyword: conf, dump, qos, shares."""
    names = {"conf": CONF, "dump": DUMP, "qos": QOS, "shares": SHARES}
    paths = [folder / names[kind] for kind in files]
    for path, lines in zip(paths, files.values(), strict=True):
        path.write_text("\n".join((*lines, "")))
    return read_policy(paths)


def test_limits_on_a_node_are_those_of_an_association_and_of_the_account_above_it(tmp_path: Path) -> None:
    lines = (
        "Account - 'a':MaxTRESPerNode=cpu=4,mem=2G",
        "Parent - 'a'",
        "User - 'ann':DefaultAccount='a':MaxTRESPerNode=cpu=2",
    )
    tree = read(tmp_path, dump=(*TREE[:2], *lines)).associations
    (ann,) = (each for each in tree if each.user == "ann")
    assert ann.job.per_node == {"cpu": 2, "mem": 2048}


def refusal(folder: Path, **files: tuple[str, ...]) -> str:
    with pytest.raises(InvalidFile) as caught:
        read(folder, **files)
    return str(caught.value).replace(f"{folder}/", "")


def test_weights_times_and_flags_of_priorities_are_those_of_slurm_conf(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        conf=(
            "PriorityType=priority/multifactor PriorityDecayHalfLife=14-0 PriorityMaxAge=7-12",
            "priorityweightfairshare = 10000",
            "PriorityWeightAge=1 PriorityWeightAssoc=2 PriorityWeightJobSize=3",
            "PriorityWeightPartition=4 PriorityWeightQOS=5 PriorityWeightTRES=CPU=6,Mem=7,GRES/gpu=8",
            "PriorityFlags=NO_FAIR_TREE,small_relative_to_time,NO_NORMAL_QOS,NO_NORMAL_TRES",
            "PriorityCalcPeriod=00:02:00 PriorityFavorSmall=YES FairShareDampeningFactor=5",
            "PriorityUsageResetPeriod=NONE",
        ),
    )
    tres = {"cpu": 6.0, "mem": 7.0, "gres/gpu": 8.0}
    assert found.multifactor == Multifactor(
        Weights(1.0, 2.0, 10_000.0, 3.0, 4.0, 5.0, tres),
        half_life_s=14 * 86_400.0,
        max_age_s=7.5 * 86_400.0,
        period_s=120.0,
        fair_tree=False,
        dampening=5.0,
        favours_small=True,
        relative_to_time=True,
        not_normalised=("qos", "tres"),
    )
    assert [note.partition(",")[0] for note in found.notes] == [
        "there are no associations",
        "no QOS is defined",
    ]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("PriorityType=priority/multifactor", Multifactor()),
        ("PriorityType=priority/basic PriorityWeightAge=1", None),
        ("ClusterName=c", None),
        ("PriorityWeightAge=1", Multifactor(Weights(age=1.0))),
        ("PriorityWeightAge=1 PriorityDecayHalfLife=0", Multifactor(Weights(age=1.0), half_life_s=inf)),
        ("PriorityWeightAge=1 PriorityMaxAge=0", Multifactor(Weights(age=1.0), max_age_s=1.0)),
        ("PriorityWeightAge=1 PriorityCalcPeriod=3", Multifactor(Weights(age=1.0), period_s=180.0)),
    ],
)
def test_defaults_are_those_of_slurm(lines: str, expected: Multifactor | None, tmp_path: Path) -> None:
    assert read(tmp_path, conf=(lines,)).multifactor == expected


@pytest.mark.parametrize(
    ("words", "enforced"),
    [
        ("limits", "associations limits"),
        ("qos,nojobs", "associations qos"),
        ("none", ""),
        ("2", "associations limits"),
        ("Associations", "associations"),
        ("all", "associations limits qos safe"),
        ("safe", "associations limits safe"),
    ],
)
def test_what_is_enforced_follows_from_each_word(words: str, enforced: str, tmp_path: Path) -> None:
    found = read(tmp_path, conf=(f"AccountingStorageEnforce={words}",))
    assert [*found.enforces] == enforced.split()


def test_partitions_have_tiers_factors_a_qos_and_billing_also_by_default_and_include(tmp_path: Path) -> None:
    (tmp_path / "partitions.conf").write_text("PartitionName=b PriorityTier=1 TRESBillingWeights=cpu=2\n")
    found = read(
        tmp_path,
        conf=(
            'PartitionName=DEFAULT PriorityTier=3 TRESBillingWeights="CPU=1.0,Mem=0.25G,GRES/gpu=2,mem=0.5"',
            "PartitionName=a PriorityJobFactor=7 QOS=High",
            "Include partitions.conf",
            "PartitionName=c Priority=9",
        ),
    )
    weights = {"cpu": 1.0, "mem": 0.5, "gres/gpu": 2.0}
    assert found.partitions == {
        "a": PartitionPolicy(3, 7, "high", weights),
        "b": PartitionPolicy(1, 1, "", {"cpu": 2.0}),
        "c": PartitionPolicy(3, 9, "", weights),
    }


def test_a_weight_of_memory_is_of_a_mib_whatever_its_unit(tmp_path: Path) -> None:
    found = read(tmp_path, conf=("PartitionName=a TRESBillingWeights=mem=0.25G,cpu=1K",))
    assert found.partitions["a"].billing == {"mem": 0.25 / 1024, "cpu": 1 / 1024}


def test_associations_are_the_tree_of_a_dump_with_what_they_inherit(tmp_path: Path) -> None:
    found = read(tmp_path, dump=TREE)
    of_all = ResourceLimits(running=50)
    job = ResourceLimits({"cpu": 8, "mem": 4096})
    both = ("normal", "high")
    assert found.associations == (
        Association("root", parent="", own=of_all, qos=("normal",)),
        Association(
            "physics", shares=3, priority=7, own=of_all, qos=both,
            group=ResourceLimits({"cpu": 100, "gres/gpu": 2}, running=10),
        ),
        Association("theory", "", "physics", 2, 7, own=of_all, job=job, qos=both),
        Association(
            "theory", "Ann", "theory", PARENT, 7, own=ResourceLimits(running=3), qos=("normal",),
            job=ResourceLimits({"cpu": 8, "mem": 4096}, wall_s=3600.0),
        ),
        Association("physics", "Ann", "physics", 1, 7, own=of_all, qos=both),
        Association("root", "root", "root", own=of_all, qos=("normal",)),
    )  # fmt: skip


def test_a_dump_may_have_comments_continued_lines_quotes_and_types_of_tres(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        dump=(
            "# To edit this file start with a cluster line",
            "Cluster - c",
            "Account - 'a':Description='It: all, and \\#1':Organization=\"o's\":\\",
            "GrpTRES=gres/gpu:a100=4,cpu=2:GrpJobs=-1:MaxWall='1-12:00:00':Share=4",
            "Project - 'b':MaxNodes=3:MaxCPUsPerJob=8:GrpMem=2G:GrpTRES=cpu=1",
        ),
    )
    _, a, b, _ = found.associations
    assert (a.shares, a.group, a.job) == (4, ResourceLimits({"cpu": 2}), ResourceLimits(wall_s=129_600.0))
    assert (b.job.tres, b.group.tres) == ({"node": 3, "cpu": 8}, {"mem": 2048, "cpu": 1})


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ("", "normal high low"),
        ("DefaultQOS=low", "low normal high"),
        ("QOS='-low,+new'", "normal high new"),
        ("QOS=new,low", "new low"),
        ("QOS+=new", "normal high low new"),
        ("QOS=low:DefQOS=high", "low"),
    ],
)
def test_the_first_qos_is_the_default_as_in_slurm(settings: str, names: str, tmp_path: Path) -> None:
    found = read(tmp_path, dump=("Cluster - 'c':QOS='High,low,normal'", f"User - 'u':{settings}"))
    assert found.associations[1].qos == tuple(names.split())


def test_qualities_of_service_have_limits_of_all_of_each_user_and_account_and_of_a_job(
    tmp_path: Path,
) -> None:
    found = read(tmp_path, qos=QUALITIES)
    high = QualityOfService(
        "high",
        1000,
        group=ResourceLimits({"cpu": 3, "gres/gpu": 2}, submitted=9),
        of_user=ResourceLimits({"mem": 4096}, running=2),
        of_account=ResourceLimits(submitted=7),
        job=ResourceLimits(wall_s=86_400.0),
        usage_factor=2.0,
        preempts=("normal",),
    )
    assert found.qualities == {"normal": QualityOfService("normal"), "high": high}


def test_qualities_of_service_in_a_dump_count_unless_another_file_has_them(tmp_path: Path) -> None:
    dump = (
        "QOS - 'normal':Description='Normal: default'",
        "QOS - 'high':Description='x':GrpTRES=cpu=3:MaxSubmitJobsPA=7:MaxTRESPerUser=node=2:UsageFactor=0.5",
        *TREE,
    )
    alone, both = read(tmp_path, dump=dump), read(tmp_path, dump=dump, qos=QUALITIES)
    assert alone.qualities["high"] == QualityOfService(
        "high",
        group=ResourceLimits({"cpu": 3}),
        of_user=ResourceLimits({"node": 2}),
        of_account=ResourceLimits(submitted=7),
        usage_factor=0.5,
    )
    assert both.qualities == read(tmp_path, qos=QUALITIES).qualities


def test_preemption_is_that_of_slurm_conf_of_partitions_and_of_qualities_of_service(tmp_path: Path) -> None:
    conf = (
        "PreemptType=preempt/qos",
        "PreemptMode=CANCEL,GANG",
        "PreemptExemptTime=00:01:00",
        "PreemptParameters=youngest_first,reorder_count=3",
        "PartitionName=a PreemptMode=OFF GraceTime=120",
    )
    qos = (
        "Name|Preempt|PreemptMode|PreemptExemptTime|GraceTime",
        "normal||cluster||00:00:00",
        "low||suspend|00:02:00|00:05:00",
        "high|low,normal|off||",
    )
    found = read(tmp_path, conf=conf, qos=qos)
    assert found.preemption == Preemption(False, PreemptMode.CANCEL, 60.0, youngest_first=True)
    assert found.partitions["a"].preempted == Preempted(PreemptMode.OFF, 120)
    assert found.qualities["low"].preempted == Preempted(PreemptMode.SUSPEND, 300.0, 120.0)
    assert found.qualities["high"].preempts == ("low", "normal")
    assert found.qualities["high"].preempted == Preempted()  # Slurm takes that of the site for OFF
    said = "\n".join(found.notes)
    for what in ("do not share CPUs by turns", "reorder_count"):
        assert what in said


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("PreemptType=preempt/qos",), "PreemptType=preempt/qos needs a PreemptMode, like REQUEUE or CANCEL"),
        (("PreemptType=preempt/age",), "expected preempt/none, preempt/qos or preempt/partition_prio"),
        (("PreemptType=preempt/qos", "PreemptMode=KILL"), "expected a list of OFF, CANCEL, REQUEUE"),
    ],
)
def test_preemption_that_slurm_refuses_is_refused(
    lines: tuple[str, ...], expected: str, tmp_path: Path
) -> None:
    assert expected in refusal(tmp_path, conf=lines)


def test_the_usage_of_an_account_is_what_is_not_of_those_below(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        dump=TREE,
        shares=(
            "Account|User|RawShares|NormShares|RawUsage|EffectvUsage|FairShare|GrpTRESRaw",
            "root|||0.000000|1000|1.000000||",
            " physics||3|0.600000|900|0.900000||cpu=15,mem=2048,energy=0,license/x=7",
            "  physics|Ann|1|0.6|200|0.2|0.0|",
            "  theory||2|1.0|600|0.6||",
            "   theory|Ann|parent|0.8|400|0.4|0.0|",
            "   theory|gone|1|0.8|0|0.4|0.0|",
        ),
    )
    assert [each.used for each in found.associations if each.used] == [{"cpu": 15.0, "mem": 2048.0}]
    usage = {(each.account, each.user): each.usage for each in found.associations}
    assert usage == {
        ("root", ""): 100.0, ("physics", ""): 100.0, ("physics", "Ann"): 200.0, ("theory", ""): 200.0,
        ("theory", "Ann"): 400.0, ("root", "root"): 0.0,
    }  # fmt: skip


def test_each_kind_of_setting_that_is_not_modelled_has_a_sentence(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        conf=(
            "PriorityWeightAge=1 PriorityUsageResetPeriod=MONTHLY PriorityFlags=MAX_TRES,ACCRUE_ALWAYS",
            "AccountingStorageEnforce=safe",
            "PartitionName=a TRESBillingWeights=license/matlab=2",
        ),
        dump=(
            "Cluster - 'c':GrpJobsAccrue=5:GrpTRES=license/matlab=2:GrpTRESMins=cpu=1000",
            "User - 'u':Partition='p':MaxNewLimit=3",
            "User - 'v':Partition='p':GrpJobsAccrue=6",
            "User - 'v':Partition='q'",
        ),
        qos=QUALITIES,
    )
    of_tres = "limits and weights are those of cpu, mem, node, gres/gpu, billing"
    assert [note.replace(f"{tmp_path}/", "").replace(", because ", "|") for note in found.notes] == [
        "usage is set to 0 monthly (PriorityUsageResetPeriod) in logs whose dates are known, and elsewhere "
        "never",
        "qos.txt, line 3: ignored: Flags=NoDecay of QOS high|it is not modelled",
        f"slurm.conf, line 3: ignored: TRESBillingWeights=license/matlab=2 of partition a|{of_tres}",
        "slurm.conf, line 1: ignored: PriorityFlags=MAX_TRES of slurm.conf|a job is billed for the sum of "
        "its TRES",
        "slurm.conf, line 1: ignored: PriorityFlags=ACCRUE_ALWAYS of slurm.conf|it is not modelled",
        "sacctmgr.cfg, line 1: ignored: GrpJobsAccrue=5 of the cluster|the number of jobs that age has no "
        "limits (2 such settings)",
        f"sacctmgr.cfg, line 1: ignored: GrpTRES=license/matlab=2 of the cluster|{of_tres}",
        "sacctmgr.cfg, line 2: ignored: MaxNewLimit=3 of user u in account root|it is not known",
        "sacctmgr.cfg, line 2: ignored: Partition=p of user u in account root|users may do the same in all "
        "partitions (3 such settings)",
    ]


def test_the_parameters_of_the_schedulers_are_those_of_slurm_conf_and_others_have_a_note_each(
    tmp_path: Path,
) -> None:
    listed = "bf_window=2880,BF_Interval=60,bf_resolution=0,sched_interval=-1,bf_continue,max_rpc_cnt=9,defer"
    listed += ",max_switch_wait=60"
    found = read(tmp_path, conf=(f"SchedulerParameters={listed}",))
    assert found.scheduling == {"bf_window": 2880, "bf_interval": 60}
    beyond = "it is not in Slurm's range, or switches a scheduler off"
    assert [note.partition("ignored: ")[2].replace(", because ", "|") for note in found.notes] == [
        f"SchedulerParameters=bf_resolution=0 of slurm.conf|{beyond}",
        f"SchedulerParameters=sched_interval=-1 of slurm.conf|{beyond}",
        "SchedulerParameters=bf_continue of slurm.conf|decisions take no time",
        "SchedulerParameters=max_rpc_cnt=9 of slurm.conf|it is not modelled",
        "SchedulerParameters=defer of slurm.conf|it is not modelled",
        "SchedulerParameters=max_switch_wait=60 of slurm.conf|it counts in the slurm.conf of the nodes, "
        "beside its topology.conf",
    ]


def test_without_backfilling_in_slurm_conf_there_is_none_and_a_note_says_so(tmp_path: Path) -> None:
    found = read(tmp_path, conf=("SchedulerType=sched/builtin",))
    assert found.scheduling == {"bf_max_job_test": 0}
    assert "SchedulerType=sched/builtin of slurm.conf, because only slurm_backfill" in found.notes[0]


def test_limits_of_minutes_have_old_names_too_and_a_node_that_jobs_share_is_said_to_count_for_each(
    tmp_path: Path,
) -> None:
    found = read(
        tmp_path,
        conf=("AccountingStorageEnforce=limits",),
        dump=(
            "Cluster - 'c':GrpCPUMins=5:GrpCPURunMins=6:MaxCPUMinsPerJob=7:GrpNodes=3:MaxNodes=2:GrpWall=1-0",
            "User - 'u':MaxTRESMins=mem=1G:MaxTRESRunMins=cpu=1",
        ),
        qos=("Name|GrpTRESMins|MaxTRESRunMinsPU|MaxTRESRunMinsPA", "x|billing=9,cpu=8|cpu=3|node=4"),
    )
    of_all, of_user, *_ = found.associations[:1] + found.associations[-2:-1]
    assert of_all.group == ResourceLimits(
        {"node": 3.0}, minutes={"cpu": 5.0, "wall": 1440.0}, minutes_to_run={"cpu": 6.0}
    )
    assert of_user.job == ResourceLimits({"node": 2.0}, minutes={"cpu": 7.0, "mem": 1024.0})
    x = found.qualities["x"]
    assert (x.group.minutes, x.of_user.minutes_to_run) == ({"billing": 9.0, "cpu": 8.0}, {"cpu": 3.0})
    assert x.of_account.minutes_to_run == {"node": 4.0}
    assert [note.replace(f"{tmp_path}/", "") for note in found.notes] == [
        "approximate: GrpTRESMins and GrpWall, because runs go on once they are used up, and Slurm ends "
        "these, unless AccountingStorageEnforce has safe"
    ]


def test_the_flag_of_a_qos_that_comes_before_that_of_the_partition_is_read(tmp_path: Path) -> None:
    found = read(tmp_path, qos=("Name|Flags", "x|DenyOnLimit,OverPartQOS", "y|DenyOnLimit"))
    assert [found.qualities[name].over_partition for name in "xy"] == [True, False]
    assert not any("Flags" in note for note in found.notes)


def test_a_row_with_more_values_than_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="line 2: there are 3 values; expected 2, as in the first line"):
        read(tmp_path, qos=("Name|Flags", "x|a|b"))


def test_a_wall_time_of_0_is_a_limit_and_a_grace_time_of_0_says_nothing(tmp_path: Path) -> None:
    found = read(tmp_path, conf=("ClusterName=c",), qos=("Name|GraceTime|MaxWall", "none|00:00:00|00:00:00"))
    assert found.qualities["none"].job.wall_s == 0
    assert not found.notes


def test_without_slurm_conf_a_note_says_what_follows(tmp_path: Path) -> None:
    (note,) = read(tmp_path, dump=TREE).notes
    assert note.startswith(
        "no slurm.conf is among the files of the policy, so that jobs are served in the order"
    )


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("PriorityWeightAge=many", "PriorityWeightAge of slurm.conf is 'many'; expected a number of at leas"),
        ("PriorityWeightAges=5", "PriorityWeightAges is no key of Slurm; did you mean PriorityWeightAge?"),
        ("PriortyMaxAge=7-0", "PriortyMaxAge is no key of Slurm; did you mean PriorityMaxAge?"),
        ("PriorityType=multifactor", "PriorityType of slurm.conf is 'multifactor'; expected priority/basic"),
        ("PriorityWeightAge=1 PriorityMaxAge=old", "PriorityMaxAge of slurm.conf is 'old'; expected minutes"),
        ("PriorityWeightAge=1 PriorityCalcPeriod=0", "PriorityCalcPeriod of slurm.conf is '0'; expected a t"),
        ("PriorityWeightAge=1 PriorityFavorSmall=maybe", "PriorityFavorSmall of slurm.conf is 'maybe'; expe"),
        ("PriorityWeightAge=1 PriorityFlags=FAIRTREE", "PriorityFlags of slurm.conf is 'FAIRTREE'; expected"),
        ("AccountingStorageEnforce=limit", "AccountingStorageEnforce of slurm.conf is 'limit'; expected a l"),
        ("FairShareDampeningFactor=0 PriorityWeightAge=1", "FairShareDampeningFactor of slurm.conf is '0';"),
        ("PriorityWeightTRES=gpu=5", "PriorityWeightTRES of slurm.conf is 'gpu=5'; expected TRES with numbe"),
        ("PriorityWeightTRES=cpu=x", "PriorityWeightTRES=cpu of slurm.conf is 'x'; expected a number of at"),
        ("SchedulerParameters=bf_window=1d", "SchedulerParameters=bf_window of slurm.conf is '1d'; expected"),
        ("PartitionName=a PriorityTeir=5", "PartitionName=a has PriorityTeir=5, which is no key of Slurm; e"),
        ("PartitionName=a PriorityTier=x", "prioritytier is 'x'; expected a whole number, at most 2,147,483"),
        ("PartitionName=a QOS=hihg", "QOS of partition a has 'hihg', which is not defined; expected one of"),
    ],
)
def test_what_is_wrong_in_slurm_conf_is_refused_with_its_line(
    line: str, sentence: str, tmp_path: Path
) -> None:
    said = refusal(tmp_path, conf=("ClusterName=c", line), qos=QUALITIES)
    assert said.startswith(f"slurm.conf, line 2: {sentence}")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "Parent - 'b'",
            "Parent of what follows is 'b'; expected an account that has a line, like Account - 'b'",
        ),
        (
            "User - 'u':DefaultAccount=b",
            "DefaultAccount of user u in account a is 'b'; expected an account that has",
        ),
        (
            "User - 'u':QOS=hihg",
            "QOS of user u in account a has 'hihg', which is not defined; expected one of high, n",
        ),
        (
            "User - 'u':DefaultQOS=hihg",
            "DefaultQOS of user u in account a has 'hihg', which is not defined; expected",
        ),
        (
            "User - 'u':MaxJobs=many",
            "MaxJobs of user u in account a is 'many'; expected a whole number, or -1 for no",
        ),
        (
            "User - 'u':Fairshare=all",
            "Fairshare of user u in account a is 'all'; expected a whole number, or -1 for",
        ),
        (
            "User - 'u':MaxJobss=1",
            "user u in account a has MaxJobss=1, which is no setting of Slurm; expected MaxJobs",
        ),
        ("User - 'u':MaxJobsPU=1", "user u in account a has MaxJobsPerUser, which is not for it; remove it"),
        (
            "User - 'u':GrpTRES=cpus=1",
            "GrpTRES of user u in account a is 'cpus=1'; expected TRES with numbers, like",
        ),
        (
            "User - 'u':GrpTRES=cpu=many",
            "GrpTRES=cpu of user u in account a is 'many'; expected a number of at least",
        ),
        (
            "User - 'u':MaxWall=1-00:00:00",
            "'00' is not of the form Key=value; expected that, and quotes around",
        ),
        (
            "User - 'u':MaxWall='soon'",
            "MaxWall of user u in account a is 'soon'; expected minutes, hours:minutes:sec",
        ),
        ("User - 'u':Comment='it", "the quote in ''it' does not end; add its end"),
        ("Account - 'A'", "account A is defined twice; expected one line"),
        ("Cluster - 'd'", "the cluster is defined twice; expected one line"),
        ("Group - 'd'", "Group is none of Cluster, QOS, Parent, Account and User"),
        ("hello", "'hello'; expected a line like Account - 'physics':Fairshare=1"),
    ],
)
def test_what_is_wrong_in_a_dump_is_refused_with_its_line(line: str, sentence: str, tmp_path: Path) -> None:
    said = refusal(tmp_path, dump=("Cluster - 'c'", "Account - 'a'", "Parent - 'a'", line), qos=QUALITIES)
    assert said.startswith(
        f"sacctmgr.cfg, line 4: {sentence.replace('MaxWall of', 'MaxWallDurationPerJob of')}"
    )


def test_a_dump_begins_with_its_cluster(tmp_path: Path) -> None:
    sentence = "there is no cluster before it; expected a line like Cluster - 'name'"
    assert refusal(tmp_path, dump=("Account - 'a'",)) == f"sacctmgr.cfg, line 1: {sentence}"


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ("", "its first line is ''"),
        ("hello", "its first line is 'hello'"),
        ("a|b", "its first line is 'a|b'"),
    ],
)
def test_a_file_of_another_form_is_refused(first: str, said: str, tmp_path: Path) -> None:
    assert refusal(tmp_path, conf=(first,)) == (
        f"slurm.conf: {said}; expected a slurm.conf, or what 'sacctmgr dump CLUSTER' writes, what 'sacctmgr "
        f"--parsable2 show qos' prints or what 'sshare -a --parsable2' prints"
    )


def test_two_files_of_one_form_are_refused(tmp_path: Path) -> None:
    said = refusal(tmp_path, conf=("ClusterName=c",), shares=("ClusterName=d",))
    assert said == "sshare.txt: this is a slurm.conf, as is slurm.conf; expected one file of each form"


def test_usage_needs_associations_and_is_a_number(tmp_path: Path) -> None:
    columns = "Account|User|RawUsage"
    assert refusal(tmp_path, shares=(columns, "a||1")).startswith(
        "sshare.txt: there are no associations that have this usage; give what 'sacctmgr dump CLUSTER' writes"
    )
    said = refusal(tmp_path, dump=TREE, shares=(columns, "root||1", " physics|Ann|much"))
    assert said == "sshare.txt, line 3: RawUsage of physics, Ann is 'much'; expected a number of at least 0"


def test_usage_that_the_associations_do_not_have_is_noted(tmp_path: Path) -> None:
    found = read(tmp_path, conf=("ClusterName=c",), dump=TREE, shares=("Account|User|RawUsage", "gone|eve|7"))
    assert [note.replace(f"{tmp_path}/", "") for note in found.notes] == [
        "sshare.txt, line 2: ignored: RawUsage=7 of gone, eve, because the associations do not have it"
    ]


def test_suspension_needs_gang_and_by_qos_a_note_says_who_takes_no_turns(tmp_path: Path) -> None:
    conf = ("PreemptType=preempt/qos", "PreemptMode=suspend,gang")
    found = read(tmp_path, conf=conf)
    assert found.preemption == Preemption(False, PreemptMode.SUSPEND)
    assert any("until it ends, instead of by turns" in note for note in found.notes)
    by_tier = read(tmp_path, conf=("PreemptType=preempt/partition_prio", "PreemptMode=SUSPEND,GANG"))
    assert not any("turns" in note for note in by_tier.notes)
    with pytest.raises(InvalidFile, match="expected SUSPEND,GANG: Slurm lets no job continue without GANG"):
        read(tmp_path, conf=(conf[0], "PreemptMode=SUSPEND"))
