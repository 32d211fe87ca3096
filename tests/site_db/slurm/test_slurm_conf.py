from __future__ import annotations

import re
from pathlib import Path

import pytest

from scheduler.node_request import Node, Partition, Request
from site_db.files.input_errors import InvalidFile
from site_db.site_file.cluster import SiteNodes
from site_db.slurm_conf import read_cluster


def cluster(folder: Path, *lines: str) -> SiteNodes:
    path = folder / "slurm.conf"
    path.write_text("\n".join(lines) + "\n")
    return read_cluster(path)


def the_sentence(folder: Path, *lines: str) -> str:
    with pytest.raises(InvalidFile) as caught:
        cluster(folder, *lines)
    return str(caught.value).removeprefix(f"{folder}/slurm.conf, ")


def test_nodes_have_cpus_memory_gpus_by_type_other_resources_and_features(tmp_path: Path) -> None:
    found = cluster(
        tmp_path,
        "NodeName=g[01-02] CPUs=64 RealMemory=512000 MemSpecLimit=2000 Feature=nvlink,ib "
        "Gres=gpu:a100:4(S:0-1),gpu:h100:1,fpga:2,shard:40,ram:2K,scratch:1T",
    )
    others = {"fpga": 2, "ram": 2 * 2**10, "scratch": 2**40}
    node = Node(64, 510_000, ("a100",) * 4 + ("h100",), others, frozenset({"nvlink", "ib"}), frozenset())
    assert found.nodes == {"g01": node, "g02": node}


TOPOLOGY = "Sockets=2 CoresPerSocket=8 ThreadsPerCore=2"


@pytest.mark.parametrize(
    ("line", "cores", "threads"),
    [
        (TOPOLOGY, 32, 2),
        (f"CPUs=16 {TOPOLOGY}", 16, 1),  # cores: threads are not allocated
        (f"CPUs=2 {TOPOLOGY}", 2, 1),
        (f"CPUs=30 {TOPOLOGY}", 32, 2),
        ("CPUs=7 SocketsPerBoard=2 Boards=2 CoresPerSocket=2", 8, 1),
        ("CPUs=12 CoresPerSocket=8", 8, 1),
        ("CPUs=16 CoresPerSocket=8", 16, 1),
        ("CPUs=32 CoresPerSocket=8 ThreadsPerCore=2", 32, 2),
        ("CPUs=5", 5, 1),
        ("CPUs=16 CoreSpecCount=2", 14, 1),  # jobs do not get the cores of the system
        (f"{TOPOLOGY} CoreSpecCount=1", 30, 2),
        (f"CPUs=16 {TOPOLOGY} CoreSpecCount=1", 15, 1),
        ("CPUs=16 CpuSpecList=0-1,8", 13, 1),
    ],
)
def test_cpus_are_counted_as_in_slurm(line: str, cores: int, threads: int, tmp_path: Path) -> None:
    found = cluster(tmp_path, f"NodeName=n1 {line}")
    assert (found.nodes["n1"].cores, found.threads["n1"]) == (cores, threads)
    is_reset = line.startswith(("CPUs=30", "CPUs=7", "CPUs=12"))
    assert [("its CPUs are all threads" in note) for note in found.notes] == [True] * is_reset


def test_partitions_overlap_and_have_limits(tmp_path: Path) -> None:
    found = cluster(
        tmp_path,
        "NodeName=n[1-3] CPUs=4",
        "PartitionName=long Nodes=n[1-2] MaxTime=7-00:00:00 DefaultTime=60",
        "PartitionName=wide Nodes=ALL MaxNodes=2 OverSubscribe=EXCLUSIVE MaxTime=INFINITE",
    )
    assert found.partitions == {
        "long": Partition("long", 7 * 86_400.0, default_time_s=3600.0),
        "wide": Partition("wide", None, 2, is_exclusive=True),
    }
    assert {name: sorted(node.partitions) for name, node in found.nodes.items()} == {
        "n1": ["long", "wide"],
        "n2": ["long", "wide"],
        "n3": ["wide"],
    }


