from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.node_request import Node, Partition
from site_db.files.given import InvalidFile
from site_db.site_file.cluster import Cluster
from site_db.slurm_conf import read_cluster


def cluster(folder: Path, *lines: str) -> Cluster:
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
        "Gres=gpu:a100:4(S:0-1),gpu:h100:1,fpga:2,shard:40",
    )
    node = Node(64, 510_000, ("a100",) * 4 + ("h100",), {"fpga": 2}, frozenset({"nvlink", "ib"}), frozenset())
    assert found.nodes == {"g01": node, "g02": node}


def test_cpus_are_threads_where_no_number_is_given(tmp_path: Path) -> None:
    found = cluster(tmp_path, "NodeName=n1 Sockets=2 CoresPerSocket=16 ThreadsPerCore=2")
    assert (found.nodes["n1"].cores, found.threads["n1"]) == (64, 2)


def test_where_cpus_are_cores_threads_are_not_allocated(tmp_path: Path) -> None:
    found = cluster(tmp_path, "NodeName=n1 CPUs=32 Sockets=2 CoresPerSocket=16 ThreadsPerCore=2")
    assert (found.nodes["n1"].cores, found.threads["n1"]) == (32, 1)


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


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("matlab:five", "line 1: Licenses has 'matlab:five'; expected matlab:5, or matlab@server:5"),
        ("a:1,a:2", "line 1: Licenses has a twice; expected each name once"),
    ],
)
def test_licences_that_cannot_be_read_are_quoted(text: str, sentence: str, tmp_path: Path) -> None:
    assert the_sentence(tmp_path, f"Licenses={text}", "NodeName=n1 CPUs=4") == sentence


def test_nodes_of_the_future_are_left_out(tmp_path: Path) -> None:
    assert list(cluster(tmp_path, "NodeName=a CPUs=1", "NodeName=b CPUs=1 State=FUTURE").nodes) == ["a"]


def test_a_partition_may_list_nodes_of_the_future(tmp_path: Path) -> None:
    found = cluster(
        tmp_path, "NodeName=a CPUs=1", "NodeName=b CPUs=1 State=FUTURE", "PartitionName=p Nodes=a,b"
    )
    assert {name: node.partitions for name, node in found.nodes.items()} == {"a": frozenset({"p"})}


def test_all_nodes_are_those_of_the_whole_file(tmp_path: Path) -> None:
    found = cluster(tmp_path, "NodeName=a CPUs=1", "PartitionName=p Nodes=ALL", "NodeName=b CPUs=1")
    assert [node.partitions for node in found.nodes.values()] == [frozenset({"p"})] * 2


def test_a_default_time_above_the_largest_does_not_count_as_in_slurm(tmp_path: Path) -> None:
    found = cluster(tmp_path, "NodeName=a CPUs=1", "PartitionName=p Nodes=a MaxTime=60 DefaultTime=61")
    assert found.partitions["p"] == Partition("p", 3_600.0, default_time_s=None)


def test_counts_of_resources_have_binary_suffixes(tmp_path: Path) -> None:
    found = cluster(tmp_path, "NodeName=a CPUs=1 Gres=fpga:2K,scratch:1T,gpu:a100:1")
    assert found.nodes["a"].others == {"fpga": 2 * 2**10, "scratch": 2**40}


@pytest.mark.parametrize(("kind", "counts"), [("CR_Core", False), ("CR_Core_Memory", True)])
def test_memory_counts_only_where_slurm_allocates_it(kind: str, counts: bool, tmp_path: Path) -> None:
    found = cluster(tmp_path, f"SelectTypeParameters={kind}", "NodeName=n1 CPUs=4 RealMemory=1000")
    assert found.has_memory is counts


def test_jobs_take_whole_nodes_where_slurm_selects_linearly(tmp_path: Path) -> None:
    found = cluster(tmp_path, "SelectType=select/linear", "NodeName=n1 CPUs=4", "PartitionName=p Nodes=n1")
    assert found.partitions["p"].is_exclusive


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
    ("line", "cores"),
    [
        ("CPUs=16 CoreSpecCount=2", 14),
        ("Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 CoreSpecCount=1", 14),
        ("CPUs=8 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 CoreSpecCount=1", 7),
        ("CPUs=16 CpuSpecList=0-1,8", 13),
    ],
)
def test_jobs_do_not_get_the_cores_of_the_system(line: str, cores: int, tmp_path: Path) -> None:
    assert cluster(tmp_path, f"NodeName=n1 {line}").nodes["n1"].cores == cores


