"""The nodes and partitions of a Slurm cluster in place of those of a site."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from site_db.exchange import ImportedNodes, import_nodes
from site_db.files.input_errors import InvalidFile
from site_db.history.stored_statistics import disagreements
from site_db.jobs.log_import import count_things
from site_db.schema import ExecutionHistoryRow, JobRow, SiteRow, UserRow
from site_db.site_file.cluster import SiteNodes
from site_db.site_file.importing import put_site
from site_db.site_file.nodes import never_satisfied
from site_db.site_file.tables import SiteFile
from site_db.site_file.validation import errors
from site_db.sites import SiteReader
from site_db.slurm_conf import read_cluster
from tests.site_db.conftest import ON_SQLITE
from tests.site_db.site_texts import NODES, a_run, dump, read, record

CONF = """Licenses=matlab:5
NodeName=n[01-04] CPUs=64 Sockets=2 CoresPerSocket=16 ThreadsPerCore=2 RealMemory=256000 Feature=ib,avx512
NodeName=g1 CPUs=32 RealMemory=512000 Gres=gpu:h100:2,gpu:a100:4,scratch:800G
PartitionName=batch Nodes=n[01-04] MaxTime=1-0 DefaultTime=60 MaxNodes=2
PartitionName=whole Nodes=g1,n[03-04] OverSubscribe=EXCLUSIVE
"""
WITHOUT_SWITCHES = "the switches or blocks of the site are removed, since the file has none"


def imported(session: Session, text: str, folder: Path, site: str = "ours") -> ImportedNodes:
    path = folder / "slurm.conf"
    path.write_text(text)
    found = import_nodes(session, site, path, 0.0)
    session.expire_all()
    return found


def file_of(session: Session, site: str = "ours") -> SiteFile:
    return SiteReader(session, site).as_file()


def cluster(text: str, folder: Path) -> SiteNodes:
    path = folder / "cluster.conf"
    path.write_text(text)
    return read_cluster(path)


def refused(session: Session, text: str, folder: Path, site: str = "ours") -> str:
    path = folder / "slurm.conf"
    path.write_text(text)
    with pytest.raises(InvalidFile) as caught:
        import_nodes(session, site, path, 0.0)
    return str(caught.value).removeprefix(f"{path}")


def classes(file: SiteFile) -> dict[str, str]:
    return {name: group.machine_class for group in file.machines for name in group.names}


# -- a new site --------------------------------------------------------------------------------------------


def test_a_new_site_has_the_nodes_partitions_and_licences_of_the_file(
    session: Session, tmp_path: Path
) -> None:
    found = imported(session, CONF, tmp_path)
    assert found.is_new
    assert found.notes == []
    assert str(found.cluster) == "5 nodes with 288 CPUs and 6 GPUs"
    file = file_of(session)
    assert list(errors(file)) == []
    cpu, gpu = file.machines
    assert (cpu.names, cpu.machine_class) == (("n01", "n02", "n03", "n04"), "64-cpus-256000-mb")
    assert (cpu.processors, cpu.threads_per_core, cpu.memory_mb) == (64, 2, 256_000.0)
    assert cpu.features == ("avx512", "ib")
    assert (gpu.names, gpu.machine_class) == (("g1",), "32-cpus-512000-mb-2-h100-4-a100")
    assert gpu.gpus == {"a100": 4, "h100": 2}
    assert gpu.resources == {"scratch": 800 * 2**30}
    assert [(table.name, table.amount) for table in file.site_resources] == [("matlab", 5)]
    batch, whole = file.partitions
    assert (batch.nodes, whole.nodes) == (("n01", "n02", "n03", "n04"), ("n03", "n04", "g1"))
    limits = (batch.max_time_s, batch.default_time_s, batch.max_nodes, batch.exclusive)
    assert limits == (86_400.0, 3_600.0, 2, False)
    assert (whole.max_time_s, whole.max_nodes, whole.exclusive) == (None, None, True)


@ON_SQLITE
def test_the_nodes_that_experiments_use_are_those_of_the_file(session: Session, tmp_path: Path) -> None:
    found = imported(session, CONF, tmp_path).cluster
    of_file = cluster(CONF, tmp_path)
    assert found.nodes == {
        name: type(node)(
            node.cores, node.memory_mib, tuple(sorted(node.gpus)), node.others, node.features, node.partitions
        )
        for name, node in of_file.nodes.items()
    }
    assert found.partitions == of_file.partitions
    assert found.threads == of_file.threads
    assert found.site_resources == of_file.site_resources


@ON_SQLITE
def test_nodes_with_cpus_on_other_cores_are_of_another_class(session: Session, tmp_path: Path) -> None:
    text = (
        "NodeName=a CPUs=64\n"
        "NodeName=b CPUs=64 Sockets=2 CoresPerSocket=16 ThreadsPerCore=2\n"
        "NodeName=c CPUs=64 Feature=fast\nPartitionName=p Nodes=ALL\n"
    )
    imported(session, text, tmp_path)
    assert classes(file_of(session)) == {"a": "64-cpus", "b": "64-cpus-2", "c": "64-cpus-3"}


@ON_SQLITE
def test_the_class_of_a_node_does_not_depend_on_its_partitions(session: Session, tmp_path: Path) -> None:
    text = (
        "NodeName=n[1-4] CPUs=8 RealMemory=1000\nPartitionName=a Nodes=n[1-2]\nPartitionName=b Nodes=n[2-3]\n"
        "PartitionName=c Nodes=ALL\n"
    )
    imported(session, text, tmp_path)
    file = file_of(session)
    assert set(classes(file).values()) == {"8-cpus-1000-mb"}
    assert [table.nodes for table in file.partitions] == [
        ("n1", "n2"),
        ("n2", "n3"),
        ("n1", "n2", "n3", "n4"),
    ]


# -- an existing site --------------------------------------------------------------------------------------


@ON_SQLITE
@pytest.mark.parametrize(
    "text",
    [
        CONF + "DownNodes=n01 State=DRAIN\n",
        "SelectTypeParameters=CR_Core\n" + CONF,
        CONF.replace("RealMemory=256000", ""),
    ],
    ids=[
        "with memory and a node that is down",
        "where memory does not count",
        "with nodes of unknown memory",
    ],
)
def test_importing_twice_changes_nothing(text: str, session: Session, tmp_path: Path) -> None:
    imported(session, text, tmp_path)
    put_site(session, read(NODES, tmp_path))
    for site in ("ours", "nodes"):
        imported(session, text, tmp_path, site)
        session.execute(update(SiteRow).values(version=6))
        before = dump(session)
        found = imported(session, text, tmp_path, site)
        assert not found.is_new
        session.execute(update(SiteRow).values(version=6))
        assert dump(session) == before


def test_history_job_classes_queues_and_users_stay(session: Session, tmp_path: Path) -> None:
    text = NODES + '\n[[queues]]\nname = "batch"\npriority = 3\n\n[[users]]\nname = "ann"\nmost_jobs = 2\n'
    put_site(session, read(text, tmp_path))
    record(session, a_run("g1", 50.0, job_class="train"), a_run("n01", job_class="wide"), site="nodes")
    before = file_of(session, "nodes")
    imported(session, CONF.replace("n[01-04]", "n[01-06]"), tmp_path, "nodes")
    after = file_of(session, "nodes")
    assert after.job_classes == before.job_classes
    assert (after.queues, after.users) == (before.queues, before.users)
    assert [len(table.nodes) for table in after.partitions] == [6, 3]
    site_id = SiteReader(session, "nodes").site.id
    history = (
        select(func.count()).select_from(ExecutionHistoryRow).where(ExecutionHistoryRow.site_id == site_id)
    )
    assert session.scalar(history) == 2
    assert list(disagreements(session, site_id)) == []
    assert session.scalars(select(UserRow.name).where(UserRow.site_id == site_id)).all() == ["ann"]


@ON_SQLITE
def test_nodes_of_equal_specification_keep_the_name_of_their_class(session: Session, tmp_path: Path) -> None:
    put_site(session, read(NODES, tmp_path))
    imported(session, CONF.replace("n[01-04]", "n[01-06]"), tmp_path, "nodes")
    file = file_of(session, "nodes")
    assert [table.name for table in file.machine_classes] == ["cpu", "gpu"]
    assert classes(file) == {**{f"n0{n}": "cpu" for n in range(1, 7)}, "g1": "gpu"}


def test_a_machine_keeps_what_slurm_does_not_tell_unless_it_is_other_hardware(
    session: Session, tmp_path: Path
) -> None:
    told = 'rating = 1.5\nos = "Linux"\nstorage_gb = 80\nslots = 8\nthreads_per_core = 2'
    text = NODES.replace("threads_per_core = 2", told)
    put_site(session, read(text, tmp_path))
    conf = CONF.replace("n[01-04] CPUs=64", "n[01-03] CPUs=64") + "NodeName=n04 CPUs=128 RealMemory=256000\n"
    imported(session, conf, tmp_path, "nodes")
    left = {
        name: (group.rating, group.os, group.storage_gb, group.slots)
        for group in file_of(session, "nodes").machines
        for name in group.names
    }
    assert left["n03"] == (1.5, "Linux", 80.0, 8)
    assert left["n04"] == (None, "", None, 8)


def test_nodes_that_are_gone_leave_partitions_and_their_runs_to_their_class(
    session: Session, tmp_path: Path
) -> None:
    put_site(session, read(NODES, tmp_path))
    record(session, a_run("n04", job_class="wide"), site="nodes")
    conf = CONF.replace("n[01-04]", "n[01-03]").replace("n[03-04]", "n03")
    imported(session, conf, tmp_path, "nodes")
    file = file_of(session, "nodes")
    assert [table.nodes for table in file.partitions] == [("n01", "n02", "n03"), ("n03", "g1")]
    assert session.execute(select(JobRow.machine_id, JobRow.state)).all() == [(None, "done")]
    run = session.scalars(select(ExecutionHistoryRow)).one()
    assert (run.machine_id, run.machine_class_id is None) == (None, False)


def test_classes_that_the_nodes_cannot_satisfy_any_more_are_counted_and_stay(
    session: Session, tmp_path: Path
) -> None:
    put_site(session, read(NODES, tmp_path))
    conf = "\n".join(line for line in CONF.splitlines() if "g1" not in line and "Licenses" not in line)
    found = imported(session, conf, tmp_path, "nodes")
    assert found.notes == [
        WITHOUT_SWITCHES,
        "job class 'tasks' requests 128 tasks with 0.5 CPU each, and 2 matlab, but the site "
        "has no matlab; such jobs are refused when they arrive (1 of 3 classes; for the others: "
        "sil db check)",
    ]
    assert [name for name, _ in never_satisfied(file_of(session, "nodes"))] == ["tasks", "train", "infer"]
    assert count_things(session, "nodes")["job class"] == 5


@ON_SQLITE
def test_where_all_nodes_are_other_hardware_every_job_class_can_still_run(
    session: Session, tmp_path: Path
) -> None:
    put_site(session, read(NODES, tmp_path))
    conf = CONF.replace("CPUs=64 Sockets=2", "CPUs=96 Sockets=3").replace("CPUs=32", "CPUs=48")
    found = imported(session, conf, tmp_path, "nodes")
    assert found.notes == [WITHOUT_SWITCHES]
    file = file_of(session, "nodes")
    cpu, gpu = (table.machine_class for table in file.machines)
    assert {cpu, gpu}.isdisjoint({"cpu", "gpu"})
    where = {table.name: table.commands for table in file.job_classes}
    assert where == {
        "wide": {cpu: ""},
        "tasks": {cpu: ""},
        "train": {gpu: ""},
        "infer": {gpu: ""},
        "plain": {cpu: ""},
    }
    assert list(errors(file)) == []


def test_a_site_of_machines_becomes_one_of_nodes_and_keeps_the_members_of_clusters_that_are_left(
    session: Session, tmp_path: Path
) -> None:
    record(session, a_run("f1"), a_run("mixed", members=3))
    conf = "NodeName=f[1-2],s2,x CPUs=8 RealMemory=1000\nPartitionName=p Nodes=ALL\n"
    found = imported(session, conf, tmp_path, "small")
    assert found.notes == []
    file = file_of(session, "small")
    assert [(table.name, table.members) for table in file.clusters] == [
        ("pair", ("f1", "f2")),
        ("mixed", ("f2", "s2")),
    ]
    assert file.machines[0].names == ("f1", "f2", "s2", "x")
    assert session.scalar(select(func.count()).select_from(ExecutionHistoryRow)) == 2


def test_a_cluster_of_which_no_member_is_left_is_removed_with_its_times(
    session: Session, tmp_path: Path
) -> None:
    conf = "NodeName=s[1-2] CPUs=8 RealMemory=1000\nPartitionName=p Nodes=ALL\n"
    found = imported(session, conf, tmp_path, "small")
    assert found.notes == ["the cluster 'pair' is removed, since none of its members is a node any more"]
    file = file_of(session, "small")
    assert [table.name for table in file.clusters] == ["mixed"]
    short, *_ = file.job_classes
    assert short.parallel_s == {"mixed": 9.0}


@ON_SQLITE
def test_a_node_with_the_name_of_a_cluster_is_reported(session: Session, tmp_path: Path) -> None:
    conf = "NodeName=f[1-2],pair CPUs=8\nPartitionName=p Nodes=ALL\n"
    assert refused(session, conf, tmp_path, "small") == ": 'pair' is the name of a machine and of a cluster"


# -- the output of scontrol --------------------------------------------------------------------------------

SCONTROL = """NodeName=n001 Arch=x86_64 CoresPerSocket=32
   CPUAlloc=0 CPUTot=64 CPULoad=0.01 RealMemory=256000 Sockets=2 ThreadsPerCore=1
   Partitions=night,all