SETS = (
    "PartitionName=early Nodes=fast",
    "NodeName=c[1-4] CPUs=8 Feature=intel",
    "NodeName=g[1-2] CPUs=16 Features=amd,gpu",
    "NodeName=x1 CPUs=1 State=FUTURE Feature=gpu",
    "NodeSet = fast Feature = gpu",
    "NodeSet=old Nodes=c[1-2],x1",
    "NodeSet=both Feature=intel Nodes=g1",
    "NodeSet=more Nodes=c1",
    "nodeset=more feature=gpu",
    "NodeSet=nested Nodes=old,fast",
    "NodeSet=cloud Feature=dynamic",
    "NodeSet=s[1-2] Nodes=c3",
    "NodeSet=everything Nodes=all",
)


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        ("fast", "g1 g2"),
        ("c[3-4],old", "c1 c2 c3 c4"),
        ("both", "c1 c2 c3 c4 g1"),
        ("more", "c1 g1 g2"),
        ("nested,c4", "c1 c2 c4 g1 g2"),
        ('"old c4"', "c1 c2 c4"),
        ("cloud", ""),
        ("cloud,c1", "c1"),
        ("s[1-2]", "c3"),
        ("everything", "c1 c2 c3 c4 g1 g2"),
        ("All", "c1 c2 c3 c4 g1 g2"),
    ],
)
def test_a_set_stands_for_its_nodes_and_for_those_with_its_feature(
    nodes: str, names: str, tmp_path: Path
) -> None:
    found = cluster(tmp_path, *SETS, f"PartitionName=p Nodes={nodes}")
    assert sorted(name for name, node in found.nodes.items() if "p" in node.partitions) == names.split()
    assert {name for name, node in found.nodes.items() if "early" in node.partitions} == {"g1", "g2"}


@pytest.mark.parametrize("nodes", ["", 'Nodes=""', 'Nodes = ""', "Nodes=future"])
def test_a_partition_may_have_no_nodes_and_a_note_says_so(nodes: str, tmp_path: Path) -> None:
    found = cluster(
        tmp_path, "NodeName=a CPUs=1", "NodeName=future CPUs=1 State=FUTURE", f"PartitionName=p {nodes}"
    )
    assert (list(found.partitions), found.nodes["a"].partitions) == (["p"], frozenset())
    assert found.notes == (
        "partition p has no nodes; jobs that request it alone are refused when they arrive",
    )
    assert found.unsatisfied(Request(partitions=frozenset({"p"}))) is not None


@pytest.mark.parametrize(
    ("setting", "is_exclusive", "note"),
    [
        ("Exclusive=NODE", True, ""),
        ("exclusive = node", True, ""),
        ("Exclusive=TOPO", True, "Exclusive=TOPO"),
        ("Exclusive=User", False, "Exclusive=USER"),
        ("Exclusive=NO", False, ""),
        ("Exclusive=OK", False, ""),
        ("OverSubscribe=EXCLUSIVE", True, ""),
        ("Shared=exclusive", True, ""),
        ("OverSubscribe=EXCLUSIVE Exclusive=NO", False, ""),
        ("OverSubscribe=EXCLUSIVE Exclusive=USER", True, "Exclusive=USER"),
        ("ExclusiveUser=YES", False, "ExclusiveUser=YES"),
        ("ExclusiveUser=NO", False, ""),
    ],
)
def test_whole_nodes_are_stated_by_exclusive_of_newer_releases_or_by_oversubscribe(
    setting: str, is_exclusive: bool, note: str, tmp_path: Path
) -> None:
    found = cluster(tmp_path, "NodeName=n1 CPUs=4", f"PartitionName=p Nodes=ALL {setting}")
    assert found.partitions["p"].is_exclusive is is_exclusive
    assert [f"ignored: {note} of" in sentence for sentence in found.notes] == [True] * bool(note)


@pytest.mark.parametrize(
    ("text", "time_s", "default_s"),
    [
        *((text, None, None) for text in ("-1", "UNLIMITED", "infinite")),
        ("60", 3_600.0, None),
        ("60 DefaultTime=60", 3_600.0, 3_600.0),
        ("60 DefaultTime=61", 3_600.0, None),  # does not count, as in Slurm
        ("1:30", 120.0, None),
        ("1:00:00", 3_600.0, None),
        ("2-12", 216_000.0, None),
        ("2-12:30", 217_800.0, None),
        ("1000-00:00:01", 86_400_060.0, None),
    ],
)
def test_limits_of_time_are_in_the_formats_of_slurm_and_whole_minutes(
    text: str, time_s: float | None, default_s: float | None, tmp_path: Path
) -> None:
    found = cluster(tmp_path, "NodeName=n1 CPUs=4", f"PartitionName=p MaxTime={text}").partitions["p"]
    assert (found.max_time_s, found.default_time_s) == (time_s, default_s)


