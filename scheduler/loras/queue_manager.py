"""The queue manager of CISNE: jobs that start on shared nodes, and forecasts of their ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from math import isfinite
from types import MappingProxyType
from typing import Protocol

from scheduler.admission import Admission
from scheduler.loras.requirement import Requirement
from scheduler.loras.rules import first_violation_on_nodes
from scheduler.loras.social_contract import SocialContract
from scheduler.loras.system import LocalLoad, SharedNodes, SystemState
from scheduler.model import (
    Completion,
    DispatchOrder,
    Job,
    JobId,
    MachineReading,
    NodeReading,
    Placement,
    RunId,
)
from scheduler.ports import Clock, Dispatcher, Scheduler
from scheduler.prediction.forecast import Forecast, Predictor
from scheduler.problem import LazyJobs, Running, SchedulingProblem
from scheduler.rules import ScheduleRejected

MOST_REASONS = 10
"""Of so many waiting jobs it is kept why they wait."""

ON_NODES = -1
"""The resource of an order that is for a set of nodes."""


class NodeMonitor(Protocol):
    """Watches the nodes: whether they are up, and the local load on them."""

    def news(self) -> Sequence[NodeReading | MachineReading]:
        """Readings that were not told yet, oldest first."""
        ...


class Accounting(Protocol):
    """Knows what CPU time running jobs have used."""

    def used_s(self, run: RunId) -> float:
        """CPUtime_cur: the mean of its tasks, in seconds; 0 where it never began."""
        ...


class Promises(Protocol):
    """Decides which turnaround limits are promised, by what one predictor says of a new job."""

    @property
    def predictor(self) -> str: ...

    def keeps(self, forecast: Forecast, now_s: float, by_s: float) -> bool: ...


class Characterisation(Protocol):
    """Knows jobs from having run them in isolation."""

    def requirement(self, job: Job) -> Requirement | None: ...


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a predictor, by name, said at some time of one of `jobs_there` jobs that were not done."""

    made_s: float
    predictor: str
    forecast: Forecast
    jobs_there: int


class Notes(Protocol):
    """Hears of what the manager learns and says, beside its orders."""

    def predicted(self, prediction: Prediction) -> None: ...

    def promised(self, job: Job, by_s: float) -> None:
        """A job was promised to end by then."""
        ...

    def bad_reading(self, reading: NodeReading, why: str) -> None:
        """A reading cannot be true and was left aside."""
        ...


class _NobodyNotes:
    def predicted(self, prediction: Prediction) -> None:
        """Nobody hears of it."""

    def promised(self, job: Job, by_s: float) -> None:
        """Nobody hears of it."""

    def bad_reading(self, reading: NodeReading, why: str) -> None:
        """Nobody hears of it."""


NOBODY_NOTES = _NobodyNotes()


class _WaitingJobs(LazyJobs):
    """The jobs that wait, in order."""

    def __init__(self, state: SystemState, jobs: Mapping[JobId, Job]) -> None:
        self._state = state
        self._jobs = jobs

    def __len__(self) -> int:
        return self._state.n_waiting

    def job_at(self, i: int) -> Job:
        return self._jobs[self._state.waiting_at(i)]