NodeName=n002 Arch=x86_64 CoresPerSocket=32
   CPUTot=64 RealMemory=256000 Sockets=2 ThreadsPerCore=1
   Partitions=all,day
"""


@ON_SQLITE
def test_partitions_that_only_nodes_name_have_no_limits(session: Session, tmp_path: Path) -> None:
    found = imported(session, SCONTROL, tmp_path)
    assert found.notes == [
        "the limits of the partitions all, night, day are not known, since only nodes name them; for "
        "MaxTime, DefaultTime and MaxNodes, import slurm.conf"
    ]
    assert found.cluster.model[1].endswith("partitions, by number of nodes: all (2), night (1), day (1)")
    file = file_of(session)
    assert [(table.name, table.nodes) for table in file.partitions] == [
        ("all", ("n001", "n002")),
        ("night", ("n001",)),
        ("day", ("n002",)),
    ]
    assert {table.max_time_s for table in file.partitions} == {None}


@ON_SQLITE
def test_a_partition_that_one_line_defines_has_its_limits_beside_those_that_only_nodes_name(
    session: Session, tmp_path: Path
) -> None:
    found = imported(session, SCONTROL + "PartitionName=all Nodes=ALL MaxTime=60\n", tmp_path)
    assert found.notes[0].startswith("the limits of the partitions night, day are not known")
    assert [table.max_time_s for table in file_of(session).partitions] == [3_600.0, None, None]


@ON_SQLITE
@pytest.mark.parametrize("text", ["NodeName=n[1-2] CPUs=8\n", SCONTROL.replace("Partitions=", "Parts=")])
def test_nodes_without_any_partition_are_refused_with_what_to_add(
    text: str, session: Session, tmp_path: Path
) -> None:
    sentence = refused(session, text, tmp_path)
    assert sentence == (
        ": there is no partition, which jobs are submitted to; expected a line like 'PartitionName=batch "
        "Nodes=ALL', or Partitions=batch in the output of scontrol show node"
    )
    assert "ours" not in session.scalars(select(SiteRow.name)).all()


# -- other nodes, without a database -----------------------------------------------------------------------