@pytest.mark.parametrize(
    ("setting", "meant"),
    [
        ("MaxTimes=5 MaxTime=60", "MaxTime"),
        ("MaxTimer=30", "MaxTime"),  # the default is not lost
        ("TresBillingWeight=x", "TRESBillingWeights"),
        ("AllowAccount=x", "AllowAccounts"),
    ],
)
def test_a_key_that_is_similar_to_another_is_ignored_with_a_question_if_no_value_is_lost(
    setting: str, meant: str, tmp_path: Path
) -> None:
    lines = "NodeName=n1 CPUs=4", "PartitionName=DEFAULT MaxTime=60", f"PartitionName=p Nodes=n1 {setting}"
    (note,) = cluster(tmp_path, *lines).notes
    key = setting.split()[0]
    assert note.endswith(f"ignored: {key} of PartitionName=p, because it is not known; did you mean {meant}?")


@pytest.mark.parametrize(
    ("settings", "counted"),
    [
        (
            ("PriorityType = priority/multifactor", "PriorityWeightFairshare=1000", "PriorityWeightAge=0"),
            "2 settings of slurm.conf for the order of jobs, for preemption or for limits "
            "(PriorityType=priority/multifactor, PriorityWeightFairshare=1000): without effect on built-in",
        ),
        (("AccountingStorageEnforce=limits,qos",), "1 setting of slurm.conf"),
        (("PreemptType=preempt/qos", "preemptmode=requeue"), "2 settings of slurm.conf"),
        (("SchedulerType=sched/backfill", "SchedulerParameters=bf_window=60"), "2 settings of slurm.conf"),
        (("PriorityType=priority/basic", "PreemptType=preempt/none", "SchedulerType=sched/builtin"), ""),
    ],
)
def test_settings_of_another_order_of_service_are_counted(
    settings: tuple[str, ...], counted: str, tmp_path: Path
) -> None:
    notes = cluster(tmp_path, *settings, "NodeName=n1 CPUs=4").notes
    assert [note[: len(counted)] for note in notes] == [counted][: len(counted)]


def test_what_scontrol_says_of_partitions_and_the_model_ignores_is_named(tmp_path: Path) -> None:
    found = cluster(
        tmp_path,
        "NodeName=n1 CPUTot=4 State=IDLE Partitions=p",
        "PartitionName=p",
        "   AllowGroups=ALL AllowAccounts=phys AllowQos=ALL",
        "   DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0",
        "   MaxNodes=2 MaxTime=1-00:00:00 MinNodes=0 MaxCPUsPerNode=UNLIMITED",
        "   Nodes=n1",
        "   PriorityJobFactor=1 PriorityTier=1 OverSubscribe=EXCLUSIVE PreemptMode=OFF QoS=N/A",
        "   State=UP TotalCPUs=4 TotalNodes=1 SelectTypeParameters=NONE",
        "PartitionName=q AllowGroups=ALL Nodes=(null) MaxTime=UNLIMITED State=UP TotalCPUs=0 TotalNodes=0",
    )
    assert found.partitions == {"p": Partition("p", 86_400.0, 2, is_exclusive=True), "q": Partition("q")}
    assert [note.partition("conf")[2] for note in found.notes] == [
        "",
        ", line 2: ignored: AllowAccounts=phys of PartitionName=p, because all users may use a partition, "
        "unless a queue ([[queues]]) has users",
    ]


def test_defaults_hold_for_the_lines_that_follow(tmp_path: Path) -> None:
    found = cluster(
        tmp_path,
        "NodeName=a CPUs=1",
        "NodeName=DEFAULT CPUs=8 RealMemory=1000",
        "NodeName=b",
        "NodeName=c CPUs=2",
    )
    assert {name: (node.cores, node.memory_mib) for name, node in found.nodes.items()} == {
        "a": (1, 1),
        "b": (8, 1000),
        "c": (2, 1000),
    }


def test_comments_continued_lines_and_included_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "nodes.conf").write_text("nodename=n1 \\\n  cpus=8 # eight\n")
    found = cluster(tmp_path, "# NodeName=n0 CPUs=1", "Include nodes.conf", "ClusterName=x")
    assert [(name, node.cores) for name, node in found.nodes.items()] == [("n1", 8)]


