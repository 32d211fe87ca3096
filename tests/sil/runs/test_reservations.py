"""Drains, outages and reservations in replays: both engines write equal traces, and no run overlaps a drain
or a reservation that its job may not use."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import NamedTuple, get_args

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import UserError
from scheduler.free_nodes.consumable_problem import ConsumableNodesProblem, Placer
from scheduler.model import NodeSchedule, Start
from scheduler.node_request import Node, Partition, Request
from scheduler.node_set import NodeSet
from scheduler.ports import Act
from scheduler.priority.policy import (
    Multifactor,
    PartitionPolicy,
    Preempted,
    Preemption,
    PreemptMode,
    QualityOfService,
    SitePolicy,
    Weights,
)
from scheduler.rules import AllOthers
from sil.outcome.invariants.reservations import COLUMNS, KeptFromNodes
from sil.runs.free_nodes import notes_on
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.settings.events_file import events_in
from sil.settings.log_events import Events, JobEvent, NodeEvent, NodesReserved, NodesUpdated
from sil.settings.replays import Engine, Expiry
from sil.settings.reservations_file import with_reservations
from sil.trace.facts import Fact, FactColumns
from sil.trace.held import intervals_in, request_of
from sil.workload.job_log import JobLog, log_on_nodes
from sil.world.events import ORDERS
from sil.world.failures import as_fact
from site_db.files.input_errors import InvalidFile
from site_db.jobs.logged import Charged
from site_db.site_file.cluster import SiteNodes
from tests.examples import up_to
from tests.sil.runs.test_engines import facts_of_both, with_deadlines

CPUS, N_NODES = 8, 4
TIERS = ("low", "middle", "high")
REQUESTS = [
    Request(chunks=n, cores=cores, memory_mib=memory_mib, partitions=frozenset({tier}))
    for n in (1, 2, 4)
    for cores in (1, 4, 8)
    for memory_mib, tier in zip((0, 60, 30), TIERS, strict=True)
]
CHARGED = tuple(Charged("", name) for name in TIERS)
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


@ENGINES
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_an_outage_ends_runs_whose_jobs_run_again(scheduler: str, engine: Engine) -> None:
    down = NodesUpdated(10.0, "n1", "DOWN", "fire"), NodesUpdated(500.0, "n1", "RESUME")
    facts = facts_of([Job(0, 100, 2)], scheduler, *down, engine=engine)
    times = facts.filter(pl.col("event").is_in([Fact.RUN_STARTED, Fact.RUN_LOST, Fact.RUN_ENDED]))
    assert times["time_s"].to_list() == [0.0, 10.0, 500.0, 600.0]


@ENGINES
def test_runs_that_an_outage_ends_are_lost_in_the_order_in_which_they_began(engine: Engine) -> None:
    """Not in that in which they would have ended."""
    down = NodesUpdated(10.0, "n1", "DOWN", "fire"), NodesUpdated(500.0, "n1", "RESUME")
    jobs = [Job(0, 300, cores=2), Job(1, 100, cores=2), Job(2, 200, cores=2)]
    lost = facts_of(jobs, "easy", *down, n_nodes=1, engine=engine).filter(pl.col("event") == Fact.RUN_LOST)
    assert lost.select("time_s", "job").rows() == [(10.0, 1), (10.0, 2), (10.0, 3)]


class Case(NamedTuple):
    log: JobLog
    events: Events


@st.composite
def policies(draw: st.DrawFn) -> SitePolicy | None:
    """Perhaps preemption by QOS or partition, in any modes, with grace times and times of exemption."""
    modes, seconds = st.sampled_from(PreemptMode), st.sampled_from([0.0, 0.0, 5.0, 60.0])
    how = [draw(st.builds(Preempted, st.none() | modes, seconds, st.none() | seconds)) for _ in TIERS]
    priorities = draw(st.sampled_from([(1, 2, 3), (2, 1, 2), (1, 1, 2)]))
    qualities = {
        name: QualityOfService(name, priorities[k], preempts=TIERS[:k], preempted=how[k])
        for k, name in enumerate(TIERS)
    }
    partitions = {name: PartitionPolicy(priorities[k], preempted=how[k]) for k, name in enumerate(TIERS)}
    preemption = draw(
        st.builds(
            Preemption, st.booleans(), modes, seconds, st.booleans(), st.sampled_from([0.0, 1.0, 121.0])
        )
    )
    weights = Weights(qos=1_000, age=draw(st.sampled_from([0, 10_000])))
    policy = SitePolicy(Multifactor(weights, period_s=60.0), (), qualities, partitions, preemption=preemption)
    return draw(st.sampled_from([None, policy, policy, policy]))


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
        whom = draw(st.integers(0, len(TIERS) - 1))
        rows.append((number, at_s, float(run_s), REQUESTS[which].cpus, run_s * factor, 0, which, whom))
    nodes = {f"n{n}": Node(CPUS, 100, partitions=frozenset(TIERS)) for n in range(N_NODES)}
    cluster = SiteNodes(nodes, {name: Partition(name) for name in TIERS}, {}, policy=draw(policies()))
    log = log_on_nodes("random", rows, cluster, REQUESTS, charged=CHARGED)
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
    for _ in range(draw(st.integers(0, 4))):
        out_s, which_ = draw(times), draw(which_nodes)
        on_nodes.append(NodesUpdated(out_s, which_, draw(st.sampled_from(["DRAIN", "DOWN"])), "fan"))
        if draw(st.integers(0, 9)):
            on_nodes.append(NodesUpdated(out_s + draw(times), which_, "RESUME"))
    on_nodes.sort(key=lambda event: event.at_s)
    known = {event.name: event.at_s for event in on_nodes if isinstance(event, NodesReserved)}
    options = {}
    for number, arrival_s, *_ in log.jobs.iter_rows():
        name = draw(st.sampled_from(["", "", *sorted(known)]))
        if name and known[name] < arrival_s:
            options[int(number)] = {"reservation": name}
    numbers = st.sampled_from(log.jobs["job"].to_list())
    acts = st.lists(st.builds(JobEvent, times, numbers, st.sampled_from(get_args(Act))), max_size=3)
    on_jobs = tuple(sorted(draw(acts), key=lambda event: event.at_s))
    events = Events(tuple(on_nodes), on_jobs, options=options)
    return Case(with_deadlines(with_reservations(log, events, Path("events.toml")), draw), events)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@settings(max_examples=up_to(500, part=20), deadline=None)
@given(
    case=cases(),
    order=st.sampled_from([*ORDERS]),
    every_s=st.sampled_from([None, 7.0]),
    expiry=st.sampled_from(Expiry),
)
def test_both_engines_write_the_same_trace_in_which_no_run_is_where_it_must_not_be(
    scheduler: str, case: Case, order: str, every_s: float | None, expiry: Expiry
) -> None:
    replay = Replay(case.log, events=case.events, order=order, checkpoint_interval_s=every_s, expiry=expiry)
    facts = facts_of_both(replay, scheduler)
    over = facts.filter(pl.col("event").is_in([Fact.RUN_ENDED, Fact.JOB_REFUSED]))["job"].unique()
    assert len(over) == len(case.log.jobs) or facts["event"][-1] == Fact.FAULT
    recount(facts, case.log)


def recount(facts: pl.DataFrame, log: JobLog) -> None:
    """Check each start against the drains and reservations that were known then."""
    estimates_s = dict(log.jobs.select("job", "estimate_s").iter_rows())
    requests, drained, made = dict[int, Request](), set[int](), dict[str, tuple[float, float, set[int]]]()
    columns = [facts[name] for name in ("time_s", "event", "job", "detail", "resource")]
    rows, down = zip(*columns, intervals_in(facts["machines"]), strict=True), set[int]()
    for time_s, event, job, detail, machine, machines in rows:
        nodes = {n for first, last in machines or () for n in range(first, last + 1)}
        if event == Fact.NODES_DRAINED:
            drained |= nodes
        elif event == Fact.NODES_RESUMED:
            drained -= nodes
        elif event == Fact.NODES_RESERVED:
            found = json.loads(detail)
            made[found["name"]] = found["start_s"], found["end_s"], nodes
        elif event == Fact.MACHINE_DOWN:
            down.add(machine)
        elif event == Fact.MACHINE_UP:
            down.discard(machine)
        elif event == Fact.JOB_ARRIVED:
            requests[job] = request_of(detail)
        elif event == Fact.RUN_STARTED:
            assert not nodes & (drained | down)
            until_s, own = time_s + max(estimates_s[job], 1e-3), requests[job].reservation
            for name, (start_s, end_s, reserved) in made.items():
                if name == own and time_s < end_s:
                    assert start_s <= time_s <= until_s <= end_s
                    assert nodes <= reserved
                elif name != own:
                    assert until_s <= start_s or end_s <= time_s or not nodes & reserved


class StartsAnything:
    """Starts each job on the first nodes, whatever is reserved."""

    def schedule(self, problem: ConsumableNodesProblem) -> NodeSchedule:
        starts = []
        for i, job in enumerate(problem.jobs[:1]):
            assert job.request is not None
            nodes = NodeSet.of(range(job.request.chunks))
            starts.append(Start(i, nodes, problem.now_s + problem.free_nodes.waiting.estimate_s(i)))
        return NodeSchedule(tuple(starts), AllOthers(problem.n_jobs, tuple(starts), "later"))


class StartsWhatFits:
    """A pass of a plug-in: the problem says what fits where no reservation is in the way."""

    def schedule(self, problem: ConsumableNodesProblem) -> NodeSchedule:
        placer = Placer(problem)
        for i in range(problem.n_jobs):
            if placer.fits(i):
                placer.start(i)
        return placer.schedule("it does not fit")


def test_a_plug_in_that_starts_a_job_into_a_reservation_is_told_the_rule_the_job_and_the_time() -> None:
    found = facts_of([Job(0, 50, 1), Job(50, 60, 1)], f"{__name__}:StartsAnything", MAINT)
    (fault,) = found.filter(pl.col("event") == Fact.FAULT).select("time_s", "detail", "job", "message").rows()
    assert fault[:3] == (50.0, "outside-reservations", 2)
    assert "until 110 s: there is reservation maint1, which begins at 100 s" in fault[3]


def test_a_plug_in_sees_what_fits_where_no_reservation_is_in_the_way() -> None:
    part = MAINT._replace(nodes="n1")
    jobs = [Job(0, 150, 1), Job(0, 150, 1), Job(1, 20, 1)]
    found = starts(facts_of(jobs, f"{__name__}:StartsWhatFits", part))
    assert found == {1: 0.0, 2: 150.0, 3: 1.0}
    late = facts_of(
        [Job(10, 150, 1)], f"{__name__}:StartsWhatFits", part, part._replace(nodes="n2", name="r")
    )
    assert starts(late) == {1: 200.0}


def checked(facts: pl.DataFrame) -> str | None:
    follower = KeptFromNodes([f"n{k}" for k in range(1, 5)])
    follower.add(FactColumns(facts.select(COLUMNS)))
    return None if follower.violation is None else follower.violation.message


def test_the_checker_finds_runs_that_were_moved_into_a_reservation_or_onto_a_drained_node() -> None:
    drain = NodesUpdated(5.0, "n1", "DRAIN"), NodesUpdated(90.0, "n1", "RESUME")
    course = NodesReserved(0.0, "course", 100.0, 200.0, "n2", users=OF_ALL)
    facts = facts_of([Job(10, 50, 1), Job(20, 60, 1, reservation="course")], "easy", course, *drain)
    assert checked(facts) is None
    is_start = pl.col("event") == Fact.RUN_STARTED

    def moved(job: int, time_s: float, node: int) -> str:
        there = pl.Series([[{"first": node, "last": node}]], dtype=facts.schema["machines"])
        which = is_start & (pl.col("job") == job)
        changed = facts.with_columns(
            time_s=pl.when(which).then(time_s).otherwise("time_s"),
            machines=pl.when(which).then(pl.lit(there).first()).otherwise("machines"),
        )
        return str(checked(changed))

    assert moved(1, 10.0, 0) == "job 1 starts at 10 s on n1, which is drained"
    assert moved(1, 60.0, 1) == "job 1 starts at 60 s for 50 s on n2, in reservation course from 100 s on"
    assert moved(2, 99.0, 1).endswith("outside of its reservation course, from 100 s to 200 s")
    assert moved(2, 150.0, 1).endswith("outside of its reservation course, from 100 s to 200 s")
    assert moved(2, 100.0, 2).endswith("outside of its reservation course, from 100 s to 200 s")


@pytest.mark.parametrize("engine", [Engine.COMPILED, Engine.HARNESS])
def test_a_replay_that_breaks_a_reservation_has_a_fault(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Seeded fault: the facts say that the maintenance begins earlier than the schedulers were told."""
    for module in ("sil.world.harness", "sil.runs.compiled"):
        monkeypatch.setattr(f"{module}.as_fact", lambda event: as_fact(event._replace(start_s=60.0)))
    replay = replay_of([Job(0, 80, 1)], MAINT, engine=engine)
    fault = replay.results(resolve("easy"), tmp_path / "printed").fault
    assert "no-start-where-nodes-are-drained-or-reserved: job 1 starts at 0 s for 80 s" in str(fault)


