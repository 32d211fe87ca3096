"""The queue manager of shared nodes, with recording fakes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from scheduler import rules
from scheduler.managers.starting_manager import StartingManager
from scheduler.managers.time_shared_allocation import Forecasting, Prediction, TimeSharedAllocation
from scheduler.model import (
    Assignment,
    DispatchOrder,
    Job,
    JobId,
    MachineReading,
    NodeReading,
    NodeSchedule,
    RunId,
    Schedule,
    Start,
)
from scheduler.notices import RunEnded, RunLost
from scheduler.ports import AnyScheduler
from scheduler.resource_manager import OnSharedNodes
from scheduler.rules import ScheduleRejected
from scheduler.time_shared.loras import Loras
from scheduler.time_shared.predictors import PolicyAware
from scheduler.time_shared.problem import TimeSharedProblem
from scheduler.time_shared.promises import PromisesByForecast
from scheduler.time_shared.social_contract import Requirement, SocialContract


class World:
    """Clock, dispatcher, monitor, accounting and characterisation in one."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.orders: list[DispatchOrder] = []
        self.readings: list[NodeReading | MachineReading] = []
        self.used: dict[RunId, float] = {}

    def dispatch(self, order: DispatchOrder) -> None:
        self.orders.append(order)

    def preempt(self, run: RunId) -> None:
        raise AssertionError("no run is preempted on shared nodes")

    def news(self) -> Sequence[NodeReading | MachineReading]:
        pending, self.readings = self.readings, []
        return pending

    def used_s(self, run: RunId) -> float:
        return self.used.get(run, 0.0)

    def requirement(self, job: Job) -> Requirement | None:
        return None if job.job_class == "odd" else Requirement(job.n_tasks, 0.5, 100.0, 100.0)


class Notes:
    def __init__(self) -> None:
        self.predictions: list[Prediction] = []
        self.promises: list[tuple[JobId, float]] = []
        self.refused: list[tuple[float, str]] = []

    def predicted(self, prediction: Prediction) -> None:
        self.predictions.append(prediction)

    def promised(self, job: Job, by_s: float) -> None:
        self.promises.append((job.id, by_s))

    def bad_reading(self, reading: NodeReading, why: str) -> None:
        self.refused.append((reading.measured_s, why))


def manager_of(
    world: World, scheduler: AnyScheduler, n_nodes: int = 2, notes: Notes | None = None
) -> StartingManager:
    """It predicts, and promises by what it predicts, if there are notes to be made."""
    nodes = TimeSharedAllocation([512.0] * n_nodes, SocialContract(), world, world, world, notes)
    forecasting = notes and Forecasting(
        nodes, {"aware": PolicyAware(Loras())}, notes, PromisesByForecast("aware", 1.5)
    )
    ports = OnSharedNodes(world, world, (512.0,) * n_nodes, SocialContract(), world, world)
    return StartingManager(ports, nodes, scheduler, new_jobs=forecasting)


def job(number: int, tasks: int = 1, job_class: str = "any") -> Job:
    return Job(JobId(number), job_class, float(number), n_tasks=tasks)


def test_a_job_waits_for_free_nodes_and_starts_when_another_ends() -> None:
    world = World()
    manager = manager_of(world, Loras(), 1)
    for number in range(5):
        assert manager.on_job_arrived(job(number)) is None
    manager.run_round()
    assert [order.job.id for order in world.orders] == [0, 1, 2, 3], "four are allowed on a node"
    assert list(manager.why_waiting()) == [4]
    assert not manager.wants_round
    world.now_s = 80.0
    manager.on_run_ended(RunEnded(RunId(1), 80.0))
    assert manager.wants_round
    manager.run_round()
    assert world.orders[-1].job.id == 4
    assert world.orders[-1].machines == (0,)


def test_a_lost_run_waits_again_and_avoids_the_failed_node() -> None:
    world = World()
    manager = manager_of(world, Loras())
    manager.on_job_arrived(job(0))
    manager.run_round()
    manager.on_run_lost(RunLost(RunId(0), world.now_s, (0,)))
    manager.run_round()
    assert [order.machines for order in world.orders] == [(0,), (1,)]


def test_a_node_found_down_is_reused_after_a_later_reading() -> None:
    world = World()
    manager = manager_of(world, Loras(), 1)
    world.now_s = 10.0
    manager.on_job_arrived(job(0))
    manager.run_round()
    manager.on_run_lost(RunLost(RunId(0), world.now_s, (0,)))
    world.readings = [MachineReading(0, True, 9.0)]
    manager.run_round()
    assert len(world.orders) == 1, "that was before it was found down"
    world.readings = [MachineReading(0, True, 11.0)]
    manager.on_monitor_news()
    assert manager.wants_round
    manager.run_round()
    assert [order.machines for order in world.orders] == [(0,), (0,)]


