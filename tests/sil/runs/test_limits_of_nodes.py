"""A node counts once for a limit of nodes, whatever runs on it, as in Slurm."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.node_request import Node, Request
from scheduler.node_request import Partition as Limits
from scheduler.priority.policy import Association, QualityOfService, ResourceLimits, SitePolicy
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.settings.replays import Engine
from sil.trace.facts import Fact
from sil.workload.job_log import log_on_nodes
from site_db.jobs.logged import Charged
from site_db.site_file.cluster import SiteNodes

CORES, LAB, OTHER = 4, 0, 1
Row = tuple[int, float, float, int, int]
"""Of a job: number, arrival, run time, user, cores on each of its nodes (of two nodes, if negative)."""


def starts(rows: list[Row], most: int, scheduler: str, engine: Engine) -> dict[int, tuple[float, list[int]]]:
    """When and on which nodes jobs start; the account of user LAB may use some nodes."""
    users = (Association("lab", "user-0"), Association("other", "user-1"))
    lab = Association("lab", group=ResourceLimits({"node": most}))
    accounts = (lab, Association("other"), *users)
    policy = SitePolicy(None, accounts, {"normal": QualityOfService("normal")}, {}, ("limits",))
    nodes = {f"n{n}": Node(CORES, 1, partitions=frozenset({"p"})) for n in range(3)}
    requests = [Request(chunks=n, cores=cores) for n in (1, 2) for cores in range(1, CORES + 1)]
    cluster = SiteNodes(nodes, {"p": Limits("p")}, {}, policy=policy)
    jobs = [
        (
            job,
            at_s,
            run_s,
            abs(cores) * (1 + (cores < 0)),
            run_s,
            user,
            (cores < 0) * CORES + abs(cores) - 1,
            0,
        )
        for job, at_s, run_s, user, cores in rows
    ]
    log = log_on_nodes("x", jobs, cluster, requests, charged=(Charged("", "normal"),))
    facts = Replay(log, engine=engine).facts(resolve(scheduler), Path("printed"))
    columns = facts.filter(facts["event"] == Fact.RUN_STARTED).select("job", "time_s", "shares")
    return {job: (at_s, sorted(share["node"] for share in on)) for job, at_s, on in columns.iter_rows()}


@pytest.mark.parametrize("engine", [Engine.COMPILED, Engine.HARNESS])
@pytest.mark.parametrize("scheduler", ["fcfs", "sjf", "easy", "conservative", "slurm_backfill"])
def test_jobs_share_the_nodes_of_their_group_and_prefer_them_to_others(
    scheduler: str, engine: Engine
) -> None:
    rows: list[Row] = [
        (1, 0.0, 10.0, OTHER, 3),
        (2, 1.0, 500.0, LAB, 2),  # on node 1, since node 0 has no room
        (3, 20.0, 100.0, LAB, 1),  # there, too, though node 0 comes first and is idle
        (4, 21.0, 100.0, LAB, 2),  # waits for job 3, though two nodes are idle
        (5, 22.0, 100.0, OTHER, 4),  # does not wait for job 4
    ]
    found = starts(rows, 1, scheduler, engine)
    assert found == {1: (0.0, [0]), 2: (1.0, [1]), 3: (20.0, [1]), 5: (22.0, [0]), 4: (120.0, [1])}


@pytest.mark.parametrize("engine", [Engine.COMPILED, Engine.HARNESS])
@pytest.mark.parametrize("scheduler", ["fcfs", "easy", "conservative"])
def test_a_job_on_several_nodes_adds_those_that_its_group_does_not_use_yet(
    scheduler: str, engine: Engine
) -> None:
    rows: list[Row] = [
        (1, 0.0, 10.0, OTHER, 4),
        (2, 1.0, 100.0, LAB, 2),  # on node 1
        (3, 20.0, 100.0, LAB, -2),  # there and on one more
        (4, 21.0, 100.0, LAB, -2),  # of which only the second has room left: a third node would count
    ]
    found = starts(rows, 2, scheduler, engine)
    assert found[3] == (20.0, [0, 1])
    assert found[4][0] == 101.0
