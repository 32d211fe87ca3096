"""LoRaS and its predictor: compiled and in plain words, they decide and predict the same."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.loras.policies import Method, NodeSelection, Ordering, Selection
from scheduler.loras.requirement import Requirement
from scheduler.loras.scheduler import Loras
from scheduler.loras.social_contract import SocialContract
from scheduler.loras.system import LocalLoad, SystemState
from scheduler.loras.textbook import TextbookLoras
from scheduler.model import Job, JobId
from scheduler.prediction.algorithm_1 import Algorithm1
from scheduler.prediction.look_ahead import Blind, PolicyAware
from scheduler.problem import SchedulingProblem

COMPOSITIONS = list(product(Ordering, Selection, NodeSelection, Method))
METHODS = [(remaining, cpu) for remaining in Method for cpu in (Method.MPL, Method.CPU)]

Situation = tuple[SystemState, dict[JobId, Job]]


def job(number: int, tasks: int, arrival_s: float = 0.0) -> Job:
    return Job(JobId(number), "any", arrival_s, n_tasks=tasks)


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    """A system in which some jobs run, placed by some policy, and some wait."""
    luck = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_nodes, n_jobs = draw(st.integers(1, 9)), draw(st.integers(1, 16))
    contract = SocialContract(0.5, draw(st.integers(1, 4)), draw(st.sampled_from([1.2, 2.0, np.inf])))
    state = SystemState([512.0] * n_nodes, contract)
    for n in range(n_nodes):
        if luck.random() < 0.4:
            cpu, memory_mb = luck.choice([0.0, 0.15, 0.3]), luck.uniform(50.0, 250.0)
            state.tell_local(n, LocalLoad(float(luck.integers(0, 2)), cpu, memory_mb, bool(luck.integers(2))))
    jobs = {}
    for i in range(n_jobs):
        tasks = int(luck.choice([k for k in (1, 2, 3, 4, 8) if k <= n_nodes]))
        cpu, memory_mb = luck.choice([0.3, 0.5, 0.72, 0.91]), luck.choice([10.0, 60.0, 115.0, 210.0])
        jobs[JobId(i)] = job(i, tasks, float(luck.integers(0, 3)))
        state.add(jobs[JobId(i)], Requirement(tasks, cpu, memory_mb, luck.choice([20.0, 35.5, 110.0])))
    policy = Loras(*(str(luck.choice(list(kind))) for kind in (Ordering, Selection, NodeSelection)))
    now_s = 5.0
    schedule = policy.schedule(problem_of(state, jobs, now_s))
    waiting = [jobs[number] for number in state.waiting]
    for placement in schedule.placements[: int(luck.integers(0, len(schedule.placements) + 1))]:
        started = waiting[placement.job]
        state.start(started, placement.nodes, now_s)
        state.measured(started.id, luck.choice([0.0, 0.3, 0.9]) * state.requirement(started.id).cpu_s, 17.0)
    return state, jobs


def problem_of(state: SystemState, jobs: dict[JobId, Job], now_s: float) -> SchedulingProblem:
    return SchedulingProblem.on_shared_nodes(now_s, [jobs[number] for number in state.waiting], state.view())


@pytest.mark.parametrize(("ordering", "selection", "node_selection", "estimate"), COMPOSITIONS)
@given(situation=situations())
@settings(max_examples=15)
def test_every_composition_decides_as_in_plain_words(
    ordering: str, selection: str, node_selection: str, estimate: str, situation: Situation
) -> None:
    problem = problem_of(*situation, now_s=20.0)
    fast = Loras(ordering, selection, node_selection, estimate).schedule(problem)
    plain = TextbookLoras(ordering, selection, node_selection, estimate).schedule(problem)
    assert [(p.job, p.nodes) for p in fast.placements] == [(p.job, p.nodes) for p in plain.placements]
    assert [p.completion_s for p in fast.placements] == pytest.approx(
        [p.completion_s for p in plain.placements], rel=1e-12
    )
    assert fast.left_waiting.keys() == plain.left_waiting.keys()


@given(situation=situations(), composition=st.sampled_from(COMPOSITIONS))
@settings(max_examples=300)
def test_a_second_pass_starts_nothing_more(
    situation: Situation, composition: tuple[str, str, str, str]
) -> None:
    state, jobs = situation
    scheduler, waiting = Loras(*composition), [jobs[number] for number in state.waiting]
    for placement in scheduler.schedule(problem_of(state, jobs, 20.0)).placements:
        state.start(waiting[placement.job], placement.nodes, 20.0)
    assert scheduler.schedule(problem_of(state, jobs, 20.0)).placements == ()


@pytest.mark.parametrize(("remaining", "cpu_time"), METHODS)
@given(
    situation=situations(),
    composition=st.tuples(*map(st.sampled_from, (Ordering, Selection, NodeSelection))),
)
@settings(max_examples=60)
def test_predictions_are_those_of_algorithm_1(
    remaining: str, cpu_time: str, situation: Situation, composition: tuple[str, str, str]
) -> None:
    state, _ = situation
    fast = PolicyAware(Loras(*composition), remaining, cpu_time).predict(20.0, state.view())
    plain = Algorithm1(TextbookLoras(*composition), remaining, cpu_time).predict(20.0, state.view())
    assert [forecast.job for forecast in fast] == [forecast.job for forecast in plain]
    for a, b in zip(fast, plain, strict=True):
        assert a.end_s == pytest.approx(b.end_s, rel=1e-9)
        assert a.start_s == (None if b.start_s is None else pytest.approx(b.start_s, rel=1e-9))


@given(situation=situations(), ordering=st.sampled_from(Ordering), nodes=st.sampled_from(NodeSelection))
def test_the_blind_predictor_drains_the_queue_in_order(
    situation: Situation, ordering: Ordering, nodes: NodeSelection
) -> None:
    state, _ = situation
    blind = Blind(Loras(ordering, Selection.EASY, nodes)).predict(20.0, state.view())
    in_order = PolicyAware(Loras(ordering, Selection.JUST_FIRST, nodes)).predict(20.0, state.view())
    assert blind == in_order


@given(situation=situations())
def test_neither_a_decision_nor_a_prediction_changes_the_state(situation: Situation) -> None:
    state, _ = situation
    before = [column.copy() for table in (state.view().jobs, state.view().nodes) for column in table]
    Loras("fcfs", "easy", "normal").schedule(problem_of(*situation, now_s=20.0))
    PolicyAware(Loras("sjf", "easy", "uniform")).predict(20.0, state.view())
    after = [column for table in (state.view().jobs, state.view().nodes) for column in table]
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
