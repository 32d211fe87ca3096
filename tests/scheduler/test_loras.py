"""LoRaS and its predictor: compiled and in plain words, they decide and predict the same."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core import codes
from scheduler.free_nodes import rigid
from scheduler.model import Job, JobId, NodeSchedule
from scheduler.ports import AnyScheduler
from scheduler.rules import in_detail
from scheduler.time_shared.core import tables
from scheduler.time_shared.loras import JobChoice, Loras, Method, NodeChoice, OrderChoice
from scheduler.time_shared.predictors import Algorithm1, Blind, PolicyAware, Promising
from scheduler.time_shared.problem import ReportedLoad, SystemState, TimeSharedProblem
from scheduler.time_shared.social_contract import Requirement, SocialContract
from tests.examples import up_to
from tests.scheduler.loras_reference import ReferenceLoras

COMPOSITIONS = list(product(OrderChoice, JobChoice, NodeChoice, Method))
METHODS = [(remaining, cpu) for remaining in Method for cpu in (Method.MPL, Method.CPU)]


def job(number: int, tasks: int, arrival_s: float = 0.0) -> Job:
    return Job(JobId(number), "any", arrival_s, n_tasks=tasks)


@st.composite
def states(draw: st.DrawFn) -> SystemState:
    """A system in which some jobs run, placed by some policy, and some wait."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_nodes, n_jobs = draw(st.integers(1, 9)), draw(st.integers(1, 16))
    contract = SocialContract(0.5, draw(st.integers(1, 4)), draw(st.sampled_from([1.2, 2.0, np.inf])))
    state = SystemState([512.0] * n_nodes, contract)
    for n in range(n_nodes):
        if rng.random() < 0.4:
            cpu, memory_mb = rng.choice([0.0, 0.15, 0.3]), rng.uniform(50.0, 250.0)
            state.set_local(n, ReportedLoad(float(rng.integers(0, 2)), cpu, memory_mb, bool(rng.integers(2))))
    for i in range(n_jobs):
        tasks = int(rng.choice([k for k in (1, 2, 3, 4, 8) if k <= n_nodes]))
        cpu, memory_mb = rng.choice([0.3, 0.5, 0.72, 0.91]), rng.choice([10.0, 60.0, 115.0, 210.0])
        new = job(i, tasks, float(rng.integers(0, 3)))._replace(limit_s=rng.choice([None, 40.0, 90.0, 160.0]))
        needed = Requirement(
            tasks, cpu, memory_mb, rng.choice([20.0, 35.5, 110.0]), rng.choice([0.0, 0.0, 0.2])
        )
        state.add(new, needed)
    policy = Loras(*(str(rng.choice(list(kind))) for kind in (OrderChoice, JobChoice, NodeChoice)))
    now_s = 5.0
    schedule = policy.schedule(problem_of(state, now_s))
    waiting = list(state.waiting)
    for placement in schedule.starts[: int(rng.integers(0, len(schedule.starts) + 1))]:
        started = waiting[placement.job]
        state.start(started, placement.nodes, now_s)
        state.measured(started.id, rng.choice([0.0, 0.3, 0.9]) * state.requirement(started.id).cpu_s, 17.0)
    return state


def problem_of(state: SystemState, now_s: float) -> TimeSharedProblem:
    return TimeSharedProblem(now_s, state.waiting, state.view())


def test_by_default_the_social_contract_limits_the_cpu_requirements_on_a_node() -> None:
    state = SystemState([512.0], SocialContract())
    for number in range(4):
        state.add(job(number, 1), Requirement(1, 0.9, 10.0, 60.0))
    started = Loras("fcfs", "first_fit", "normal").schedule(problem_of(state, 0.0)).starts
    assert len(started) == 2, "two tasks of 0.9 CPU are within the limit of 2 CPUs, three are not"


def test_compiled_code_numbers_policies_and_methods_in_the_order_of_their_names() -> None:
    selections = tables.JUST_FIRST, tables.FIRST_FIT, tables.BEST_FIT, tables.EASY
    node_selections = tables.NORMAL, tables.UNIFORM, tables.UNIFORM_ELSE_NORMAL
    methods = tables.PROPORTIONAL, tables.BY_MPL, tables.BY_CPU
    for choice, expected in ((JobChoice, selections), (NodeChoice, node_selections), (Method, methods)):
        assert tuple(member.code for member in choice) == expected
    assert [ordering.code for ordering in rigid.Ordering] == [
        *(codes.FCFS, codes.SJF, codes.EDF, codes.LEAST_LAXITY)
    ]
    of_backfilling = [codes.NO_BACKFILLING, codes.IN_ORDER, codes.SHORTEST_FIRST]
    assert [member.code for member in rigid.Backfilling] == of_backfilling