class QueueManager:
    """One queue of parallel jobs for nodes that are shared; the counterpart of `SchedulingManager`.

    Notices change state; a round asks the scheduler which jobs start now, and gives the orders. After a round
    in which a job is new, every predictor forecasts all jobs that are not done, and a new job that asks for a
    limit of its turnaround is promised it, or not. A reading that cannot be true is left aside, and the one
    before it holds. A node whose monitor never answers is taken to have no local load.
    """

    def __init__(
        self,
        memory_mb: Sequence[float],
        contract: SocialContract,
        scheduler: Scheduler,
        clock: Clock,
        dispatcher: Dispatcher,
        monitor: NodeMonitor,
        accounting: Accounting,
        characterisation: Characterisation,
        predictors: Mapping[str, Predictor] = MappingProxyType({}),
        promises: Promises | None = None,
        notes: Notes = NOBODY_NOTES,
        admission: Admission | None = None,
    ) -> None:
        self._contract = contract
        self._scheduler = scheduler
        self._clock = clock
        self._dispatcher = dispatcher
        self._monitor = monitor
        self._accounting = accounting
        self._characterisation = characterisation
        self._predictors = predictors
        self._promises = promises
        self._notes = notes
        self._admission = admission
        self._unfinished_of: Counter[str] = Counter()
        self._state = SystemState(memory_mb, contract)
        self._jobs: dict[JobId, Job] = {}
        self._run_of: dict[JobId, RunId] = {}
        self._running: dict[RunId, Running] = {}
        self._run_ids = count()
        self._reasons: dict[JobId, str] = {}
        """Why the first of those that wait do so."""
        self._news = False
        self._new_jobs: set[JobId] = set()
        self._told_s: dict[int, float] = {}
        """When it was last seen whether a node is up."""

    @property
    def wants_round(self) -> bool:
        return self._news and (bool(self._new_jobs) or self._state.n_waiting > 0)

    @property
    def wakes_at_s(self) -> float | None:
        return None

    def why_waiting(self) -> dict[JobId, str]:
        not_yet = "no round has looked at it yet"
        return {job: self._reasons.get(job, not_yet) for job in self._state.waiting}

    def on_job_arrived(self, job: Job) -> str | None:
        """A job is submitted. Returns None, or the sentence with which it is refused."""
        if self._admission is not None:
            refused = self._admission.refusal(job, self._unfinished_of[job.user])
            if refused is not None:
                return refused
        requirement = self._characterisation.requirement(job)
        if requirement is None:
            return (
                f"nothing is known of jobs of class '{job.job_class}' with {job.n_tasks} tasks; "
                f"run one in isolation, and enter what it used"
            )
        refusal = self._contract.refusal(requirement, self._state.free_mb)
        if refusal is not None:
            return refusal
        self._jobs[job.id] = job
        self._unfinished_of[job.user] += 1
        self._state.add(job, requirement)
        self._new_jobs.add(job.id)
        self._news = True
        return None

    def on_run_ended(self, completion: Completion) -> None:
        running = self._running.pop(completion.run, None)
        if running is None:
            return
        del self._jobs[running.job.id], self._run_of[running.job.id]
        self._unfinished_of[running.job.user] -= 1
        self._state.end(running.job.id)
        self._news = True

    def on_run_preempted(self, run_id: RunId) -> None:
        """Nobody preempts here: CCS stops and restarts by itself. An order from outside counts as a loss."""
        self.on_run_lost(run_id)

    def on_run_lost(self, run_id: RunId, found_down: Iterable[int | str] = ()) -> None:
        """A run came to nothing: its job waits again. Nodes found down are not used any more."""
        for subject in found_down:
            if isinstance(subject, int):
                self._state.tell_available(subject, False)
                self._told_s[subject] = self._clock.now_s
        running = self._running.pop(run_id, None)
        if running is not None:
            del self._run_of[running.job.id]
            self._state.come_to_nothing(running.job)
        self._news = True

    def on_monitor_news(self) -> None:
        for reading in self._monitor.news():
            if isinstance(reading, MachineReading):
                # What was found down is believed until a later reading says otherwise.
                if reading.measured_s >= self._told_s.get(reading.machine, 0.0):
                    self._told_s[reading.machine] = reading.measured_s
                    self._state.tell_available(reading.machine, reading.up)
                    self._news = True
                continue
            wrong = _what_is_wrong(reading)
            if wrong is not None:
                self._notes.bad_reading(reading, wrong)
                continue
            before = self._state.local(reading.node)
            load = LocalLoad(
                reading.local_tasks, reading.local_cpu, reading.local_memory_mb, reading.user_is_there
            )
            self._state.tell_local(reading.node, load)
            # Only memory decides whether a job may start, so other news is no reason to ask the scheduler.
            if (before.user_is_there, before.memory_mb) != (load.user_is_there, load.memory_mb):
                self._news = True

    def on_time_passed(self) -> None:
        """It never asks to be woken."""

    def run_round(self) -> None:
        """Start what the scheduler says.

        Raises ScheduleRejected, with nothing of that schedule carried out, if a rule is broken.
        """
        self.on_monitor_news()
        self._news = False
        now_s = self._clock.now_s
        if self._state.n_waiting:
            jobs = _WaitingJobs(self._state, self._jobs)
            problem = SchedulingProblem.on_shared_nodes(
                now_s, jobs, self._view(), MappingProxyType(self._running)
            )
            schedule = self._scheduler.schedule(problem)
            violation = first_violation_on_nodes(problem, schedule)
            if violation is not None:
                raise ScheduleRejected(violation)
            said = islice(schedule.left_waiting.items(), MOST_REASONS)
            self._reasons = {jobs[i].id: reason for i, reason in said}
            started = [jobs[placement.job] for placement in schedule.placements]
            for job, placement in zip(started, schedule.placements, strict=True):
                self._start(job, placement, now_s)
        if self._new_jobs:
            self._predict(now_s)

    def _view(self) -> SharedNodes:
        return self._state.view(self._measure)

    def _measure(self) -> None:
        for job, run in self._run_of.items():
            self._state.measured(job, self._accounting.used_s(run), self._clock.now_s)

    def _start(self, job: Job, placement: Placement, now_s: float) -> None:
        run = RunId(next(self._run_ids))
        self._state.start(job, placement.nodes, now_s)
        self._run_of[job.id] = run
        self._running[run] = Running(job, ON_NODES, placement.nodes, placement.completion_s)
        expected_s = placement.completion_s - now_s
        self._dispatcher.dispatch(DispatchOrder(run, job, ON_NODES, placement.nodes, expected_s))

    def _predict(self, now_s: float) -> None:
        view = self._view()
        for name, predictor in self._predictors.items():
            forecasts = predictor.predict(now_s, view)
            for forecast in forecasts:
                self._notes.predicted(Prediction(now_s, name, forecast, len(forecasts)))
            if self._promises is not None and name == self._promises.predictor:
                self._promise(self._promises, forecasts, now_s)
        self._new_jobs.clear()

    def _promise(self, promises: Promises, forecasts: Sequence[Forecast], now_s: float) -> None:
        """Answer the new jobs that ask for a limit of their turnaround."""
        for forecast in forecasts:
            job = self._jobs[forecast.job]
            if job.id not in self._new_jobs or job.limit_s is None:
                continue
            by_s = job.arrival_s + job.limit_s
            if promises.keeps(forecast, now_s, by_s):
                self._state.promise(job.id, by_s)
                self._notes.promised(job, by_s)


def _what_is_wrong(reading: NodeReading) -> str | None:
    """Why a reading cannot be true, or None."""
    numbers = {
        "a number of local tasks": reading.local_tasks,
        "a share of the CPU": reading.local_cpu,
        "memory": reading.local_memory_mb,
    }
    for what, value in numbers.items():
        if not (isfinite(value) and value >= 0):
            return f"{what} below zero, or none at all, was reported; the reading before it is kept"
    return None
