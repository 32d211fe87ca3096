"""Sites whose nodes jobs share: site files, the database, slurm.conf."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Engine

from scheduler.node_request import Gpus, Node, Partition, Request
from site_db import store
from site_db.files.input_errors import InvalidFile
from site_db.site_file.cluster import Cluster
from site_db.site_file.importing import put_site, read_site_file, site_text
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


def test_a_site_of_nodes_round_trips_through_its_file_and_the_database(
    engine: Engine, tmp_path: Path
) -> None:
    site = read(SITE, tmp_path)
    assert read(site_text(site), tmp_path) == site
    for _ in range(2):  # new, then an update that changes nothing
        with store.changing(engine) as session:
            put_site(session, site)
        with store.reading(engine) as session:
            assert SiteReader(session, "shared").as_file() == site


def test_an_update_replaces_what_nodes_have_and_where_they_are(engine: Engine, tmp_path: Path) -> None:
    changed = read(
        SITE.replace("h100 = 2, a100 = 4", "b200 = 8")
        .replace('gpu_types = ["h100", "a100"]', "")
        .replace('nodes = ["g1", "n[1-3]"]', 'nodes = ["g1", "n3"]')
        .replace("amount = 5", "amount = 3"),
        tmp_path,
    )
    with store.changing(engine) as session:
        put_site(session, read(SITE, tmp_path))
        put_site(session, changed)
    with store.reading(engine) as session:
        assert SiteReader(session, "shared").as_file() == changed


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
    ("before", "after", "line", "sentence"),
    [
        ('nodes = ["n[1-3]"]', 'nodes = ["n[1-4]"]', 28, "partition 'batch' names the machine 'n4', which"),
        ("default_time_s = 3600", "default_time_s = 90000", 30, "expected max_time_s, 86,400, or less"),
        ('["batch", "all"]', '["batch", "al"]', 59, "names the partition 'al', which does not exist"),
        ("tasks = 100", "tasks = 100, nodes = 2", 59, "either nodes or tasks, and this one has both"),
        ("total_gpus = 2", "total_gpus = 2\ngpus = 1", 45, "either gpus or total_gpus, and this one has"),
        ("cores = 8", "cores = 8\ngpu_share = 0.5", 45, "gpu_share is of one GPU, and gpus is 2; expected 1"),
        ("nodes = 1\n", "nodes = 3\n", 45, "3 nodes or tasks cannot share equally"),
        ("cores = 8", "cores = -1", 47, "cores = -1: expected a number greater than or equal to 0"),
        ("cores = 8", "cores = 0", 45, "memory_mb_per_core is of cores, and there are none"),
        ("total_gpus = 2", "total_gpus = true", 45, "total_gpus is True; expected a whole number"),
        ("{h100 = 2, a100 = 4}", "{h100 = 0}", 23, "expected"),
        ("processors = 32", "processors = 32\nthreads_per_core = 0", 21, "expected"),
    ],
)
def test_a_mistake_is_one_sentence_with_its_line(
    before: str, after: str, line: int, sentence: str, tmp_path: Path
) -> None:
    assert before in SITE
    with pytest.raises(InvalidFile) as caught:
        read(SITE.replace(before, after, 1), tmp_path)
    (first, *_) = str(caught.value).splitlines()
    assert sentence in str(caught.value)
    assert f"site.toml, line {line}: " in first, first


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


def test_the_nodes_of_slurm_conf_become_those_of_a_site(tmp_path: Path) -> None:
    cluster = conf(CONF, tmp_path)
    site = with_cluster(SiteFile(name="x", machine_classes=(), job_classes=()), cluster)
    assert [*errors(site)] == []
    assert cluster_of(site) == cluster
    assert [table.name for table in site.machine_classes] == [
        "64-cpus-256000-mb",
        "64-cpus-512000-mb-4-a100",
    ]


def test_classes_keep_their_names_and_the_rest_of_a_site_stays(tmp_path: Path) -> None:
    site = with_cluster(read(SITE, tmp_path), conf(CONF, tmp_path))
    names = {name: group.machine_class for group in site.machines for name in group.names}
    assert names == dict.fromkeys(["n1", "n2", "n3", "n4"], "64-cpus-256000-mb") | {
        "g1": "64-cpus-512000-mb-4-a100"
    }
    again = with_cluster(site, conf(CONF.replace("n[1-4]", "n[1-5]"), tmp_path))
    assert {group.machine_class for group in again.machines if "n5" in group.names} == {"64-cpus-256000-mb"}
    assert again.job_classes == site.job_classes
    renamed = site.model_copy(
        update={
            "machine_classes": tuple(
                table.model_copy(update={"name": table.name.replace("64-cpus-256000-mb", "thin")})
                for table in site.machine_classes
            ),
            "machines": tuple(
                group.model_copy(
                    update={"machine_class": group.machine_class.replace("64-cpus-256000-mb", "thin")}
                )
                for group in site.machines
            ),
        }
    )
    kept = with_cluster(renamed, conf(CONF, tmp_path))
    assert {group.machine_class for group in kept.machines} == {"thin", "64-cpus-512000-mb-4-a100"}


def test_overlapping_partitions_do_not_split_nodes_that_are_alike(tmp_path: Path) -> None:
    cluster = conf(CONF, tmp_path)
    assert cluster.nodes["n1"].partitions == {"batch", "all"}
    site = with_cluster(SiteFile(name="x", machine_classes=(), job_classes=()), cluster)
    assert len(site.machine_classes) == 2


def test_a_request_may_ask_for_memory_alone_but_not_for_nothing() -> None:
    assert request_of(RequestTable(cores=0.0, memory_mb=100)).memory_mib == 100
    with pytest.raises(ValueError, match="a request has cores, memory_mb, gpus or resources"):
        RequestTable(cores=0.0)