@pytest.mark.parametrize("ordering", OrderChoice)
@given(state=states(), others=st.sampled_from(list(product(JobChoice, NodeChoice, Method))))
@settings(max_examples=up_to(500))
def test_every_composition_equals_the_reference(
    ordering: str, state: SystemState, others: tuple[str, str, str]
) -> None:
    problem = problem_of(state, now_s=20.0)
    fast = Loras(ordering, *others).schedule(problem)
    plain = ReferenceLoras(ordering, *others).schedule(problem)
    assert [(p.job, p.nodes) for p in fast.starts] == [(p.job, p.nodes) for p in plain.starts]
    assert [p.completion_s for p in fast.starts] == pytest.approx(
        [p.completion_s for p in plain.starts], rel=1e-12
    )
    assert fast.wait_reasons.keys() == plain.wait_reasons.keys()


def why_waiting(scheduler: AnyScheduler, state: SystemState, now_s: float) -> list[str]:
    left = scheduler.schedule(problem_of(state, now_s)).wait_reasons
    return [in_detail(left, i) for i in left]


def three_nodes(most_jobs: int = 1) -> SystemState:
    """Job 0 has two of them and has used 40 of its 100 s; of the others the first needs all three."""
    state = SystemState([512.0] * 3, SocialContract(0.5, most_jobs, 1.5))
    for number, (tasks, exe_s) in enumerate([(2, 100.0), (3, 50.0), (1, 200.0), (2, 10.0)]):
        state.add(job(number, tasks), Requirement(tasks, 1.0, 100.0, exe_s))
    state.start(state.waiting[0], (0, 1), 0.0)
    state.measured(JobId(0), 40.0, 40.0)
    return state


def test_a_scheduler_cannot_change_the_queue_through_its_problem() -> None:
    state = three_nodes()
    problem = problem_of(state, now_s=40.0)
    assert isinstance(problem.jobs, tuple)
    with pytest.raises(ValueError, match="read-only"):
        problem.shared_nodes.waiting[0] = 0
    with pytest.raises(ValueError, match="read-only"):
        problem.shared_nodes.running[0] = 0


def test_a_view_of_the_queue_is_not_rebuilt_until_the_queue_changes() -> None:
    state = three_nodes()
    before = state.view()
    assert state.view().waiting is before.waiting
    assert state.view().running is before.running
    state.start(state.waiting[1], (2,), 40.0)
    assert before.jobs.id[before.waiting].tolist() == [1, 2, 3]
    after = state.view()
    assert after.jobs.id[after.waiting].tolist() == [1, 3]
    assert after.jobs.id[after.running].tolist() == [0, 2]
    state.requeue(JobId(0))
    again = state.view()
    assert again.jobs.id[again.waiting].tolist() == [0, 1, 3]
    assert again.jobs.id[again.running].tolist() == [2]


def test_wait_reasons_name_the_social_contract_or_the_earlier_job() -> None:
    full = "the social contract has room on 1 (2 full)"
    assert why_waiting(Loras(), three_nodes(), now_s=40.0) == [
        f"first of the queue: it needs 3 nodes, and {full}",
        f"it needs 1 node, and {full}; but job 1 comes first",
        f"it needs 2 nodes, and {full}",
    ]


def test_under_easy_wait_reasons_give_the_estimated_start_and_the_delay_of_the_first_job() -> None:
    full = "the social contract has room on 1 (2 full)"
    assert why_waiting(Loras(selection="easy"), three_nodes(), now_s=40.0) == [
        f"first of the queue: it needs 3 nodes, and {full}; its estimated start is 100 s",
        f"it needs 1 node, and {full}; but it would delay job 1, the first of the queue; its "
        "estimated start is 100 s",
        f"it needs 2 nodes, and {full}",
    ]


def test_wait_reasons_distinguish_cpu_memory_and_down_nodes() -> None:
    state = three_nodes(most_jobs=4)
    state.set_available(2, False)
    state.set_local(1, ReportedLoad(1.0, 0.5, 400.0, True))
    reasons = why_waiting(Loras(selection="first_fit"), state, now_s=40.0)
    assert reasons[0] == (
        "first of the queue: it needs 3 nodes, and the social contract has room on 0 (1 down, 2 short of CPU)"
    )
    state.add(job(9, 1), Requirement(1, 0.2, 400.0, 10.0))
    reasons = why_waiting(Loras(selection="first_fit"), state, now_s=40.0)
    assert reasons[-1] == "it needs 1 node, and the social contract has room on 0 (1 down, 2 short of memory)"


