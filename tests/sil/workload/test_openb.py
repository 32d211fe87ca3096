from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.node_request import Gpus, Node, Request
from sil.workload.job_log import JobLog
from sil.workload.tables import read_nodes, read_pod_log
from site_db.files.input_errors import InvalidFile
from site_db.site_file.cluster import SiteNodes

NODES = "sn,cpu_milli,memory_mib,gpu,model\na,4000,1000,0,\nb,96000,300000,2,T4\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time,scheduled_time\n"


def read(folder: Path, *pods: str) -> JobLog:
    (folder / "nodes.csv").write_text(NODES)
    (folder / "pods.csv").write_text(PODS + "".join(f"{pod}\n" for pod in pods))
    return read_pod_log(folder / "pods.csv", SiteNodes(read_nodes(folder / "nodes.csv"), {}, {}))


def test_nodes_have_cores_memory_and_gpus_of_a_model(tmp_path: Path) -> None:
    read(tmp_path, "p,1,1,0,0,,0,2,1")
    assert read_nodes(tmp_path / "nodes.csv") == {"a": Node(4, 1000), "b": Node(96, 300_000, ("T4", "T4"))}


def test_a_pod_is_a_job_of_one_task_with_its_sizes_and_times(tmp_path: Path) -> None:
    log = read(tmp_path, "p,2500,512,1,300,T4|V100,100,400,150")
    assert log.jobs.drop("request").rows() == [(1, 100.0, 250.0, 3, 250.0, -1, "p")]
    assert log.requests == (Request(1, 2.5, 512, Gpus(1, 0.3, frozenset({"T4", "V100"}))),)


def test_pods_that_never_ran_or_have_not_ended_are_counted_and_left_out(tmp_path: Path) -> None:
    log = read(tmp_path, "p,1000,1,0,0,,0,20,10", "q,1000,1,0,0,,0,20,", "r,1000,1,0,0,,0,,10")
    assert log.jobs["job"].to_list() == [1]
    assert log.notes == ("2 pods were never scheduled or have not ended; left out",)


def test_pods_of_which_none_ran_are_no_log(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="no pod was scheduled and deleted"):
        read(tmp_path, "p,1000,1,0,0,,0,20,")


@pytest.mark.parametrize(
    ("pod", "sentence"),
    [
        ("q,many,1,0,0,,0,20,10", "cpu_milli is 'many'"),
        ("q,1000,1,0,0,,soon,20,10", "creation_time is 'soon'"),
        ("q,0,0,0,0,,0,20,10", "a chunk requests nothing; expected CPUs, memory or GPUs"),
        ("q,1000,1,2,500,,0,20,10", "gpu_milli is 500 for 2 GPUs"),
    ],
)
def test_an_error_is_one_sentence_with_its_line(pod: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidFile) as caught:
        read(tmp_path, "p,1000,1,0,0,,0,20,10", pod)
    assert str(caught.value).startswith(f"{tmp_path}/pods.csv, line 3: ")
    assert sentence in str(caught.value)