def test_a_node_that_recovered_before_its_loss_was_reported_is_reused() -> None:
    """The manager was busy from 10 to 20 s; what it hears then was true before."""
    world = World()
    manager = manager_of(world, Loras(), 1)
    world.now_s = 10.0
    manager.on_job_arrived(job(0))
    manager.run_round()
    world.now_s = 20.0
    manager.on_run_lost(RunLost(RunId(0), 12.0, (0,)))
    world.readings = [MachineReading(0, False, 12.0), MachineReading(0, True, 15.0)]
    manager.run_round()
    assert [order.machines for order in world.orders] == [(0,), (0,)]


def test_every_arrival_predicts_all_unfinished_jobs() -> None:
    world, notes = World(), Notes()
    manager = manager_of(world, Loras(), 1, notes)
    manager.on_job_arrived(job(0))
    manager.run_round()
    world.now_s, world.used = 40.0, {RunId(0): 20.0}
    manager.on_job_arrived(job(1))
    manager.run_round()
    ends = [(p.made_s, p.forecast.job, p.forecast.end_s) for p in notes.predictions]
    assert ends == [(0.0, 0, 100.0), (40.0, 0, 100.0), (40.0, 1, 140.0)]


def test_a_limit_is_promised_once_and_only_with_a_margin() -> None:
    """Jobs take 100 s alone; 150 s are predicted with the margin."""
    world, notes = World(), Notes()
    manager = manager_of(world, Loras(), 2, notes)
    for number, limit_s in ((0, 149.0), (1, 151.0), (2, None)):
        world.now_s = float(number)
        manager.on_job_arrived(job(number)._replace(limit_s=limit_s))
        manager.run_round()
    assert notes.promises == [(1, 152.0)]


@pytest.mark.parametrize(
    ("local_tasks", "local_cpu", "memory_mb"), [(-1.0, 0.1, 0.0), (1.0, -0.1, 0.0), (1.0, 0.1, float("nan"))]
)
def test_an_invalid_reading_is_reported_and_the_previous_one_kept(
    local_tasks: float, local_cpu: float, memory_mb: float
) -> None:
    world = World()
    notes = Notes()
    manager = manager_of(world, Loras(), 1, notes)
    world.readings = [
        NodeReading(0, 1.0, 0.3, 400.0, True, 0.0),
        NodeReading(0, local_tasks, local_cpu, memory_mb, False, 1.0),
    ]
    manager.on_monitor_news()
    assert [measured_s for measured_s, _ in notes.refused] == [1.0]
    for number in range(4):
        manager.on_job_arrived(job(number))
    manager.run_round()
    assert len(world.orders) == 2, "while the user is there, 256 MB are for parallel jobs of 100 MB each"


def test_a_job_with_unknown_requirements_is_refused() -> None:
    refusal = manager_of(World(), Loras()).on_job_arrived(job(0, job_class="odd"))
    assert refusal is not None
    assert "jobs of class 'odd' with 1 tasks have not been measured" in refusal


class FixedAnswer:
    """A scheduler that returns what it was made with."""

    def __init__(self, answer: object) -> None:
        self._answer = answer

    def schedule(self, problem: TimeSharedProblem) -> NodeSchedule:
        return self._answer  # type: ignore[return-value]


def placing(*rows: tuple[int, tuple[int, ...]], waiting: tuple[int, ...] = ()) -> NodeSchedule:
    return NodeSchedule([Start(i, nodes, 100.0) for i, nodes in rows], dict.fromkeys(waiting, "so"))


EVERYWHERE = [(i, (0, 1)) for i in range(5)]


@pytest.mark.parametrize(
    ("answer", "rule"),
    [
        (None, rules.RETURNS_A_SCHEDULE),
        (Schedule.of([Assignment(0, 0, 0.0, 1.0)]), rules.RETURNS_A_SCHEDULE),
        (placing((9, (0, 1)), waiting=(0, 1, 2, 3, 4)), rules.KNOWN_JOB),
        (placing((0, (0, 1)), (0, (0, 1)), waiting=(1, 2, 3, 4)), rules.EACH_JOB_ONCE),
        (placing((0, (0, 1)), waiting=(0, 1, 2, 3, 4)), rules.EACH_JOB_ONCE),
        (placing((0, (0, 7)), waiting=(1, 2, 3, 4)), rules.KNOWN_NODES),
        (placing((0, (0, 0)), waiting=(1, 2, 3, 4)), rules.ONE_TASK_ON_EACH_NODE),
        (placing((0, (0,)), waiting=(1, 2, 3, 4)), rules.ONE_TASK_ON_EACH_NODE),
        (placing(*EVERYWHERE), rules.SOCIAL_CONTRACT),
        (placing((0, (0, 1)), waiting=(1, 2, 3)), rules.NO_JOB_FORGOTTEN),
    ],
)
def test_an_invalid_schedule_is_rejected_and_nothing_is_started(answer: object, rule: str) -> None:
    world = World()
    manager = manager_of(world, FixedAnswer(answer))
    for number in range(5):
        manager.on_job_arrived(job(number, 2))
    with pytest.raises(ScheduleRejected) as caught:
        manager.run_round()
    assert caught.value.violation.rule == rule
    assert world.orders == []