def test_reasons_name_the_reservation_that_a_job_waits_for() -> None:
    replay = replay_of([Job(0, 150, 1)], MAINT, engine=Engine.HARNESS)
    facts = replace(replay, reasons=True).facts(resolve("easy"), Path("/dev/null"))
    (reason,) = facts.filter(pl.col("event") == Fact.PASSED_OVER)["detail"]
    expected = "it waits for reservation maint1, which begins at 100 s; reserved for 200 s"
    assert reason == f"first of the queue: {expected}"


@pytest.mark.parametrize(
    ("jobs", "events", "sentence"),
    [
        ([Job(0, 9, reservation="r")], [], "names reservation 'r', which is not among the reservations"),
        ([Job(0, 9, reservation="r")], [MAINT._replace(name="r")], "which is for root, and is of user"),
        ([Job(0, 9, reservation="r")], [MAINT._replace(name="r", at_s=5.0)], "which is known from 5 s on"),
        ([Job(0, 9)], [MAINT._replace(nodes="n[1-7]")], "reservation 'maint1': there is no node 'n3'"),
        ([Job(0, 9)], [MAINT, MAINT._replace(nodes=1)], "n_nodes is 1, and 0 nodes of 2"),
        ([Job(0, 9)], [NodesUpdated(0.0, "x", "DRAIN")], "State=DRAIN: there is no node 'x'"),
    ],
)
def test_events_that_cannot_be_carried_out_are_refused(
    jobs: list[Job], events: list[NodeEvent], sentence: str
) -> None:
    with pytest.raises(UserError) as caught:
        facts_of(jobs, "easy", *events)
    assert sentence in str(caught.value)


