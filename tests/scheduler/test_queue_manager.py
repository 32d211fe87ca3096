"""The queue manager of shared nodes, with recording fakes."""

from __future__ import annotations

import pytest

from scheduler import rules
from scheduler.managers.limit_admission import LimitAdmission, PromisesByForecast
from scheduler.managers.queues import Unkept
from scheduler.managers.starting_manager import NodeManager
from scheduler.managers.time_shared_allocation import Forecasting, Prediction, TimeSharedAllocation
from scheduler.model import Job, JobId, MachineReading, NodeReading, RunId
from scheduler.ports import AnyScheduler, RunLost
from scheduler.resource_manager import OnSharedNodes
from scheduler.rules import ScheduleRejected
from scheduler.time_shared.loras import Loras
from scheduler.time_shared.predictors import PolicyAware
from scheduler.time_shared.social_contract import Requirement, SocialContract
from tests.scheduler.fakes import ByHand, FixedScheduler, placing


class Notes:
    def __init__(self) -> None:
        self.predictions: list[Prediction] = []
        self.promises: list[tuple[JobId, float]] = []
        self.refused: list[tuple[float, str]] = []

    def predicted(self, prediction: Prediction) -> None:
        self.predictions.append(prediction)

    def promised(self, job: Job, by_s: float, cost: str = "") -> None:
        self.promises.append((job.id, by_s))

    def bad_reading(self, reading: NodeReading, why: str) -> None:
        self.refused.append((reading.measured_s, why))


class Queue(ByHand):
    """It predicts, and promises by what it predicts, if there are notes to be made."""

    def __init__(
        self, scheduler: AnyScheduler, n_nodes: int = 2, notes: Notes | None = None, unkept: str = "accepted"
    ) -> None:
        super().__init__()
        self.used: dict[RunId, float] = {}
        memory_mb, contract = (512.0,) * n_nodes, SocialContract()
        nodes = TimeSharedAllocation(memory_mb, contract, self.clock, self, self, notes)
        rule = PromisesByForecast("aware", 1.5)
        predictors = {"aware": PolicyAware(Loras())}
        forecasting = None if notes is None else Forecasting(nodes, predictors, notes, rule)
        ports = OnSharedNodes(self.clock, self.dispatcher, memory_mb, contract, self, self.monitor)
        if unkept == "accepted":
            self.manager = NodeManager(ports, nodes, scheduler, new_jobs=forecasting)
            return
        self.manager = NodeManager(ports, nodes, scheduler)
        assert isinstance(scheduler, Loras)
        predict, exact = PolicyAware(scheduler).predict, PromisesByForecast("aware", 1.0, Unkept(unkept))
        admission = LimitAdmission(
            nodes,
            lambda _: predict(self.clock.now_s, nodes.view()),
            self.clock,
            exact,
            (notes or Notes()).promised,
        )
        self.manager.submit = admission.submit

    def submit(self, *jobs: Job) -> None:
        for job in jobs:
            assert self.manager.on_job_arrived(job) is None
        self.manager.run_round()

    def used_s(self, run: RunId) -> float:
        return self.used.get(run, 0.0)

    def requirement(self, job: Job) -> Requirement | None:
        return None if job.job_class == "odd" else Requirement(job.n_tasks, 0.5, 100.0, 100.0)


def job(number: int, tasks: int = 1, job_class: str = "any") -> Job:
    return Job(JobId(number), job_class, float(number), n_tasks=tasks)


def test_a_job_waits_for_free_nodes_and_starts_when_another_ends() -> None:
    queue = Queue(Loras(), 1)
    queue.submit(*map(job, range(5)))
    assert [job for job, _ in queue.started] == [0, 1, 2, 3], "four are allowed on a node"
    assert list(queue.manager.why_waiting()) == [4]
    queue.end(1, 80.0)
    assert queue.started[4:] == [(4, "(0,)")]


def test_a_lost_run_waits_again_and_avoids_the_failed_node() -> None:
    queue = Queue(Loras())
    queue.submit(job(0))
    queue.lose(0, [0])
    assert queue.started == [(0, "(0,)"), (0, "(1,)")]


def test_a_node_that_recovered_before_its_loss_was_reported_is_reused() -> None:
    """The manager was busy from 10 to 20 s; what it hears then was true before."""
    queue = Queue(Loras(), 1)
    queue.clock.now_s = 10.0
    queue.submit(job(0))
    queue.monitor.unread[:] = [MachineReading(0, False, 12.0), MachineReading(0, True, 15.0)]
    queue.notify(RunLost(RunId(0), 12.0, (0,)), 20.0)
    assert queue.started == [(0, "(0,)"), (0, "(0,)")]