def test_the_output_of_scontrol_show_node_is_read(tmp_path: Path) -> None:
    found = cluster(
        tmp_path,
        "NodeName=n001 Arch=x86_64 CoresPerSocket=32",
        "   CPUAlloc=0 CPUEfctv=64 CPUTot=64 CPULoad=0.01",
        "   AvailableFeatures=ib,avx512",
        "   ActiveFeatures=ib",
        "   Gres=gpu:a100:4(S:0-1)",
        "   RealMemory=256000 AllocMem=0 FreeMem=250000 Sockets=2 Boards=1",
        "   State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A",
        "   Partitions=cpu,all ",
        "",
        "NodeName=n002 Arch=x86_64 CoresPerSocket=32",
        "   CPUTot=64 Gres=(null) AvailableFeatures=(null) Partitions=cpu",
        "   RealMemory=256000 Sockets=2 ThreadsPerCore=1",
    )
    features, partitions = frozenset({"ib", "avx512"}), frozenset({"cpu", "all"})
    assert found.nodes == {
        "n001": Node(64, 256_000, ("a100",) * 4, {}, features, partitions),
        "n002": Node(64, 256_000, (), {}, frozenset(), frozenset({"cpu"})),
    }


def test_licences_are_resources_of_the_whole_site_with_their_servers(tmp_path: Path) -> None:
    found = cluster(tmp_path, "Licenses=matlab:5,abaqus@srv.example:20,intel", "NodeName=n1 CPUs=4")
    assert found.site_resources == {"matlab": 5, "abaqus@srv.example": 20, "intel": 1}
    assert found.model[1].endswith("; the whole site has 5 matlab, 20 abaqus@srv.example, 1 intel")


def test_a_partition_may_list_nodes_of_the_future(tmp_path: Path) -> None:
    found = cluster(
        tmp_path, "NodeName=a CPUs=1", "NodeName=b CPUs=1 State=FUTURE", "PartitionName=p Nodes=a,b"
    )
    assert {name: node.partitions for name, node in found.nodes.items()} == {"a": frozenset({"p"})}


@pytest.mark.parametrize(
    "line",
    ["Nodes={}", "Nodes=n[{}]", "Nodes=n1 MaxTime={}", "{}", "Nodes=n1 x={}", "Nodes=n1 MaxTme={}", "{}=1"],
)
def test_messages_quote_no_long_text(line: str, tmp_path: Path) -> None:
    lines = ("NodeName=n1 CPUs=1", "PartitionName=p " + line.format("x" * 10**6))
    try:
        sentences = [*cluster(tmp_path, *lines).notes]
    except InvalidFile as mistake:
        sentences = [str(mistake)]
    assert max(map(len, sentences)) < 1_000


def test_counts_of_one_are_singular(tmp_path: Path) -> None:
    assert str(cluster(tmp_path, "NodeName=a CPUs=1 Gres=gpu:1")) == "1 node with 1 CPU and 1 GPU"
    assert str(cluster(tmp_path, "NodeName=a[1-2] CPUs=1")) == "2 nodes with 2 CPUs"


def test_all_nodes_are_those_of_the_whole_file(tmp_path: Path) -> None:
    found = cluster(tmp_path, "NodeName=a CPUs=1", "PartitionName=p Nodes=ALL", "NodeName=b CPUs=1")
    assert [node.partitions for node in found.nodes.values()] == [frozenset({"p"})] * 2


@pytest.mark.parametrize(
    ("setting", "of_the_partition", "has_memory", "is_exclusive"),
    [
        ("SelectTypeParameters=CR_Core", "", False, False),
        ("SelectTypeParameters=CR_Core_Memory", "", True, False),
        ("SelectTypeParameters=CR_Core_Memory", "SelectTypeParameters=CR_Socket", True, False),
        ("SelectType=select/linear", "", True, True),
    ],
)
def test_the_site_states_whether_memory_counts_and_jobs_have_whole_nodes(
    setting: str, of_the_partition: str, has_memory: bool, is_exclusive: bool, tmp_path: Path
) -> None:
    lines = "NodeName=n1 CPUs=4 RealMemory=1000", f"PartitionName=p Nodes=n1 {of_the_partition}"
    found = cluster(tmp_path, setting, *lines)
    assert (found.has_memory, found.partitions["p"].is_exclusive) == (has_memory, is_exclusive)


def test_the_model_is_stated_in_two_lines(tmp_path: Path) -> None:
    found = cluster(
        tmp_path,
        "NodeName=n[1-3] CPUs=4 RealMemory=1000",
        "NodeName=g1 CPUs=8 RealMemory=2000 Gres=gpu:a100:2",
        "PartitionName=cpu Nodes=n[1-3]",
        "PartitionName=all Nodes=ALL OverSubscribe=EXCLUSIVE",
    )
    assert found.model == [
        "Nodes: 3 with 4 CPUs, 1,000 MiB; 1 with 8 CPUs, 2,000 MiB, 2 a100 GPUs",
        "Jobs share nodes by CPUs, memory and GPUs; partitions, by number of nodes: cpu (3), all (4, "
        "exclusive)",
    ]