def test_a_number_of_nodes_are_the_last_ones_that_no_other_reservation_has_then() -> None:
    two = NodesReserved(0.0, "two", 100.0, 200.0, 2)
    facts = facts_of([Job(0, 9)], "easy", MAINT._replace(nodes="n4"), two, n_nodes=5)
    made = facts.filter(pl.col("event") == Fact.NODES_RESERVED)["machines"].to_list()
    assert made == [[{"first": 3, "last": 3}], [{"first": 2, "last": 2}, {"first": 4, "last": 4}]]


SCONTROL = """\
ReservationName=maint1 StartTime=2026-01-01T01:00:00 EndTime=2026-01-01T02:00:00 Duration=01:00:00
   Nodes=n[1-2] NodeCnt=2 CoreCnt=8 Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES,FLEX
   TRES=cpu=8
   Users=root,ann Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null)

ReservationName=old StartTime=2025-01-01T01:00:00 EndTime=2025-01-01T02:00:00 Duration=01:00:00
   Nodes=n[1-2] NodeCnt=2 Flags=MAINT,SPEC_NODES
"""


def test_reservations_are_read_as_scontrol_prints_them_in_the_time_zone_of_the_log(tmp_path: Path) -> None:
    printed, events = tmp_path / "reservations.txt", tmp_path / "events.toml"
    printed.write_text(SCONTROL)
    events.write_text("drain = [{ at = 5, nodes = 'n1' }]")
    log = replace(
        replay_of([Job(0, 9)], engine=Engine.HARNESS).log,
        header={"unixstarttime": str(int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) - 7200)},
        zone=timezone(timedelta(hours=1)),
    )
    _, found = events_in([printed, events], log)
    assert found.on_nodes == (
        NodesReserved(0.0, "maint1", 7200.0, 10800.0, "n[1-2]", ("root", "ann"), (), ("MAINT", "FLEX")),
        NodesUpdated(5.0, "n1", "DRAIN", "maintenance"),
    )
    assert found.notes == (f"1 reservation in {printed}: over when the log begins, left out",)
    assert notes_on(found) == ["flag FLEX of 1 reservation is not modelled: only Slurm's controller knows it"]
    printed.write_text(SCONTROL.replace("EndTime=2026-01-01T02:00:00", "EndTime=soon"))
    with pytest.raises(
        InvalidFile, match=r"reservations.txt, line 1: EndTime is 'soon'; expected the output"
    ):
        events_in([printed], log)
