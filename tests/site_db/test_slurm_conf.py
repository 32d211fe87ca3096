from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.node_request import Node, Partition
from site_db.jobs.logs.log_file import BadLog
from site_db.site_file.cluster import Cluster
from site_db.slurm_conf import read_cluster


def cluster(folder: Path, *lines: str) -> Cluster:
    path = folder / "slurm.conf"
    path.write_text("\n".join(lines) + "\n")
    return read_cluster(path)


def the_sentence(folder: Path, *lines: str) -> str:
    with pytest.raises(BadLog) as caught:
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
    ("lines", "sentence"),
    [
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
