from __future__ import annotations

from typing import Any

import pytest

from scheduler.free_nodes.consumable_nodes import ConsumableNodes
from scheduler.free_nodes.consumable_problem import ConsumableNodesProblem
from scheduler.model import Job, JobId, NodeSchedule, Share, Start
from scheduler.node_request import Gpus, Node, Partition, Request, alike, most_chunks
from scheduler.node_set import NodeSet

NODES = [
    Node(4, partitions=frozenset({"a", "all"})),
    Node(4, partitions=frozenset({"a", "all"})),
    Node(8, partitions=frozenset({"b", "all"})),
]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"chunks": 0}, "0 chunks"),
        ({"cores": -1}, "-1 CPUs"),
        ({"cores": 0.0004}, "0.0004 CPUs; expected none, or from 0.001"),
        ({"cores": float("nan")}, "nan CPUs"),
        ({"memory_mib": -5}, "expected amounts of 0 or more"),
        ({"most_on_node": 0}, "0 on a node"),
        ({"cores": 0}, "a chunk requests nothing"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Request(**fields)


@pytest.mark.parametrize(("count", "share"), [(0, 1.0), (-1, 1.0), (2, 0.5), (1, 0.0004), (1, 1.5)])
def test_gpus_are_whole_or_a_part_of_one(count: int, share: float) -> None:
    with pytest.raises(ValueError, match=r"expected whole ones, or from 0\.001 to 1 of one"):
        Gpus(count, share)


@pytest.mark.parametrize(
    ("partitions", "chunks"), [("", 4), ("a", 2), ("b", 2), ("a b", 2), ("a all", 4), ("none", 0)]
)
def test_the_chunks_of_a_job_are_in_one_of_its_partitions(partitions: str, chunks: int) -> None:
    request = Request(9, cores=4, most_on_node=None, partitions=frozenset(partitions.split()))
    assert most_chunks(request, alike(NODES)) == chunks


def test_a_partition_admits_a_job_up_to_its_limits() -> None:
    debug = Partition("debug", max_time_s=600, max_nodes=2)
    assert debug.refusal(Request(2), 600) is None
    assert debug.refusal(Request(3), 600) == "3 nodes, of which partition debug allows 2"
    assert debug.refusal(Request(3, most_on_node=None), None) is None
    assert debug.refusal(Request(1), 601) == "601 s, of which partition debug allows 600 s"


@pytest.mark.parametrize(
    "share",
    [
        Share(99, 1, ()),
        Share(-1, 1, ()),
        Share(0, 0, ()),
        Share(0, 1.5, ()),  # type: ignore[arg-type]
        Share(0, 1, (70,)),
        Share(0, 1, (-1,)),
        Share(0, 1, (0, 0)),
    ],
    ids=str,
)
def test_shares_of_what_does_not_exist_break_a_rule(share: Share) -> None:
    """They are no error of the testbed, and no other GPU is taken for them."""
    request = Request(gpus=Gpus(2 if len(share.gpus) == 2 else 1))
    job = Job(JobId(0), "rigid", 0.0, request=request, estimate_s=5.0)
    state = ConsumableNodes((Node(4, 8, ("a", "a")), Node(4, 8)))
    state.wait(job, request, 5.0)
    problem = ConsumableNodesProblem(0.0, state, {})
    violation = problem.violation(NodeSchedule((Start(0, NodeSet.of([0]), 5.0, (share,)),), {}))
    assert violation is not None
    assert str(share) in violation.message
