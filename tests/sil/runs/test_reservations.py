"""Drains, outages and reservations in replays: both engines write equal traces, and no run is where and when
it must not be, as counted from the facts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.node_request import Node, Partition, Request
from sil.runs.node_events import with_reservations
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.settings.log_events import Events, NodeEvent, NodesReserved, NodesUpdated
from sil.settings.replays import Engine
from sil.trace.facts import Fact
from sil.trace.held import intervals_in, request_of
from sil.workload.job_log import JobLog, log_on_nodes
from site_db.site_file.cluster import SiteNodes
from tests.examples import up_to

CPUS, N_NODES = 8, 4
REQUESTS = [Request(chunks=n, cores=cores) for n in (1, 2, 4) for cores in (1, 4, 8)]
SCHEDULERS = ["fcfs", "sjf", "easy", "easy_sjbf", "conservative", "slurm_backfill"]


class Job(NamedTuple):
    submit_s: float
    run_s: float
    nodes: int = 1
    estimate_s: float | None = None
    cores: int = CPUS
    reservation: str = ""


def replay_of(jobs: list[Job], *on_nodes: NodeEvent, n_nodes: int = 2, engine: Engine) -> Replay:
    requests = [Request(chunks=job.nodes, cores=job.cores) for job in jobs]
    rows = [
        (k, job.submit_s, job.run_s, job.nodes * job.cores, job.estimate_s or job.run_s, 0, k - 1)
        for k, job in enumerate(jobs, start=1)
    ]
    nodes = {f"n{n}": Node(CPUS, 1, partitions=frozenset({"p"})) for n in range(1, n_nodes + 1)}
    log = log_on_nodes("jobs", rows, SiteNodes(nodes, {"p": Partition("p")}, {}), requests)
    options = {k: {"reservation": job.reservation} for k, job in enumerate(jobs, 1) if job.reservation}
    events = Events(on_nodes, options=options)
    return Replay(with_reservations(log, events, Path("events.toml")), events=events, engine=engine)


def facts_of(
    jobs: list[Job], scheduler: str, *on_nodes: NodeEvent, n_nodes: int = 2, engine: Engine = Engine.HARNESS
) -> pl.DataFrame:
    replay = replay_of(jobs, *on_nodes, n_nodes=n_nodes, engine=engine)
    return replay.facts(resolve(scheduler), Path("/dev/null"))


def starts(facts: pl.DataFrame) -> dict[int, float]:
    """The last start of each job."""
    rows = facts.filter(pl.col("event") == Fact.RUN_STARTED)
    return dict(rows.select("job", "time_s").iter_rows())


ENGINES = pytest.mark.parametrize("engine", [Engine.COMPILED, Engine.HARNESS])
OF_ALL = ("root", "anyone", "user-0")
MAINT = NodesReserved(0.0, "maint1", 100.0, 200.0, "n[1-2]")


@ENGINES
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_job_starts_only_if_its_limit_ends_before_the_maintenance(scheduler: str, engine: Engine) -> None:
    jobs = [Job(0, 10, 2, 110), Job(0, 50, 2, 90)]
    found = starts(facts_of(jobs, scheduler, MAINT, engine=engine))
    if scheduler in ("fcfs",):
        assert found == {1: 200.0, 2: 210.0}
    else:
        assert found == {2: 0.0, 1: 200.0}


@ENGINES
@pytest.mark.parametrize("scheduler", ["easy", "easy_sjbf", "conservative"])
def test_what_is_reserved_for_the_first_job_is_a_time_at_which_it_may_run(
    scheduler: str, engine: Engine
) -> None:
    """Job 2 would fit at 60, when job 1 ends, but for the maintenance. So job 3 does not delay it."""
    jobs = [Job(0, 60, 1), Job(1, 90, 2), Job(2, 90, 1)]
    found = starts(facts_of(jobs, scheduler, MAINT, engine=engine))
    assert found == {1: 0.0, 2: 200.0, 3: 2.0}


@ENGINES
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_maintenance_that_becomes_known_later_does_not_count_before(scheduler: str, engine: Engine) -> None:
    late = MAINT._replace(at_s=50.0)
    found = starts(facts_of([Job(0, 150, 1), Job(60, 45, 1)], scheduler, late, engine=engine))
    assert found == {1: 0.0, 2: 200.0}


@ENGINES
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_job_that_names_a_reservation_runs_inside_it_and_holds_up_no_other(
    scheduler: str, engine: Engine
) -> None:
    course = NodesReserved(0.0, "course", 100.0, 200.0, "n2", users=OF_ALL)
    jobs = [Job(0, 60, 1, reservation="course"), Job(1, 80, 1), Job(2, 120, 1), Job(3, 20, 1)]
    found = starts(facts_of(jobs, scheduler, course, engine=engine))
    assert found[1] == 100.0
    assert found[2] == 1.0
    assert found[4] == (22 if scheduler == "never" else found[4])
    assert facts_of(jobs, scheduler, course, engine=engine).filter(
        (pl.col("job") == 1) & (pl.col("event") == Fact.RUN_STARTED)
    )["machines"].to_list() == [[{"first": 1, "last": 1}]]


@ENGINES
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_drained_node_takes_no_job_until_it_is_resumed_and_its_run_goes_on(
    scheduler: str, engine: Engine
) -> None:
    drain = NodesUpdated(10.0, "n1", "DRAIN", "fan"), NodesUpdated(500.0, "n1", "RESUME")
    jobs = [Job(0, 100, 1), Job(20, 50, 2), Job(20, 50, 1)]
    facts = facts_of(jobs, scheduler, *drain, engine=engine)
    assert starts(facts)[2] == 500.0
    nodes = facts.filter(pl.col("event").is_in([Fact.NODES_DRAINED, Fact.NODES_RESUMED]))
    assert nodes.select("time_s", "event", "job", "detail").rows() == [
        (10.0, Fact.NODES_DRAINED.value, None, "fan"),
        (500.0, Fact.NODES_RESUMED.value, None, ""),
    ]
    ended = facts.filter((pl.col("event") == Fact.RUN_ENDED) & (pl.col("job") == 1))
    assert ended["time_s"].to_list() == [100.0]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_an_outage_ends_runs_whose_jobs_run_again(scheduler: str) -> None:
    down = NodesUpdated(10.0, "n1", "DOWN", "fire"), NodesUpdated(500.0, "n1", "RESUME")
    facts = facts_of([Job(0, 100, 2)], scheduler, *down)
    times = facts.filter(pl.col("event").is_in([Fact.RUN_STARTED, Fact.RUN_LOST, Fact.RUN_ENDED]))
    assert times["time_s"].to_list() == [0.0, 10.0, 500.0, 600.0]


class Case(NamedTuple):
    log: JobLog
    events: Events


@st.composite
def cases(draw: st.DrawFn) -> Case:
    job = st.tuples(
        st.sampled_from([0, 5, 60, 300]),
        st.sampled_from([10, 100, 700]),
        st.sampled_from([1.0, 3.0, 0.5]),
        st.integers(0, len(REQUESTS) - 1),
    )
    rows, at_s = list[tuple[float, ...]](), 0.0
    drawn = draw(st.lists(job, min_size=1, max_size=30))
    for number, (later_s, run_s, factor, which) in enumerate(drawn, start=1):
        at_s += later_s
        rows.append((number, at_s, float(run_s), REQUESTS[which].cpus, run_s * factor, 0, which))
    nodes = {f"n{n}": Node(CPUS, 1, partitions=frozenset({"p"})) for n in range(N_NODES)}
    log = log_on_nodes("random", rows, SiteNodes(nodes, {"p": Partition("p")}, {}), REQUESTS)
    times = st.sampled_from([0.0, 5.0, 60.0, 65.0, 100.0, 300.0, 365.0, 700.0, 1000.0])
    which_nodes = st.sets(st.integers(0, N_NODES - 1), min_size=1).map(
        lambda some: ",".join(f"n{n}" for n in sorted(some))
    )
    on_nodes = list[NodeEvent]()
    for k in range(draw(st.integers(1, 4))):
        known_s, begins_s, takes_s = draw(times), draw(times), draw(times) + 1.0
        start_s = known_s + begins_s
        nodes_of = draw(which_nodes)
        on_nodes.append(NodesReserved(known_s, f"r{k}", start_s, start_s + takes_s, nodes_of, OF_ALL))
    for _ in range(draw(st.integers(0, 2))):
        drained_s, which_ = draw(times), draw(which_nodes)
        on_nodes += [
            NodesUpdated(drained_s, which_, "DRAIN", "fan"),
            NodesUpdated(drained_s + draw(times) + 1.0, which_, "RESUME"),
        ]
    on_nodes.sort(key=lambda event: event.at_s)
    known = {event.name: event.at_s for event in on_nodes if isinstance(event, NodesReserved)}
    options = {}
    for number, arrival_s, *_ in log.jobs.iter_rows():
        name = draw(st.sampled_from(["", "", *sorted(known)]))
        if name and known[name] < arrival_s:
            options[int(number)] = {"reservation": name}
    events = Events(tuple(on_nodes), options=options)
    return Case(with_reservations(log, events, Path("events.toml")), events)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@settings(max_examples=up_to(500, part=20), deadline=None)
@given(case=cases())
def test_both_engines_write_the_same_trace_in_which_no_run_is_where_it_must_not_be(
    scheduler: str, case: Case
) -> None:
    compiled, harness = (
        Replay(case.log, events=case.events, engine=engine).facts(resolve(scheduler), Path("/dev/null"))
        for engine in (Engine.COMPILED, Engine.HARNESS)
    )
    assert compiled.equals(harness)
    assert len(starts(compiled)) == len(case.log.jobs)
    recount(compiled, case.log)


def recount(facts: pl.DataFrame, log: JobLog) -> None:
    """Check each start against the drains and reservations that were known then."""
    estimates_s = dict(log.jobs.select("job", "estimate_s").iter_rows())
    requests, drained, made = dict[int, Request](), set[int](), dict[str, tuple[float, float, set[int]]]()
    columns = facts["time_s"], facts["event"], facts["job"], facts["detail"], intervals_in(facts["machines"])
    for time_s, event, job, detail, machines in zip(*columns, strict=True):
        nodes = {n for first, last in machines or () for n in range(first, last + 1)}
        if event == Fact.NODES_DRAINED:
            drained |= nodes
        elif event == Fact.NODES_RESUMED:
            drained -= nodes
        elif event == Fact.NODES_RESERVED:
            found = json.loads(detail)
            made[found["name"]] = found["start_s"], found["end_s"], nodes
        elif event == Fact.JOB_ARRIVED:
            requests[job] = request_of(detail)
        elif event == Fact.RUN_STARTED:
            assert not nodes & drained
            until_s, own = time_s + max(estimates_s[job], 1e-3), requests[job].reservation
            for name, (start_s, end_s, reserved) in made.items():
                if name == own and time_s < end_s:
                    assert start_s <= time_s <= until_s <= end_s
                    assert nodes <= reserved
                elif name != own:
                    assert until_s <= start_s or end_s <= time_s or not nodes & reserved
