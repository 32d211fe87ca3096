"""A cluster whose nodes are shared: the simulated truth, and predictions beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from itertools import cycle, product
from types import MappingProxyType

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler.managers.limit_admission import PromisesByForecast
from scheduler.managers.queues import Unkept
from scheduler.model import DispatchOrder, Job, JobId, RunId
from scheduler.resource_manager import OnSharedNodes
from scheduler.time_shared.forecast import Predictor
from scheduler.time_shared.loras import JobChoice, Loras, NodeChoice, OrderChoice
from scheduler.time_shared.predictors import PolicyAware
from scheduler.time_shared.social_contract import Requirement, SocialContract
from sil.report.experiment_figures import mpl_segments
from sil.runs.on_time_shared import TimeSharedSystem, built_in_characterisations
from sil.runs.simulation import Disturbances, RunKey, SiteRun
from sil.site.time_shared_cluster import Characterisations
from sil.trace.facts import Fact, RunTables
from sil.trace.recorder import TraceRecorder
from sil.world.actual_runtimes import RandomStreams, Variation
from sil.world.events import ControlDue, EndDue, Event, EventQueue, LocalChanged
from sil.world.machines.time_shared import SharedMachines, Work
from sil.world.monitors import Sampling
from sil.world.time_shared_cluster import LocalUsers, Sharing, TimeSharedCluster
from tests.examples import up_to

NPB = built_in_characterisations()
KINDS = [(name, tasks) for name in ("CG.B", "IS.B", "MG.B", "BT.A") for tasks in (2, 4, 8)]
EXACT = TimeSharedCluster(run_to_run=Variation())
VARYING = TimeSharedCluster(sharing=Sharing("fluid", 0.5, 1.0, 0.1), run_to_run=Variation("normal", 0.5))


def rates_on(machines: SharedMachines, n: int) -> list[tuple[int, float, float]]:
    """(run, rate, CPU share in isolation) of the tasks on a node."""
    return [(run.order.run, run.rate, run.work.cpu) for run in machines._nodes[n].runs]


def jobs_of(kinds: Iterable[tuple[str, int]], apart_s: float = 0.0) -> list[Job]:
    return [Job(JobId(i), name, i * apart_s, n_tasks=tasks) for i, (name, tasks) in enumerate(kinds)]


def run_to_end(
    cluster: TimeSharedCluster,
    jobs: list[Job],
    known: Characterisations,
    scheduler: Loras,
    predictors: Mapping[str, Predictor] = MappingProxyType({}),
    seed: int = 1,
) -> RunTables:
    nodes = TimeSharedSystem(cluster, jobs, known, RandomStreams(seed))
    return nodes.run(scheduler, predictors, RunKey(0, 0, "loras"))


def run(
    cluster: TimeSharedCluster, jobs: list[Job], scheduler: Loras, seed: int = 1, **methods: str
) -> RunTables:
    predictors = {"aware": PolicyAware(scheduler, **methods)}
    done = run_to_end(cluster, jobs, NPB, scheduler, predictors, seed)
    assert done.facts.filter(pl.col("event") == Fact.FAULT).is_empty(), done.facts.tail(1)
    return done


def ends(done: RunTables) -> dict[int, float]:
    ended = done.facts.filter(pl.col("event") == Fact.RUN_ENDED)
    return dict(ended.select("job", "time_s").iter_rows())


@pytest.mark.parametrize(("name", "tasks"), KINDS)
def test_a_job_alone_on_a_dedicated_cluster_takes_its_isolated_time_to_the_last_bit(
    name: str, tasks: int
) -> None:
    done = run(EXACT, jobs_of([(name, tasks)]), Loras())
    assert ends(done) == {0: NPB.of(name, tasks).exe_s}


@pytest.mark.parametrize(("sharing", "method"), [(Sharing("by_cpu"), "cpu"), (Sharing("by_mpl"), "mpl")])
@given(
    composition=st.sampled_from(list(product(OrderChoice, JobChoice, NodeChoice))),
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=30),
)
@settings(max_examples=up_to(300))
def test_predictions_are_exact_if_the_simulation_follows_the_predictor(
    sharing: Sharing, method: str, composition: tuple[str, str, str], kinds: list[tuple[str, int]]
) -> None:
    scheduler = Loras(*composition, method)
    cluster = TimeSharedCluster(sharing=sharing, run_to_run=Variation())
    done = run(cluster, jobs_of(kinds), scheduler, remaining=method, cpu_time=method)
    actual_s = ends(done)
    assert len(done.predictions) == len(kinds)
    for job, predicted_s in done.predictions.select("job", "end_s").iter_rows():
        assert abs(predicted_s - actual_s[job]) <= 1e-9 * actual_s[job]


@pytest.mark.parametrize("node_selection", NodeChoice)
@pytest.mark.parametrize("ordering", ["fcfs", "edf", "least_laxity"])
@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=15),
    factors=st.lists(st.sampled_from([1.0, 1.5, 3.0, 6.0]), min_size=1, max_size=5),
    apart_s=st.sampled_from([0.0, 7.0, 60.0]),
)
@example(kinds=[("CG.B", 2), ("CG.B", 4), *[("CG.B", 2)] * 8], factors=[1.5, 1.0, 1.0], apart_s=7.0)
@settings(max_examples=up_to(40))
def test_admission_accepts_no_job_that_misses_its_limit_if_predictions_are_exact(
    ordering: str, node_selection: str, kinds: list[tuple[str, int]], factors: list[float], apart_s: float
) -> None:
    jobs = [
        job._replace(limit_s=factor * NPB.of(job.job_class, job.n_tasks).exe_s)
        for job, factor in zip(jobs_of(kinds, apart_s), cycle(factors), strict=False)
    ]
    scheduler = Loras(ordering, "just_first", node_selection)
    cluster = TimeSharedCluster(sharing=Sharing("by_cpu"), run_to_run=Variation())
    simulation = SiteRun(nodes := TimeSharedSystem(cluster, jobs, NPB, RandomStreams(1)), Disturbances())
    rule = PromisesByForecast("aware", 1.0, Unkept.REFUSED)
    assert isinstance(simulation.ports, OnSharedNodes)
    manager = nodes.predicting(simulation.ports, scheduler, {"aware": PolicyAware(scheduler)}, rule)
    simulation.run(nullcontext(manager))
    facts = simulation.checked(RunKey(0, 0, "loras"))
    refused = set(facts.filter(pl.col("event") == Fact.JOB_REFUSED)["job"])
    promised = set(facts.filter(pl.col("event") == Fact.PROMISED)["job"])
    ended_s = dict(facts.filter(pl.col("event") == Fact.RUN_ENDED).select("job", "time_s").iter_rows())
    assert promised == ended_s.keys() == {job.id for job in jobs} - refused
    assert all(ended_s[job.id] <= job.deadline_s * (1 + 1e-9) for job in jobs if job.id in ended_s)


def test_the_same_seed_gives_the_same_completions_and_predictions() -> None:
    cluster = TimeSharedCluster(local_load=LocalUsers(0.5))
    jobs = jobs_of(KINDS * 2, 15.0)
    one, two = (run(cluster, jobs, Loras("sjf", "easy", "uniform"), seed=3) for _ in range(2))
    other = run(cluster, jobs, Loras("sjf", "easy", "uniform"), seed=4)
    assert one.facts.equals(two.facts)
    assert one.predictions.equals(two.predictions)
    assert ends(one) != ends(other)


def test_a_predictor_does_not_see_the_actual_run_times() -> None:
    jobs = jobs_of(KINDS)
    first = [
        dict(run(cluster, jobs, Loras()).predictions.select("job", "end_s").iter_rows())
        for cluster in (EXACT, VARYING)
    ]
    assert first[0] == first[1]


@given(
    seed=st.integers(0, 10_000),
    share=st.sampled_from([0.25, 0.5, 1.0]),
    selection=st.sampled_from(JobChoice),
    nodes=st.sampled_from(NodeChoice),
    most_cpu=st.sampled_from([1.2, 1.5, float("inf")]),
)
@settings(max_examples=25, deadline=None)
def test_the_social_contract_always_holds(
    seed: int, share: float, selection: str, nodes: str, most_cpu: float
) -> None:
    """MPL by the invariants over the trace; memory and CPU at launch by the rules of the manager."""
    contract = SocialContract(0.5, 4, most_cpu)
    cluster = TimeSharedCluster(contract=contract, local_load=LocalUsers(share))
    done = run(cluster, jobs_of(KINDS * 2, 15.0), Loras("fcfs", selection, nodes), seed)
    assert len(ends(done)) == 2 * len(KINDS)


def machines_of(
    works: dict[int, Work], sharing: Sharing, n_nodes: int = 2
) -> tuple[SharedMachines, EventQueue]:
    events = EventQueue()
    of_job = {JobId(job): work for job, work in works.items()}
    return SharedMachines(TimeSharedCluster((512.0,) * n_nodes, sharing=sharing), of_job, events), events


def order(job: int, *nodes: int) -> DispatchOrder:
    return DispatchOrder(RunId(job), Job(JobId(job), "any", 0.0, n_tasks=len(nodes)), -1, nodes, 1.0)


def next_end(machines: SharedMachines, events: EventQueue) -> tuple[float, int]:
    while True:
        time_s, event = events.pop()
        assert isinstance(event, EndDue)
        if machines.has_ended(event.run, time_s):
            machines.stop(event.run, time_s)
            return time_s, event.run


def test_a_job_is_as_fast_as_its_slowest_task() -> None:
    """Job 0 has nodes 0 and 1 and needs the whole CPU; job 1 shares node 1 for its 100 s at half speed."""
    machines, events = machines_of({0: Work(200.0, 1.0, 10.0), 1: Work(50.0, 1.0, 10.0)}, Sharing("by_cpu"))
    machines.start(order(0, 0, 1), 0.0)
    machines.start(order(1, 1), 0.0)
    assert next_end(machines, events) == (100.0, 1)
    assert next_end(machines, events) == (250.0, 0)


def test_a_local_user_takes_the_cpu_that_the_contract_does_not_guarantee() -> None:
    """From 10 to 30 s a user demands 80 % of the CPU; the contract guarantees half of it to parallel work."""
    machines, events = machines_of({0: Work(100.0, 1.0, 10.0)}, Sharing(), 1)
    machines.start(order(0, 0), 0.0)
    machines.local_changed(LocalChanged(0, 0.8, 0.0, True), 10.0)
    machines.local_changed(LocalChanged(0, 0.0, 0.0, True), 30.0)
    assert next_end(machines, events) == (110.0, 0)


def test_local_users_are_slowed_only_if_they_demand_the_guaranteed_share() -> None:
    """Half of the CPU is guaranteed to a job that takes all it gets; users demand 0.4, then 0.8."""
    machines, _ = machines_of({0: Work(1000.0, 1.0, 10.0)}, Sharing(), 2)
    machines.start(order(0, 0), 0.0)
    machines.local_changed(LocalChanged(0, 0.4, 0.0, True), 10.0)
    machines.local_changed(LocalChanged(0, 0.8, 0.0, True), 30.0)
    machines.local_changed(LocalChanged(0, 0.0, 0.0, True), 50.0)
    (response,) = machines.local_responses(90.0)
    assert (response.node, response.tight_share) == (0, 0.5)
    assert response.slowdown == pytest.approx((0.4 + 0.8) / (0.4 + 0.5))


def test_a_new_job_does_not_change_the_past_slowdown_of_local_users() -> None:
    """Two jobs take a little more of a node than one, which leaves half of it to users who demand that."""
    machines, _ = machines_of({0: Work(1000.0, 1.0, 10.0), 1: Work(1000.0, 0.5, 10.0)}, Sharing(), 2)
    machines.start(order(0, 0), 0.0)
    machines.local_changed(LocalChanged(0, 0.5, 0.0, True), 0.0)
    machines.start(order(1, 0), 100.0)
    (response,) = machines.local_responses(100.0)
    assert (response.slowdown, response.tight_share) == (1.0, 0.0)


def test_a_job_that_stops_as_it_starts_reports_its_start_first() -> None:
    """The monitors are late, so the scheduler does not know that a user came and took memory."""
    cluster = TimeSharedCluster(
        (512.0,), local_load=LocalUsers(1.0), sampling=Sampling(delay_s=1e6), run_to_run=Variation()
    )
    known = Characterisations({("big", 1): Requirement(1, 0.5, 110.0, 30.0)})
    jobs = [Job(JobId(i), "big", 25.0 * i) for i in range(60)]
    done = run_to_end(cluster, jobs, known, Loras())
    facts = done.facts.filter(pl.col("event").is_in([Fact.RUN_STARTED, Fact.RUN_STOPPED]))
    first_of = {job: event for event, job in reversed(facts.select("event", "job").rows())}
    assert Fact.RUN_STOPPED in facts["event"].to_list()
    assert set(first_of.values()) == {Fact.RUN_STARTED}


def test_under_memory_pressure_the_youngest_job_stops_everywhere_and_resumes_later() -> None:
    stops: list[tuple[int, bool]] = []
    events = EventQueue()
    works = {JobId(0): Work(100.0, 0.4, 200.0), JobId(1): Work(100.0, 0.4, 200.0)}
    machines = SharedMachines(
        TimeSharedCluster((512.0,) * 2, sharing=Sharing("by_cpu")),
        works,
        events,
        lambda o, stopped: stops.append((o.job.id, stopped)),
    )
    machines.start(order(0, 0, 1), 0.0)
    machines.start(order(1, 0, 1), 0.0)
    machines.local_changed(LocalChanged(1, 0.0, 200.0, True), 20.0)  # 256 MB are left on node 1
    assert stops == [(1, True)]
    assert rates_on(machines, 0) == [(0, 1.0, 0.4), (1, 0.0, 0.4)]
    machines.local_changed(LocalChanged(1, 0.0, 0.0, False), 50.0)
    assert stops == [(1, True), (1, False)]
    assert [next_end(machines, events) for _ in range(2)] == [(100.0, 0), (130.0, 1)]


def test_a_user_space_coscheduler_stops_and_resumes_late() -> None:
    stops: list[tuple[int, bool]] = []
    events = EventQueue()
    works = {JobId(0): Work(100.0, 0.4, 200.0), JobId(1): Work(100.0, 0.4, 200.0)}
    machines = SharedMachines(
        TimeSharedCluster((512.0,), sharing=Sharing("by_cpu"), control_delay_s=2.0),
        works,
        events,
        lambda order, stopped: stops.append((order.job.id, stopped)),
    )
    machines.start(order(0, 0), 0.0)
    machines.start(order(1, 0), 0.0)
    machines.local_changed(LocalChanged(0, 0.0, 200.0, True), 20.0)
    assert stops == []
    machines.control(0, 22.0)
    machines.local_changed(LocalChanged(0, 0.0, 0.0, False), 50.0)
    assert stops == [(1, True)]
    machines.control(0, 52.0)
    due_s = [time_s for time_s, event in iter_events(events) if isinstance(event, ControlDue)]
    assert (stops, due_s) == ([(1, True), (1, False)], [22.0, 52.0])


def iter_events(events: EventQueue) -> Iterator[tuple[float, Event]]:
    while len(events):
        yield events.pop()


def test_the_timeline_has_the_number_of_running_tasks_per_node() -> None:
    trace = TraceRecorder()
    trace.note(0.0, Fact.RUN_STARTED, job=0, run=0, machines=(0, 1))
    trace.note(10.0, Fact.RUN_STARTED, job=1, run=1, machines=(1,))
    trace.note(15.0, Fact.RUN_STOPPED, job=1, run=1, machines=(1,))
    trace.note(20.0, Fact.RUN_CONTINUED, job=1, run=1, machines=(1,))
    trace.note(30.0, Fact.RUN_ENDED, job=0, run=0)
    trace.note(40.0, Fact.RUN_ENDED, job=1, run=1)
    found = mpl_segments(trace.frame(0, 0, "loras")).sort("node", "from_s").rows()
    assert found == [
        (0, 0.0, 30.0, 1),
        (1, 0.0, 10.0, 1),
        (1, 10.0, 15.0, 2),
        (1, 15.0, 20.0, 1),
        (1, 20.0, 30.0, 2),
        (1, 30.0, 40.0, 1),
    ]


def test_updating_all_nodes_at_every_event_changes_no_completion(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = TimeSharedCluster(local_load=LocalUsers(1.0))
    jobs = jobs_of(KINDS * 2, 15.0)
    before = ends(run(cluster, jobs, Loras()))
    settle = SharedMachines._update
    monkeypatch.setattr(SharedMachines, "_update", lambda self, nodes, now_s: settle(self, range(16), now_s))
    after = ends(run(cluster, jobs, Loras()))
    assert after == pytest.approx(before, rel=1e-12)


def test_the_rates_on_a_node_never_exceed_its_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    settle = SharedMachines._update

    def checked(self: SharedMachines, nodes: Iterable[int], now_s: float) -> None:
        settle(self, list(nodes), now_s)
        for n in range(16):
            assert sum(rate * cpu for _, rate, cpu in rates_on(self, n)) <= 1.0 + 1e-9

    monkeypatch.setattr(SharedMachines, "_update", checked)
    run(TimeSharedCluster(local_load=LocalUsers(0.5)), jobs_of(KINDS * 2, 15.0), Loras())


def test_on_coupled_nodes_a_blocked_task_leaves_its_cpu_to_its_neighbour() -> None:
    """Job 0 runs on both nodes, job 1 beside it on node 0, and three more beside it on node 1."""
    works = {JobId(i): Work(100.0, 0.9, 10.0) for i in range(5)}
    rates = {}
    for sharing in (Sharing(), Sharing("coupled")):
        machines = SharedMachines(TimeSharedCluster((512.0,) * 2, sharing=sharing), works, EventQueue())
        for i, nodes in enumerate([(0, 1), (0,), (1,), (1,), (1,)]):
            machines.start(DispatchOrder(RunId(i), Job(JobId(i), "any", 0.0), -1, nodes, 1.0), 0.0)
        rates[sharing.kind] = {int(run): rate for n in (0, 1) for run, rate, _ in rates_on(machines, n)}
    assert rates["coupled"][1] > 1.2 * rates["fluid"][1], "job 0 waits on node 1, and wants less of node 0"
    assert rates["coupled"][0] == pytest.approx(rates["fluid"][0], rel=0.05)
    for n in (0, 1):
        assert sum(rate * cpu for _, rate, cpu in rates_on(machines, n)) <= 1.0 + 1e-9


def rates_after(sharing: Sharing, orders: list[tuple[int, ...]], ended: list[int]) -> list[float]:
    """The rates of runs on these nodes after some others have ended, or if those had never been."""
    works = {JobId(i): Work(100.0, 0.9, 10.0) for i in range(len(orders))}
    machines = SharedMachines(TimeSharedCluster((512.0,) * 2, sharing=sharing), works, EventQueue())
    for i, nodes in enumerate(orders):
        machines.start(DispatchOrder(RunId(i), Job(JobId(i), "any", 0.0), -1, nodes, 1.0), 0.0)
    for i in ended:
        machines.stop(RunId(i), 1.0)
    found = {int(run): rate for n in (0, 1) for run, rate, _ in rates_on(machines, n)}
    return [found[run] for run in sorted(found)]


def test_coupled_sequential_jobs_run_as_uncoupled_ones_even_after_others_end() -> None:
    for ended in ([], [0], [0, 2]):
        orders: list[tuple[int, ...]] = [(0,), (0,), (0,), (1,)]
        assert rates_after(Sharing("coupled"), orders, ended) == rates_after(Sharing(), orders, ended)


def test_ended_jobs_leave_no_effect_on_a_coupled_cluster() -> None:
    stay: list[tuple[int, ...]] = [(0, 1), (0,), (1,)]
    fresh = rates_after(Sharing("coupled"), stay, [])
    after = rates_after(Sharing("coupled"), [*stay, (0,), (1,), (0, 1)], [3, 4, 5])
    assert after == pytest.approx(fresh, rel=0.02)


def test_a_coupled_cluster_runs_all_jobs_with_a_similar_makespan() -> None:
    jobs = jobs_of(KINDS * 3, 15.0)
    plain = ends(run(TimeSharedCluster(local_load=LocalUsers(0.5)), jobs, Loras("fcfs", "easy")))
    coupled = ends(
        run(
            TimeSharedCluster(local_load=LocalUsers(0.5), sharing=Sharing("coupled")),
            jobs,
            Loras("fcfs", "easy"),
        )
    )
    assert plain.keys() == coupled.keys()
    assert max(coupled.values()) == pytest.approx(max(plain.values()), rel=0.25)
    assert coupled != plain


def test_with_exact_rates_and_no_sharing_the_first_job_starts_no_later_than_reserved() -> None:
    """At MPL 1 no jobs share a node, so what EASY reserves for the first of the queue is certain."""
    cluster = TimeSharedCluster(contract=SocialContract(0.5, 1), run_to_run=Variation())
    done = run(cluster, jobs_of(KINDS * 2, 15.0), Loras("fcfs", "easy"))
    starts = dict(done.facts.filter(pl.col("event") == Fact.RUN_STARTED).select("job", "time_s").iter_rows())
    heads = {}
    for made_s, job, start_s in done.predictions.select("made_s", "job", "start_s").iter_rows():
        if start_s is not None:
            heads.setdefault(made_s, (job, start_s))  # the first that waits
    assert heads
    for job, start_s in heads.values():
        assert starts[job] <= start_s * (1 + 1e-12)


def test_a_job_that_can_never_fit_is_refused_with_the_violated_limit() -> None:
    known = Characterisations(
        {("wide", 17): Requirement(17, 0.5, 10.0, 10.0), ("fat", 1): Requirement(1, 0.5, 500.0, 10.0)}
    )
    jobs = [Job(JobId(0), "wide", 0.0, n_tasks=17), Job(JobId(1), "fat", 0.0), Job(JobId(2), "odd", 0.0)]
    done = run_to_end(EXACT, jobs, known, Loras())
    refused = done.facts.filter(pl.col("event") == Fact.JOB_REFUSED)["detail"].to_list()
    assert "17 tasks" in refused[0]
    assert "448 MB" in refused[1]
    assert "jobs of class 'odd' with 1 tasks have not been measured" in refused[2]
