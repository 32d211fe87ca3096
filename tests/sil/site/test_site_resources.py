"""Resources of the whole site, like software licences: replays, and what counts them independently."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from scheduler.model import ON_NODES, DispatchOrder, Job, JobId, RunId, Share
from scheduler.node_request import Node, Request
from scheduler.rules import NODES_FREE
from sil.outcome.invariants.checker import NO_RESOURCE_ABOVE_CAPACITY, Capacity, first_violation
from sil.trace.facts import TRACE
from sil.trace.held import request_of, request_text
from sil.trace.reading import read_facts
from sil.world.events import EventQueue
from sil.world.guard.faults import SchedulerFault
from sil.world.machines.nodes import ConsumableMachines
from site_db.slurm_conf import read_cluster
from tests.commands import sil, succeeded

pytestmark = pytest.mark.usefixtures("in_this_process")

CONF = """\
Licenses=matlab:5,abaqus:2
NodeName=n1 CPUs=64
NodeName=n2 CPUs=64
PartitionName=left Nodes=n1
PartitionName=right Nodes=n2
PartitionName=both Nodes=ALL
"""
HEADER = "JobID|User|Partition|Submit|Start|End|State|TimelimitRaw|Timelimit|ReqTRES"


def replay(folder: Path, *jobs: tuple[str, str, str, int], scheduler: str = "easy") -> pl.DataFrame:
    """The jobs by number; each has a partition, its resources, a time limit and its run time in seconds. They
    are submitted at the same time."""
    (folder / "slurm.conf").write_text(CONF)
    day, at = "2026-01-01", "2026-01-01T10:00:00"
    rows = [
        f"{k}|ann|{partition}|{at}|{at}|{day}T10:{run_s // 60:02}:{run_s % 60:02}|COMPLETED||{limit}|{tres}"
        for k, (partition, tres, limit, run_s) in enumerate(jobs, 1)
    ]
    (folder / "sacct.txt").write_text("\n".join((HEADER, *rows)) + "\n")
    nodes, out = folder / "slurm.conf", folder / "out"
    options = ("--nodes", nodes, "--out", out, "--scheduler", scheduler, "--reasons", "--no-report")
    succeeded("replay", folder / "sacct.txt", *options)
    return pl.read_csv(out / scheduler.partition("(")[0] / "jobs.csv").sort("job_id")


def summary(folder: Path) -> dict[str, dict[str, str]]:
    """By scheduler."""
    found: dict[str, dict[str, str]] = json.loads((folder / "out" / "summary.json").read_text())["schedulers"]
    return found


ONE_CORE = ("both", "cpu=1,node=1,license/matlab=1", "00:01:40", 100)


@pytest.mark.parametrize("scheduler", ["fcfs", "easy", "conservative"])
def test_eight_jobs_that_need_one_of_five_licences_run_five_at_a_time(scheduler: str, tmp_path: Path) -> None:
    jobs = replay(tmp_path, *[ONE_CORE] * 8, scheduler=scheduler)
    assert jobs["starting_time"].to_list() == [0.0] * 5 + [100.0] * 3
    assert jobs["finish_time"].max() == 200.0


@pytest.mark.parametrize("scheduler", ["fcfs", "easy", "conservative"])
def test_a_job_on_two_nodes_has_its_licences_once(scheduler: str, tmp_path: Path) -> None:
    """While one of them runs, three of five licences are left: for job 2, and after it for job 3."""
    wide = ("both", "cpu=4,node=2,license/matlab=2", "00:03:20", 200)
    others = ("left", "cpu=1,node=1,license/matlab=3", "00:01:40", 100)
    jobs = replay(tmp_path, wide, others, wide, wide, scheduler=scheduler)
    assert jobs["starting_time"].to_list() == [0.0, 0.0, 100.0, 200.0]


def test_only_jobs_that_leave_the_licences_of_the_first_in_time_overtake_it(tmp_path: Path) -> None:
    """Job 2 is to have all licences after job 1, at 100 s. Job 3 would keep one until 200 s, job 4 none, and
    job 5 gives its own back in time."""
    jobs = replay(
        tmp_path,
        ("left", "cpu=1,node=1,license/matlab=3", "00:01:40", 100),
        ("right", "cpu=1,node=1,license/matlab=5", "00:01:40", 100),
        ("right", "cpu=1,node=1,license/matlab=1", "00:03:20", 200),
        ("right", "cpu=1,node=1,license/abaqus=1", "00:03:20", 200),
        ("right", "cpu=1,node=1,license/matlab=2", "00:01:40", 100),
    )
    assert jobs["starting_time"].to_list() == [0.0, 100.0, 200.0, 0.0, 0.0]


def test_a_reservation_moves_up_when_a_run_on_other_nodes_gives_back_a_licence_early(tmp_path: Path) -> None:
    jobs = replay(
        tmp_path,
        ("left", "cpu=1,node=1,license/abaqus=2", "00:10:00", 10),
        ("right", "cpu=1,node=1,license/abaqus=1", "00:10:00", 10),
        scheduler="conservative",
    )
    assert jobs["starting_time"].to_list() == [0.0, 10.0]


def test_why_counts_the_licences_that_are_free(tmp_path: Path) -> None:
    replay(tmp_path, *[ONE_CORE] * 8, scheduler="fcfs")
    text = " ".join(sil("why", tmp_path / "out" / "fcfs", "--job", "6").stdout.split())
    assert "it requests 1 node with 1 CPU, and 1 matlab; 2 nodes up in partition both; 0 of 5 matlab" in text
    assert "0 of 5 matlab are free, it requests 1" in text


def test_a_job_that_requests_more_licences_than_there_are_is_refused(tmp_path: Path) -> None:
    jobs = replay(tmp_path, ("both", "cpu=1,node=1,license/matlab=6", "00:01:40", 100), ONE_CORE)
    assert jobs["job_id"].to_list() == [2]
    assert summary(tmp_path)["easy"]["refused"].endswith(
        "because job 1 requests 1 node with 1 CPU, and 6 matlab; the site has 5 matlab"
    )


def test_a_scheduler_that_ignores_licences_is_named_with_rule_job_and_time(tmp_path: Path) -> None:
    name = "tests.faulty_on_consumable_nodes:IgnoresTheSitesResources"
    replay(tmp_path, *[ONE_CORE] * 8)
    options = ("--nodes", tmp_path / "slurm.conf", "--out", tmp_path / "faulty", "--no-report")
    done = sil("replay", tmp_path / "sacct.txt", *options, "--scheduler", name)
    told = "nodes-free (job 6, at 0 s): job 6 cannot start: 0 of 5 matlab are free, it requests 1"
    assert told in " ".join(done.output.split())


# -- independent counts ----------------------------------------------------------------------------------


def test_an_order_beyond_the_licences_of_the_site_is_a_fault_until_one_is_given_back() -> None:
    request = Request(2, most_on_node=1, site_resources={"matlab": 2})
    machines = ConsumableMachines([Node(8)] * 2, lambda job, nodes: 10.0, EventQueue(), {"matlab": 5})

    def order(k: int) -> DispatchOrder:
        shares = (Share(0, 1, ()), Share(1, 1, ()))
        job = Job(JobId(k), "rigid", 0.0, request=request)
        return DispatchOrder(RunId(k), job, ON_NODES, (0, 1), 10.0, shares=shares)

    for k in (1, 2):
        machines.check(order(k), 0.0)
        machines.start(order(k), 0.0)
    with pytest.raises(SchedulerFault) as caught:
        machines.check(order(3), 3.0)
    assert (caught.value.rule, caught.value.job, caught.value.time_s) == (NODES_FREE, 3, 3.0)
    assert str(caught.value).endswith("it requests 2 matlab, of which the site has 1 left")
    machines.stop(RunId(1), 5.0)
    machines.check(order(3), 5.0)


def test_an_invariant_finds_more_licences_in_use_than_the_site_has(tmp_path: Path) -> None:
    replay(tmp_path, *[ONE_CORE] * 8)
    facts = read_facts(tmp_path / "out" / "easy" / TRACE)
    nodes = tuple(read_cluster(tmp_path / "slurm.conf").nodes.values())
    assert first_violation(facts, Capacity(2, nodes=nodes, site_resources={"matlab": 5})) is None
    breach = first_violation(facts, Capacity(2, nodes=nodes, site_resources={"matlab": 4}))
    assert breach is not None
    assert (breach.rule, breach.job) == (NO_RESOURCE_ABOVE_CAPACITY, 5)
    assert breach.message.endswith("it requests 1 matlab, of which the site has 0 left")


def test_what_a_job_requests_of_the_site_is_read_from_a_trace_as_it_was_written() -> None:
    request = Request(2, site_resources={"matlab": 1, "abaqus": 20})
    assert request_of(request_text(request)) == request
    assert str(request) == "2 nodes with 1 CPU each, and 20 abaqus and 1 matlab"
