"""The machines of a site as nodes, and the requests of its job classes."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from scheduler.node_request import Gpus, Node, Partition, Request
from scheduler.node_resources.topology import Topology
from site_db.schema import RequestRow
from site_db.site_file.importing import put_site
from site_db.site_file.nodes import cluster_of, never_satisfied, request_columns, request_of, with_cluster
from site_db.site_file.tables import RequestTable
from site_db.site_file.validation import errors
from site_db.sites import SiteReader
from site_db.slurm_conf import read_cluster
from tests.site_db.site_texts import NODES, changed, read


def test_machines_become_nodes_with_their_resources_and_partitions(tmp_path: Path) -> None:
    cluster = cluster_of(read(NODES, tmp_path))
    features = frozenset({"avx512", "ib"})
    batch = frozenset({"batch"})
    assert cluster.nodes["n01"] == Node(64, 256_000, features=features, partitions=batch, switch="leaf1")
    assert cluster.nodes["n03"].partitions == {"batch", "whole"}
    gpus, others = ("a100",) * 4 + ("h100",) * 2, {"scratch": 858_993_459_200}
    assert cluster.nodes["g1"] == Node(32, 512_000, gpus, others, frozenset(), frozenset({"whole"}), "leaf2")
    assert cluster.topology == Topology(("leaf1", "leaf2"), ((1, frozenset({0, 1})),), (), True, 900.0)
    assert cluster.partitions["batch"] == Partition("batch", 86_400, 2, False, 3600)
    assert cluster.partitions["whole"].is_exclusive
    assert cluster.threads == {"n01": 2, "n02": 2, "n03": 2, "n04": 2, "g1": 1}
    assert cluster.site_resources == {"matlab": 5}


def test_a_request_in_a_file_is_that_of_the_scheduler(tmp_path: Path) -> None:
    tables = [table.request for table in read(NODES, tmp_path).job_classes]
    both, ib = frozenset({"batch", "whole"}), frozenset({"ib"})
    four = Gpus(4, types=frozenset({"a100", "h100"}))
    assert [request_of(table) for table in tables] == [
        Request(2, 8, 32_004, features=ib, partitions=both, exclusive=True),
        Request(128, 0.5, most_on_node=None, site_resources={"matlab": 2}),
        Request(1, 1, 0, four, {"scratch": 400_000_000_000}),
        Request(1, 1, 0, Gpus(1, 0.25)),
        Request(),
    ]
    for table in filter(None, tables):
        request = request_of(table)
        assert request_of(RequestRow(**request_columns(request, table.time_limit_s))) == request


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("matlab = 2", "matlab = 6", "the site has 5 matlab"),
        ("matlab = 2", "maple = 1", "the site has no maple"),
        ('["whole", "batch"]', '["al"]', "partition al, which the site does not have"),
        ("total_gpus = 4", "total_gpus = 8", "which the nodes cannot satisfy even if all are free"),
        ("scratch = 4", "scratch = 9", "which the nodes cannot satisfy even if all are free"),
    ],
)
def test_a_request_that_no_node_can_satisfy_is_named_but_may_be_one_of_the_past(
    before: str, after: str, sentence: str, tmp_path: Path
) -> None:
    assert list(never_satisfied(read(NODES, tmp_path))) == []
    ((_, found),) = never_satisfied(read(changed(before, after, NODES), tmp_path))
    assert sentence in found


def test_a_partition_may_go_though_past_jobs_request_it(session: Session, tmp_path: Path) -> None:
    """They are kept, and nothing satisfies them now."""
    conf = tmp_path / "slurm.conf"
    conf.write_text(
        "Licenses=matlab:5\nNodeName=n[01-04] CPUs=64 Feature=ib\n"
        "NodeName=g1 CPUs=64 Gres=gpu:a100:4,scratch:400G\n"
        "PartitionName=batch Nodes=n[01-04]\nPartitionName=rest Nodes=g1\n"
    )
    only_whole = changed('partitions = ["whole", "batch"]', 'partitions = ["whole"]', NODES)
    site = with_cluster(read(only_whole, tmp_path), read_cluster(conf))
    assert [*errors(site)] == []
    assert "wide" in [name for name, _ in never_satisfied(site)]
    put_site(session, site)
    assert SiteReader(session, "nodes").as_file().job_classes == site.job_classes


def test_a_request_may_ask_for_memory_alone_but_not_for_nothing() -> None:
    assert request_of(RequestTable(cores=0.0, memory_mb=100)).memory_mib == 100
    with pytest.raises(ValueError, match="a request has cores, memory_mb, gpus or resources"):
        RequestTable(cores=0.0)
