"""What jobs request of nodes as Slurm's options, and what Slurm launches as shares of nodes."""

from __future__ import annotations

import re

import pytest

from scheduler.model import Job, JobId, RunId, Share
from scheduler.node_request import Gpus, Node, Request
from sil.slurm.layout import CannotRequest, Parts, Processors, options_of
from sil.slurm.protocol.submission import NodeShare
from site_db.site_file.cluster import SiteNodes

A100 = frozenset({"a100"})
MIXED = SiteNodes({"n1": Node(8, 64_000, ("v100", "a100", "v100", "a100")), "n2": Node(8, 64_000)}, {}, {})
KINDS = {"a100", "v100"}


def job(request: Request | None = None, n_tasks: int = 1) -> Job:
    return Job(JobId(1), "any", 0.0, n_tasks=n_tasks, request=request)


def share(node: str, cpus: int, gpus: tuple[int, ...] = ()) -> NodeShare:
    return NodeShare(node, cpus, tuple(range(cpus)), gpus, None, {})


def shares(request: Request, *launched: NodeShare) -> tuple[Share, ...]:
    return Parts(MIXED).order(RunId(1), job(request), launched, 10.0).shares


def test_one_part_on_each_node_is_requested_of_each_node() -> None:
    found = options_of(Request(2, 4, 1001, Gpus(2, types=A100), {"nvme": 1}), KINDS)
    assert found == {
        "min_nodes": 2,
        "tasks": 2,
        "tasks_per_node": 1,
        "cpus_per_task": 4,
        "memory_per_node_mb": 1001,
        "gpus_per_node": "a100:2",
        "gres": "nvme:1",
    }


def test_alternatives_among_features_are_in_parentheses() -> None:
    found = options_of(Request(features=frozenset({"ib", "old|new"})), KINDS)
    assert found["constraint"] == "ib&(old|new)"


def test_tasks_request_memory_for_each_cpu_rounded_up() -> None:
    found = options_of(Request(6, 4, 1001, Gpus(1), most_on_node=None), KINDS)
    assert found == {"tasks": 6, "cpus_per_task": 4, "memory_per_cpu_mb": 251, "gpus_per_task": "1"}


def test_where_memory_is_no_resource_none_is_requested() -> None:
    without = SiteNodes({"n1": Node(8)}, {}, {}, has_memory=False)
    assert "memory_per_node_mb" not in Parts(without).options(job(Request(1, 4, 1000)))


def test_gpus_of_all_types_are_of_any_type() -> None:
    found = options_of(Request(gpus=Gpus(2, types=frozenset(KINDS))), KINDS)
    assert found["gpus_per_node"] == "2"


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (Request(cores=0.5), "0.5 CPUs, and Slurm allocates whole ones"),
        (Request(cores=70_000), "70,000 CPUs of a node, and Slurm counts up to 65,000"),
        (Request(gpus=Gpus(1, 0.5)), "0.5 of a GPU, and Slurm allocates whole ones here"),
        (Request(gpus=Gpus(1, types=frozenset({"x", "a100"}))), "and Slurm allocates those of one type"),
        (Request(gpus=Gpus(1, types=frozenset({"gpu"}))), "Slurm would take those of a type, too"),
        (Request(2, others={"nvme": 1}, most_on_node=None), "nvme for each of several tasks on a node"),
    ],
)
def test_what_slurm_cannot_express_is_said(request_: Request, why: str) -> None:
    with pytest.raises(CannotRequest, match=re.escape(why)):
        options_of(request_, KINDS)


def test_gpus_have_the_numbers_of_the_world_though_slurm_puts_those_of_a_type_together() -> None:
    # Slurm's: v100, v100, a100, a100.
    assert shares(Request(gpus=Gpus(2, types=A100)), share("n1", 1, (2, 3))) == (Share(0, 1, (1, 3)),)


def test_as_many_tasks_are_on_a_node_as_fit_into_what_the_job_has_there() -> None:
    request = Request(5, 2, most_on_node=None)
    assert shares(request, share("n2", 4), share("n1", 6)) == (Share(0, 3), Share(1, 2))


def test_of_more_than_its_tasks_need_a_job_uses_no_more() -> None:
    request = Request(3, 2, 10, Gpus(1, types=A100), most_on_node=2)
    launched = share("n1", 4, (2, 3)), share("n2", 4)
    assert shares(request, *launched) == (Share(0, 2, (1, 3)), Share(1, 1))


def test_each_node_of_a_job_has_a_task_though_whole_cores_have_room_for_more() -> None:
    assert shares(Request(2, 1, most_on_node=None), share("n1", 2), share("n2", 2)) == (
        Share(0, 1),
        Share(1, 1),
    )


def test_processors_are_the_cpus_of_cores() -> None:
    layout = Processors({"n1": Node(4), "n2": Node(4)}, {"n1": 2, "n2": 2})
    order = layout.order(RunId(1), job(n_tasks=3), [NodeShare("n2", 4, (0, 1), (), None, {})], 10.0)
    assert [*order.machines] == [4, 5, 6]