@pytest.mark.parametrize(
    "state",
    [
        *("DOWN", "drain", "DRAINED", "FAIL", "IDLE+DRAIN", "DOWN*", "IDLE*", "MIXED*+PLANNED", "ALLOCATED*"),
        *("idle+not_responding", "INVAL", "IDLE+INVALID_REG", "UNKNOWN*"),
    ],
)
def test_nodes_that_take_no_jobs_are_down(state: str, tmp_path: Path) -> None:
    found = cluster(
        tmp_path, f"NodeName=a,b CPUs=1 State={state}", "NodeName=c,d,e CPUs=1 State=UNKNOWN", "DownNodes=c"
    )
    assert (found.down, list(found.nodes)) == ({"a", "b", "c"}, ["a", "b", "c", "d", "e"])
    assert list(found.up.nodes) == ["d", "e"]
    assert found.up.notes == ("3 nodes left out, since they are down: a, b, c",)


@pytest.mark.parametrize("state", ["UP", "IDLE~", "CLOUD", "IDLE+CLOUD+POWERED_DOWN", "MIXED+MAINT", "MIX-"])
def test_nodes_that_are_only_busy_or_powered_down_are_not_down(state: str, tmp_path: Path) -> None:
    assert not cluster(tmp_path, f"NodeName=a CPUs=1 State={state}").down


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("AllowAccounts=phys", "all users may use a partition, unless a queue ([[queues]]) has users"),
        ("DenyQos=long", "all users may use a partition, unless a queue ([[queues]]) has users"),
        ("MaxCPUsPerNode=8", "partitions do not limit what a job has of a node"),
        ("MaxMemPerNode=1000", "partitions do not limit what a job has of a node"),
        ("MinNodes=2", "partitions have no least number of nodes"),
        ("PriorityTier=10", "the order of service is that of [[queues]]"),
        ("State=DOWN", "partitions are always up"),
        ("QuantumBits=7", "it is not known"),
        ("OverSubscribe=FORCE:4", "jobs do not share a CPU by turns"),
    ],
)
def test_what_decides_where_jobs_run_and_is_ignored_is_named_with_its_line(
    setting: str, reason: str, tmp_path: Path
) -> None:
    found = cluster(tmp_path, "NodeName=n1 CPUs=4", f"PartitionName=p Nodes=n1 {setting}")
    expected = f"line 2: ignored: {setting} of PartitionName=p, because {reason}"
    assert [note.removeprefix(f"{tmp_path}/slurm.conf, ") for note in found.notes] == [expected]


def test_keys_without_effect_are_counted_in_one_sentence_and_values_that_say_nothing_are_not_named(
    tmp_path: Path,
) -> None:
    found = cluster(
        tmp_path,
        "NodeName=DEFAULT CPUs=4 Weight=5",
        "NodeName=n[1-2] Weight=1 NodeAddr=x TmpDisk=1",
        "PartitionName=p Nodes=ALL Default=YES State=UP AllowGroups=ALL MinNodes=0 PriorityTier=1",
        "PartitionName=q Nodes=n1 SelectTypeParameters=CR_Socket",
    )
    assert found.notes == (
        "keys without effect on the model, with their numbers of lines: Default (1), NodeAddr (1), "
        "SelectTypeParameters (1), TmpDisk (1), Weight (2)",
    )