def test_every_arrival_predicts_all_unfinished_jobs() -> None:
    notes = Notes()
    queue = Queue(Loras(), 1, notes)
    queue.submit(job(0))
    queue.clock.now_s, queue.used = 40.0, {RunId(0): 20.0}
    queue.submit(job(1))
    ends = [(p.made_s, p.forecast.job, p.forecast.end_s) for p in notes.predictions]
    assert ends == [(0.0, 0, 100.0), (40.0, 0, 100.0), (40.0, 1, 140.0)]


def test_a_limit_is_promised_once_and_only_with_a_margin() -> None:
    """Jobs take 100 s alone; 150 s are predicted with the margin."""
    notes = Notes()
    queue = Queue(Loras(), 2, notes)
    for number, limit_s in ((0, 149.0), (1, 151.0), (2, None)):
        queue.clock.now_s = float(number)
        queue.submit(job(number)._replace(limit_s=limit_s))
    assert notes.promises == [(1, 152.0)]


def limited(number: int, limit_s: float) -> Job:
    return job(number)._replace(arrival_s=0.0, limit_s=limit_s)


def test_a_limit_that_cannot_be_kept_is_refused_with_whose_it_would_be() -> None:
    """One job at a time on one node, each of 100 s, the earliest deadline first."""
    notes = Notes()
    queue = Queue(Loras("edf", most_jobs=1), 1, notes, "refused")
    queue.submit(limited(0, 100.0), limited(1, 200.0), limited(2, 310.0))
    refuse = queue.manager.on_job_arrived
    own = "job 3 would miss its deadline by 1 s, as predicted"
    assert refuse(limited(3, 399.0)) == own
    others = "job 2 would miss its deadline by 90 s, as predicted"
    assert refuse(limited(4, 305.0)) == others
    assert notes.promises == [(0, 100.0), (1, 200.0), (2, 310.0)]
    queue.submit(job(5))  # without a limit, it comes last
    queue.end(0, 100.0)
    queue.end(1, 200.0)
    assert [number for number, _ in queue.started] == [0, 1, 2]


def test_a_limit_that_cannot_be_kept_is_dropped_with_best_effort() -> None:
    queue = Queue(Loras("edf", most_jobs=1), 1, unkept="best_effort")
    queue.submit(limited(0, 100.0))
    queue.submit(limited(1, 150.0), limited(2, 200.0))
    queue.end(0, 100.0)
    assert [number for number, _ in queue.started] == [0, 2], "job 1 has no deadline any more"


@pytest.mark.parametrize(
    ("local_tasks", "local_cpu", "memory_mb"), [(-1.0, 0.1, 0.0), (1.0, -0.1, 0.0), (1.0, 0.1, float("nan"))]
)
def test_an_invalid_reading_is_reported_and_the_previous_one_kept(
    local_tasks: float, local_cpu: float, memory_mb: float
) -> None:
    notes = Notes()
    queue = Queue(Loras(), 1, notes)
    queue.monitor.unread[:] = [
        NodeReading(0, 1.0, 0.3, 400.0, True, 0.0),
        NodeReading(0, local_tasks, local_cpu, memory_mb, False, 1.0),
    ]
    queue.submit(*map(job, range(4)))
    assert [measured_s for measured_s, _ in notes.refused] == [1.0]
    assert len(queue.started) == 2, "while the user is there, 256 MB are for parallel jobs of 100 MB each"


def test_a_job_with_unknown_requirements_is_refused() -> None:
    refusal = Queue(Loras()).manager.on_job_arrived(job(0, job_class="odd"))
    assert refusal is not None
    assert "jobs of class 'odd' with 1 tasks have not been measured" in refusal


def test_an_invalid_schedule_is_rejected_and_nothing_is_started() -> None:
    """Of the five jobs on two nodes, four may share a node; the contract suite breaks the other rules."""
    queue = Queue(FixedScheduler(placing(*((i, (0, 1)) for i in range(5)))))
    with pytest.raises(ScheduleRejected) as caught:
        queue.submit(*(job(number, 2) for number in range(5)))
    assert caught.value.violation.rule == rules.SOCIAL_CONTRACT
    assert queue.started == []
