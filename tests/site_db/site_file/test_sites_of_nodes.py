"""Sites whose nodes jobs share: site files, the database, slurm.conf."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Engine

from scheduler.node_request import Gpus, Node, Partition, Request
from site_db import store
from site_db.site_file.cluster import Cluster
from site_db.site_file.importing import put_site, read_site_file
from site_db.site_file.nodes import cluster_of, never_satisfied, request_of, request_table, with_cluster
from site_db.site_file.tables import RequestTable, SiteFile
from site_db.site_file.validation import errors
from site_db.sites import SiteReader
from site_db.slurm_conf import read_cluster

SITE = """\
name = "shared"

[[machine_classes]]
name = "cpu"

[[machine_classes]]
name = "gpu"

[[machines]]
names = ["n[1-3]"]
machine_class = "cpu"
processors = 64
threads_per_core = 2
memory_mb = 256000
features = ["zen", "avx"]

[[machines]]
names = ["g1"]
machine_class = "gpu"
processors = 32
slots = 2
memory_mb = 512000
gpus = {h100 = 2, a100 = 4}
resources = {scratch = 900}

[[partitions]]
name = "batch"
nodes = ["n[1-3]"]
max_time_s = 86400
default_time_s = 3600
max_nodes = 2

[[partitions]]
name = "all"
nodes = ["g1", "n[1-3]"]
exclusive = true

[[site_resources]]
name = "matlab"
amount = 5

[[job_classes]]
name = "train"
sequential_s = {gpu = 3600}
[job_classes.request]
nodes = 1
cores = 8
memory_mb_per_core = 2000
total_gpus = 2
gpu_types = ["h100", "a100"]
resources = {scratch = 10}
site_resources = {matlab = 1}
partitions = ["all"]
time_limit_s = 7200

[[job_classes]]
name = "tasks"
sequential_s = {cpu = 60}
request = {tasks = 100, features = ["avx"], partitions = ["batch", "all"]}
"""


def read(text: str, folder: Path) -> SiteFile:
    (folder / "site.toml").write_text(text)
    return read_site_file(folder / "site.toml")


def test_machines_become_nodes_with_their_resources_and_partitions(tmp_path: Path) -> None:
    cluster = cluster_of(read(SITE, tmp_path))
    assert cluster.nodes["n1"] == Node(
        64, 256_000, features=frozenset({"avx", "zen"}), partitions=frozenset({"all", "batch"})
    )
    assert cluster.nodes["g1"] == Node(
        32, 512_000, ("a100",) * 4 + ("h100",) * 2, {"scratch": 900}, partitions=frozenset({"all"})
    )
    assert cluster.partitions["batch"] == Partition("batch", 86_400, 2, False, 3600)
    assert cluster.partitions["all"].is_exclusive
    assert cluster.threads == {"n1": 2, "n2": 2, "n3": 2, "g1": 1}
    assert cluster.site_resources == {"matlab": 5}


def test_a_request_in_a_file_is_that_of_the_scheduler(tmp_path: Path) -> None:
    train, tasks = (table.request for table in read(SITE, tmp_path).job_classes)
    assert request_of(train) == Request(
        1,
        8,
        16_000,
        Gpus(2, types=frozenset({"a100", "h100"})),
        {"scratch": 10},
        partitions=frozenset({"all"}),
        site_resources={"matlab": 1},
    )
    assert request_of(tasks) == Request(
        100, 1, most_on_node=None, features=frozenset({"avx"}), partitions=frozenset({"all", "batch"})
    )
    assert request_of(None) == Request()
    for table in (train, tasks):
        assert table is not None
        assert request_table(request_of(table), table.time_limit_s) == table


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("matlab = 1", "matlab = 6", "the site has 5 matlab"),
        ("matlab = 1", "maple = 1", "the site has no maple"),
        ('partitions = ["all"]', 'partitions = ["al"]', "partition al, which the site does not have"),
        ("total_gpus = 2", "total_gpus = 8", "which the nodes cannot satisfy even if all are free"),
        ("scratch = 10}", "scratch = 1000}", "which the nodes cannot satisfy even if all are free"),
    ],
)
def test_a_request_that_no_node_can_satisfy_is_named_but_may_be_one_of_the_past(
    before: str, after: str, sentence: str, tmp_path: Path
) -> None:
    assert list(never_satisfied(read(SITE, tmp_path))) == []
    ((name, found),) = never_satisfied(read(SITE.replace(before, after), tmp_path))
    assert name == "train"
    assert sentence in found


def test_a_partition_may_go_though_past_jobs_request_it(engine: Engine, tmp_path: Path) -> None:
    """They are kept, and nothing satisfies them now."""
    site = with_cluster(
        read(SITE, tmp_path), conf(CONF.replace("PartitionName=all Nodes=ALL\n", ""), tmp_path)
    )
    assert [*errors(site)] == []
    assert [name for name, _ in never_satisfied(site)] == ["train", "tasks"]
    with store.changing(engine) as session:
        put_site(session, site)
    with store.reading(engine) as session:
        assert SiteReader(session, "shared").as_file().job_classes == site.job_classes


# -- slurm.conf ------------------------------------------------------------------------------------------

CONF = """\
SelectTypeParameters=CR_Core_Memory
Licenses=matlab:5
NodeName=n[1-4] CPUs=64 RealMemory=256000 Feature=zen
NodeName=g1 CPUs=64 RealMemory=512000 Gres=gpu:a100:4
PartitionName=batch Nodes=n[1-4] MaxTime=60 DefaultTime=30 MaxNodes=2
PartitionName=all Nodes=ALL
"""


def conf(text: str, folder: Path) -> Cluster:
    (folder / "slurm.conf").write_text(text)
    return read_cluster(folder / "slurm.conf")


def test_a_request_may_ask_for_memory_alone_but_not_for_nothing() -> None:
    assert request_of(RequestTable(cores=0.0, memory_mb=100)).memory_mib == 100
    with pytest.raises(ValueError, match="a request has cores, memory_mb, gpus or resources"):
        RequestTable(cores=0.0)