MISTAKES = """
Licenses=matlab:five / NodeName=n1 CPUs=1
  line 1: Licenses has 'matlab:five'; expected matlab:5, or matlab@server:5
Licenses=a:1,a:2 / NodeName=n1 CPUs=1
  line 1: Licenses has a twice; expected each name once
NodeName=n1 CPU=3
  line 1: NodeName=n1 has CPU=3, which is no key of Slurm; expected CPUs
NodeName=n1 CPUs=1 / PartitionName=p Nodes=n1 MaxTme=60
  line 2: PartitionName=p has MaxTme=60, which is no key of Slurm; expected MaxTime
NodeName=n1 CPUs=1 / PartitionName=p Nodes=n1 MaxTime=2 days
  line 2: 'days' after MaxTime=2 is not of the form Key=value; expected values without spaces, or
NodeName=n1 CPUs=1 / PartitionName=p Nodes=n1 / PartitionName=p Nodes=n1
  line 3: partition p is defined twice; expected one line PartitionName=p
NodeName=n1 CPUs=4 CoreSpecCount=4
  line 1: a node has 4 CPUs, and the system has 4; expected fewer
NodeName=n1 CPUs=4 / DownNodes=n2
  line 2: DownNodes lists node n2, which is not defined; add NodeName=n2
NodeName=n[1-2 CPUs=4
  line 1: 'n[1-2' is neither a name nor a range like node[01-08,12]
NodeName=n1 CPUs=four
  line 1: cpus is 'four'; expected a whole number
NodeName=n1 CPUs=0
  line 1: a node has no CPUs; expected CPUs=64, or Sockets, CoresPerSocket and ThreadsPerCore
NodeName=n[1-3] CPUs=1 / NodeName=n2 CPUs=1
  line 2: node n2 is defined twice
NodeName=n1 CPUs=1 Gres=gpu:a100:-2
  line 1: Gres has 'gpu:a100:-2'; expected name:type:count, like gpu:a100:4
NodeName=n1 CPUs=1 Gres=no_consume
  line 1: Gres has 'no_consume'; expected name:type:count, like gpu:a100:4
NodeName=n1 CPUs=1 / PartitionName=p Exclusive=MAYBE
  line 2: Exclusive is 'MAYBE'; expected NO, NODE, USER or TOPO
NodeName n1 CPUs=1
  line 1: 'NodeName' is not followed by =; expected Key=value
SelectTypeParameters CR_Core / NodeName=n1 CPUs=1
  line 1: 'SelectTypeParameters' is not of the form Key=value
NodeName=n1 CPUs=1 / NodeNames=z[1-5] CPUs=8
  line 2: 'NodeNames' is no key of Slurm; expected NodeName
NodeName=n1 CPUs=1 / PartitionNam=b Nodes=ALL
  line 2: 'PartitionNam' is no key of Slurm; expected PartitionName
NodeName=n1 CPUs=1 / NodeSet=n1 Nodes=n1 / PartitionName=p Nodes=n1
  line 2: NodeSet=n1 has the name of a node; expected another name
NodeName=n1 CPUs=1 / NodeSet=a Nodes=b / NodeSet=b Nodes=n1,a / PartitionName=p Nodes=a
  line 2: NodeSet=a contains itself, or too many sets in one another
NodeName=n1 CPUs=1 / NodeSet=a Nodes=n2 / PartitionName=p Nodes=a
  line 2: NodeSet=a lists node n2, which is not defined; add NodeName=n2
NodeName=n1 CPUs=1 / PartitionName=p Nodes=n1 MaxTime=soon
  line 2: maxtime is 'soon'; expected minutes, hours:minutes:seconds, days-hours, or UNLIMITED
NodeName=n1 CPUs=1 / PartitionName=p Nodes=n[1-2]
  line 2: partition p lists node n2, which is not defined; add NodeName=n2
NodeName=n[1-2] CPUs=9999999999
  line 1: cpus is '9999999999'; expected a whole number, at most 2,147,483,647
NodeName=n1 CPUs=1 Gres=gpu:1000000
  line 1: a node has 1,000,000 GPUs; expected at most 63
NodeName=m CPUs=4 / PartitionName=q Nodes=ALL MaxNodes=0
  line 2: maxnodes is 0; expected 1 or more, or UNLIMITED
NodeName=m CPUs=4 / PartitionName=q Nodes=ALL MaxTime=0
  line 2: maxtime is '0'; expected minutes, hours:minutes:seconds, days-hours, or UNLIMITED
NodeName=m CPUs=4 / PartitionName="" Nodes=ALL
  line 2: PartitionName is empty; expected a name, like PartitionName=batch
NodeName=m CPUs=4 / PartitionName= Nodes=ALL
  line 2: PartitionName has no value, so that Slurm takes Nodes=ALL for it; expected PartitionName=value, or
Include slurm.conf
  slurm.conf includes itself
ClusterName=x
  there is no node
"""


@pytest.mark.parametrize(("lines", "sentence"), re.findall(r"(\S.+)\n  (.+)", MISTAKES))
def test_an_error_is_one_sentence_with_its_line(lines: str, sentence: str, tmp_path: Path) -> None:
    found = the_sentence(tmp_path, *lines.split(" / "))
    assert sentence in found
    assert "\n" not in found