@pytest.mark.parametrize("state", ["DOWN", "drain", "DRAINED", "FAIL", "IDLE+DRAIN", "DOWN*"])
def test_nodes_that_take_no_jobs_are_down(state: str, tmp_path: Path) -> None:
    found = cluster(
        tmp_path, f"NodeName=a,b CPUs=1 State={state}", "NodeName=c,d,e CPUs=1 State=UNKNOWN", "DownNodes=c"
    )
    assert (found.down, list(found.nodes)) == ({"a", "b", "c"}, ["a", "b", "c", "d", "e"])
    assert list(found.up.nodes) == ["d", "e"]
    assert found.up.notes == ("3 nodes left out, since they are down: a, b, c",)


@pytest.mark.parametrize("state", ["UP", "IDLE", "CLOUD", "IDLE+CLOUD+POWERED_DOWN", "MIXED+MAINT"])
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


def test_a_key_that_may_be_of_a_newer_slurm_is_named_and_ignored(tmp_path: Path) -> None:
    (note,) = cluster(tmp_path, "NodeName=n1 CPUs=4 QuantumBits=7").notes
    assert note.endswith("line 1: ignored: quantumbits=7 of NodeName=n1, because it is not known")


def test_what_a_partition_selects_is_not_what_the_site_selects(tmp_path: Path) -> None:
    found = cluster(
        tmp_path,
        "SelectTypeParameters=CR_Core_Memory",
        "NodeName=n1 CPUs=4 RealMemory=1000",
        "PartitionName=p Nodes=n1 SelectTypeParameters=CR_Socket",
    )
    assert found.has_memory


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (("NodeName=n1 CPU=3",), "line 1: NodeName=n1 has cpu=3, which is no key of Slurm; expected CPUs"),
        (
            ("NodeName=n1 CPUs=1", "PartitionName=p Nodes=n1 MaxTme=60"),
            "line 2: PartitionName=p has maxtme=60, which is no key of Slurm; expected MaxTime",
        ),
        (
            ("NodeName=n1 CPUs=1", "PartitionName=p Nodes=n1 MaxTime=2 days"),
            "line 2: 'days' after MaxTime=2 is not of the form Key=value; expected values without spaces, or",
        ),
        (
            ("NodeName=n1 CPUs=1", *["PartitionName=p Nodes=n1"] * 2),
            "line 3: partition p is defined twice; expected one line PartitionName=p",
        ),
        (
            ("NodeName=n1 CPUs=4 CoreSpecCount=4",),
            "line 1: a node has 4 CPUs, and the system has 4; expected fewer",
        ),
        (
            ("NodeName=n1 CPUs=4", "DownNodes=n2"),
            "line 2: DownNodes lists node n2, which is not defined; add NodeName=n2",
        ),
        (
            ("NodeName=n[1-2 CPUs=4",),
            "line 1: 'n[1-2' is neither a name nor a range like node[01-08,12]",
        ),
        (("NodeName=n1 CPUs=four",), "line 1: cpus is 'four'; expected a whole number"),
        (
            ("NodeName=n1 CPUs=0",),
            "line 1: a node has no CPUs; expected CPUs=64, or Sockets, CoresPerSocket and ThreadsPerCore",
        ),
        (("NodeName=n[1-3] CPUs=1", "NodeName=n2 CPUs=1"), "line 2: node n2 is defined twice"),
        (
            ("NodeName=n1 CPUs=1 Gres=gpu:a100:-2",),
            "line 1: Gres has 'gpu:a100:-2'; expected name:type:count, like gpu:a100:4",
        ),
        (
            ("NodeName=n1 CPUs=1", "PartitionName=p"),
            "line 2: partition p has no nodes; expected Nodes=n[01-40], or ALL",
        ),
        (
            ("NodeName=n1 CPUs=1", "PartitionName=p Nodes=n1 MaxTime=soon"),
            "line 2: maxtime is 'soon'; expected minutes, hours:minutes:seconds, days-hours, or UNLIMITED",
        ),
        (
            ("NodeName=n1 CPUs=1", "PartitionName=p Nodes=n[1-2]"),
            "line 2: partition p lists node n2, which is not defined; add NodeName=n2",
        ),
        (("Include slurm.conf",), "slurm.conf includes itself"),
        (("ClusterName=x",), "there is no node"),
    ],
)
def test_an_error_is_one_sentence_with_its_line(
    lines: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    found = the_sentence(tmp_path, *lines)
    assert sentence in found
    assert "\n" not in found
