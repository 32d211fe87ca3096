"""The configuration that is made for the nodes of a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler import UserError
from scheduler.node_request import Node, Partition
from sil.slurm.cluster import configuration_for
from site_db.site_file.cluster import SiteNodes
from site_db.slurm_conf import read_cluster

BIG = Node(16, 64_000, ("a100", "a100", "v100"), {"nvme": 2}, frozenset({"fast"}), frozenset({"gpu", "day"}))
SMALL = Node(8, 32_000, partitions=frozenset({"day"}))
CLUSTER = SiteNodes(
    {"s01": SMALL, "s02": SMALL, "b1": BIG, "s03": SMALL},
    {
        "day": Partition("day", 86_400.0, default_time_s=90.0),
        "gpu": Partition("gpu", None, 2, True),
        "soon": Partition("soon"),
    },
    {"s01": 2, "s02": 2, "s03": 2},
    site_resources={"matlab": 3},
)


def test_it_reads_as_the_cluster_that_it_was_made_for(tmp_path: Path) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text("\n".join(configuration_for(CLUSTER).lines))
    found = read_cluster(path)
    anywhere = frozenset({"all"})
    nodes = {
        name: Node(
            node.cores, node.memory_mib, node.gpus, node.others, node.features, node.partitions | anywhere
        )
        for name, node in CLUSTER.nodes.items()
    }
    assert found.nodes == nodes
    assert {name: found.threads[name] for name in CLUSTER.threads} == CLUSTER.threads
    day, gpu = found.partitions["day"], found.partitions["gpu"]
    assert (day.max_time_s, day.default_time_s) == (86_400.0, 120.0)  # in minutes, rounded up
    assert gpu == CLUSTER.partitions["gpu"]
    assert found.partitions["soon"] == CLUSTER.partitions["soon"], "its jobs may name other partitions, too"
    assert (found.site_resources, found.has_memory) == (CLUSTER.site_resources, True)


def test_nodes_that_are_alike_have_one_line() -> None:
    lines = [line for line in configuration_for(CLUSTER).lines if line.startswith("NodeName=")]
    assert [line.split()[0] for line in lines] == ["NodeName=s[01-03]", "NodeName=b1"]


def test_memory_is_not_shared_out_where_jobs_request_none() -> None:
    lines = configuration_for(SiteNodes({"n1": Node(4)}, {}, {}, has_memory=False)).lines
    assert "SelectTypeParameters=CR_Core" in lines
    assert not any(line.startswith("DefMem") for line in lines)


def test_partitions_are_served_in_order_of_the_priorities_of_queues() -> None:
    lines = configuration_for(CLUSTER, {"gpu": 7, "day": -2}).lines
    tiers = {line.split()[0]: line.split()[-1] for line in lines if "PriorityTier" in line}
    assert tiers == {
        "PartitionName=day": "PriorityTier=1",
        "PartitionName=gpu": "PriorityTier=10",
        "PartitionName=soon": "PriorityTier=3",
    }


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        (SiteNodes({"node 1": Node(4)}, {}, {}), "the node 'node 1' cannot be named in slurm.conf"),
        (SiteNodes({"n": Node(0.5)}, {}, {}), "node n has 0.5 CPUs, and Slurm's nodes have whole ones"),
        (SiteNodes({"n": Node(70_000)}, {}, {}), "from 1 to 65,000"),
        (
            SiteNodes({"n": Node(partitions=frozenset({"a,b"}))}, {}, {}),
            "the partition 'a,b' cannot be named",
        ),
    ],
)
def test_what_slurm_conf_cannot_say_is_one_sentence(cluster: SiteNodes, said: str) -> None:
    with pytest.raises(UserError, match=said):
        configuration_for(cluster)
