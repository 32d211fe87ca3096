"""How much of nodes was used at a time, against a version that looks at every second."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.node_request import Node
from site_db.jobs.logged import LoggedJob
from site_db.jobs.occupancy import Occupancy, Overbooked
from site_db.jobs.requests import LoggedRequests
from site_db.slurm.output import Tres
from tests.examples import up_to

NODES = ["n1", "n2", "n3"]
DURATION_S = 12
"""Of a log: long enough for jobs one after another, short enough to look at every second."""


def job(
    nodes: Sequence[str], begin_s: int, end_s: int, cpus: int = 1, gpus: int = 0, **rest: object
) -> LoggedJob:
    tres = Tres(cpus=cpus, nodes=len(nodes), memory_mib=10 * cpus, gpus={"": gpus} if gpus else {})
    times = {"submitted_unix_s": begin_s, "started_unix_s": begin_s, "ended_unix_s": end_s}
    known = {"user": "ann", "program": "sim", "partition": "batch", "processors": cpus, "resources": tres}
    return LoggedJob(**{"number": "1", **known, **times, "nodes": tuple(nodes), **rest})  # type: ignore[arg-type]


@st.composite
def logs(draw: st.DrawFn) -> list[LoggedJob]:
    jobs = []
    for line in range(2, draw(st.integers(3, 9))):
        begin_s = draw(st.integers(0, DURATION_S - 1))
        end_s = draw(st.integers(begin_s + 1, DURATION_S))
        nodes = draw(st.lists(st.sampled_from(NODES), unique=True, max_size=3))
        gpus = draw(st.integers(0, 3))
        jobs.append(job(nodes, begin_s, end_s, draw(st.integers(1, 7)), gpus, line=line, number=str(line)))
    return jobs


def used_at(second: int, jobs: Sequence[LoggedJob], node: str) -> list[int]:
    """CPUs, memory and GPUs in use on a node during a second: equal parts of jobs, rounded down."""
    there = [job for job in jobs if node in job.nodes and job.started_unix_s <= second < job.ended_unix_s]
    return [
        sum(job.resources.cpus // len(job.nodes) for job in there),
        sum(job.resources.memory_mib // len(job.nodes) for job in there),
        sum(job.resources.n_gpus // len(job.nodes) for job in there),
    ]


def most_used(jobs: Sequence[LoggedJob], node: str) -> list[int]:
    seconds = [used_at(second, jobs, node) for second in range(DURATION_S)]
    return [max(column) for column in zip(*seconds, strict=True)]


def needed(job: LoggedJob) -> list[int]:
    """What each of a job's nodes must have, so that all of it fits if only the rounding differs."""
    n, tres = len(job.nodes), job.resources
    cpus, memory = ceil(tres.cpus / n), ceil(tres.memory_mib / n)
    if tres.cpus % n and not tres.gpus:
        memory = cpus * ceil(tres.memory_mib / tres.cpus)
    return [cpus, memory, ceil(tres.n_gpus / n)]


def occupancy_of(jobs: Sequence[LoggedJob]) -> Occupancy:
    found = Occupancy()
    for one in jobs:
        found.add(one)
    return found


@settings(max_examples=up_to(300), deadline=None)
@given(logs())
def test_a_node_has_what_any_second_and_any_job_needs(jobs: list[LoggedJob]) -> None:
    expected = {}
    for node in dict.fromkeys(name for job in jobs for name in job.nodes):
        columns = [most_used(jobs, node), *(needed(job) for job in jobs if node in job.nodes)]
        expected[node] = [max(column) for column in zip(*columns, strict=True)]
    found = occupancy_of(jobs).cluster().nodes
    assert {name: [node.cores, node.memory_mib, len(node.gpus)] for name, node in found.items()} == expected


@settings(max_examples=up_to(300), deadline=None)
@given(logs(), st.integers(1, 12))
def test_a_node_is_overbooked_if_it_is_in_any_second(jobs: list[LoggedJob], cpus: int) -> None:
    found = {one.node: one for one in occupancy_of(jobs).overbooked({name: Node(cpus) for name in NODES})}
    expected = {}
    for node in NODES:
        beyond = [second for second in range(DURATION_S) if used_at(second, jobs, node)[0] > cpus]
        if beyond:
            expected[node] = most_used(jobs, node)[0]
            culprit = next(job for job in jobs if job.line == found[node].line)
            # That job starts in the first such second, and it is one of those on the node then.
            assert culprit.started_unix_s == beyond[0]
            assert node in culprit.nodes
            assert found[node].there == cpus
    assert {name: one.used for name, one in found.items()} == expected


@settings(max_examples=up_to(300), deadline=None)
@given(logs())
def test_every_job_fits_the_nodes_that_are_inferred_from_all(jobs: list[LoggedJob]) -> None:
    placed = [job for job in jobs if job.nodes]
    cluster = occupancy_of(jobs).cluster()
    requests = LoggedRequests(cluster)
    for one in placed:
        requests.place(one)
    assert list(requests.never_fit()) == []


def test_a_job_that_ends_when_another_starts_leaves_its_cores_to_it() -> None:
    jobs = [job(["n1"], 0, 5, cpus=4, line=2), job(["n1"], 5, 9, cpus=4, line=3)]
    assert list(occupancy_of(jobs).overbooked({"n1": Node(4)})) == []
    assert occupancy_of(jobs).cluster().nodes["n1"].cores == 4


def test_overbooked_nodes_are_listed_in_order_of_their_first_job_and_unknown_ones_are_not() -> None:
    jobs = [
        job(["n2"], 0, 5, cpus=4, line=2),
        job(["n1", "n3"], 0, 5, cpus=8, line=3),
        job(["n2"], 4, 6, cpus=1, line=4),
        job(["n1"], 4, 6, cpus=3, line=5),
        job(["n3"], 4, 6, cpus=3, line=6),
    ]
    found = list(occupancy_of(jobs).overbooked({"n1": Node(4), "n2": Node(4)}))
    assert found == [Overbooked("n2", 5, 4.0, 4), Overbooked("n1", 7, 4.0, 5)]


def test_allocated_processors_count_where_they_are_more_than_requested() -> None:
    """Slurm allocates whole cores."""
    found = occupancy_of([job(["n1"], 0, 5, cpus=1, processors=2)])
    assert found.cluster().nodes["n1"].cores == 2


def test_gpus_of_several_types_are_the_largest_numbers_of_one_job_and_as_many_as_at_a_time() -> None:
    types = [{"a100": 2}, {"h100": 1}, {"h100": 1}, {"": 2}]
    jobs = [job(["n1"], 0, 5, resources=Tres(cpus=1, nodes=1, gpus=gpus)) for gpus in types]
    assert occupancy_of(jobs).cluster().nodes["n1"].gpus == ("a100", "a100", "h100", "a100", "a100", "a100")


def test_no_jobs_use_no_nodes() -> None:
    assert occupancy_of([job([], 0, 5)]).cluster().nodes == {}
    assert list(occupancy_of([]).overbooked({"n1": Node(1)})) == []