def test_under_uniform_selection_the_wait_reason_names_the_missing_set_of_nodes() -> None:
    state = three_nodes(most_jobs=4)
    state.add(job(9, 3), Requirement(3, 0.2, 10.0, 10.0))
    reasons = why_waiting(Loras("snpf", "first_fit", "uniform"), state, now_s=40.0)
    assert reasons[-1].endswith("but too few of them are idle, and no job of its size runs on them")


def test_promising_names_the_risk_of_breaking_a_promise_in_its_wait_reason() -> None:
    reasons = why_waiting(Promising(), three_nodes(), now_s=40.0)
    assert reasons[1].endswith(
        "; but it is predicted to delay job 1, the first of the queue, or to break a promise"
    )


@pytest.mark.parametrize("selection", list(JobChoice))
@given(state=states(), nodes=st.sampled_from(NodeChoice))
@settings(max_examples=up_to(40))
def test_only_the_first_waiting_job_is_reported_as_first_of_the_queue(
    selection: JobChoice, state: SystemState, nodes: NodeChoice
) -> None:
    reasons = why_waiting(Loras("fcfs", selection, nodes), state, now_s=20.0)
    assert sum(reason.startswith("first of the queue: ") for reason in reasons) == min(1, len(reasons))
    if selection in (JobChoice.FIRST_FIT, JobChoice.BEST_FIT):
        assert not [reason for reason in reasons if "comes first" in reason]


@given(state=states(), composition=st.sampled_from(COMPOSITIONS))
@settings(max_examples=up_to(300))
def test_a_second_pass_starts_nothing(state: SystemState, composition: tuple[str, str, str, str]) -> None:
    scheduler, waiting = Loras(*composition), list(state.waiting)
    for placement in scheduler.schedule(problem_of(state, 20.0)).starts:
        state.start(waiting[placement.job], placement.nodes, 20.0)
    assert scheduler.schedule(problem_of(state, 20.0)).starts == ()


@pytest.mark.parametrize(("remaining", "cpu_time"), METHODS)
@given(state=states(), composition=st.tuples(*map(st.sampled_from, (OrderChoice, JobChoice, NodeChoice))))
@settings(max_examples=up_to(60))
def test_predictions_equal_algorithm_1(
    remaining: str, cpu_time: str, state: SystemState, composition: tuple[str, str, str]
) -> None:
    fast = PolicyAware(Loras(*composition), remaining, cpu_time).predict(20.0, state.view())
    plain = Algorithm1(ReferenceLoras(*composition), remaining, cpu_time).predict(20.0, state.view())
    assert [forecast.job for forecast in fast] == [forecast.job for forecast in plain]
    for a, b in zip(fast, plain, strict=True):
        assert a.end_s == pytest.approx(b.end_s, rel=1e-9)
        assert a.start_s == (None if b.start_s is None else pytest.approx(b.start_s, rel=1e-9))


@given(state=states(), ordering=st.sampled_from(OrderChoice), nodes=st.sampled_from(NodeChoice))
def test_the_blind_predictor_drains_the_queue_in_order(
    state: SystemState, ordering: OrderChoice, nodes: NodeChoice
) -> None:
    blind = Blind(Loras(ordering, JobChoice.EASY, nodes)).predict(20.0, state.view())
    in_order = PolicyAware(Loras(ordering, JobChoice.JUST_FIRST, nodes)).predict(20.0, state.view())
    assert blind == in_order


@given(state=states())
def test_scheduling_and_prediction_do_not_change_the_state(state: SystemState) -> None:
    before = [column.copy() for table in (state.view().jobs, state.view().nodes) for column in table]
    Loras("fcfs", "easy", "normal").schedule(problem_of(state, now_s=20.0))
    PolicyAware(Loras("sjf", "easy", "uniform")).predict(20.0, state.view())
    after = [column for table in (state.view().jobs, state.view().nodes) for column in table]
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_algorithm_1_keeps_the_class_and_arrival_time_of_jobs() -> None:
    asked: list[tuple[str, float]] = []

    class RecordsJobs:
        def schedule(self, problem: TimeSharedProblem) -> NodeSchedule:
            asked.extend((job.job_class, job.arrival_s) for job in problem.jobs)
            return Loras().schedule(problem)

    state = SystemState([512.0], SocialContract(most_jobs=1))
    for number in range(2):
        state.add(Job(JobId(number), f"kind-{number}", 3.0 + number), Requirement(1, 0.5, 10.0, 5.0))
    Algorithm1(RecordsJobs()).predict(10.0, state.view())
    assert asked == [("kind-0", 3.0), ("kind-1", 4.0), ("kind-1", 4.0)]
