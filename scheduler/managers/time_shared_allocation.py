"""The state of time-shared nodes, and predictions and promises for their jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Protocol

from scheduler.managers.limit_admission import PromisesByForecast
from scheduler.managers.starting_manager import NodeAllocation
from scheduler.model import Job, JobId, NodeReading, RunId, Share, Start
from scheduler.ports import Clock, RunEnded
from scheduler.problem import Running
from scheduler.resource_manager import Characterisation
from scheduler.time_shared.forecast import Forecast, Predictor
from scheduler.time_shared.problem import ReportedLoad, SharedNodes, SystemState, TimeSharedProblem
from scheduler.time_shared.social_contract import Requirement, SocialContract


class CpuTimes(Protocol):
    """CPU time used by running jobs."""

    def used_s(self, run: RunId) -> float:
        """CPUtime_cur, in seconds: the mean over its tasks; 0 if it has not begun."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """A forecast by a named predictor, of one of `jobs_there` unfinished jobs."""

    made_s: float
    predictor: str
    forecast: Forecast
    jobs_there: int


class Notes(Protocol):
    """Receives predictions, promises, and readings that cannot be true."""

    def predicted(self, prediction: Prediction) -> None: ...

    def promised(self, job: Job, by_s: float) -> None:
        """Note that a job is promised to end by then."""

    def bad_reading(self, reading: NodeReading, why: str) -> None:
        """Note that a reading was ignored."""


class TimeSharedAllocation(NodeAllocation[TimeSharedProblem]):
    """The system state of CISNE, with the sources of its measurements.

    A reading that cannot be true is ignored, and the previous one remains valid. A node whose monitor never
    answers counts as having no local load.
    """

    def __init__(
        self,
        memory_mb: Sequence[float],
        contract: SocialContract,
        clock: Clock,
        accounting: CpuTimes,
        characterisation: Characterisation,
        notes: Notes | None = None,
    ) -> None:
        self._contract = contract
        self._clock = clock
        self._accounting = accounting
        self._characterisation = characterisation
        self._notes = notes
        self.state = SystemState(memory_mb, contract)
        self._job_of: dict[RunId, JobId] = {}
        self.waiting = self.state.waiting
        self.promised = self.state.promised

    def required(self, job: Job) -> Requirement | str:
        """What a job requires, or why it could never run here."""
        requirement = self._characterisation.requirement(job)
        if requirement is None:
            return (
                f"jobs of class '{job.job_class}' with {job.n_tasks} tasks have not been measured; "
                f"run one in isolation and enter what it used"
            )
        return self._contract.refusal(requirement, self.state.free_mb) or requirement

    def submit(self, job: Job) -> str | None:
        requirement = self.required(job)
        if isinstance(requirement, str):
            return requirement
        self.state.add(job, requirement)
        return None

    def withdraw(self, job: JobId) -> Job | None:
        found = next((each for each in self.waiting if each.id == job), None)
        if found is not None:
            self.state.withdraw(found)
        return found

    def problem(self, now_s: float, running: Mapping[RunId, Running]) -> TimeSharedProblem:
        return TimeSharedProblem(now_s, self.waiting, self.view(), running)

    def start(self, run: RunId, job: Job, start: Start, now_s: float) -> tuple[Share, ...]:
        self.state.start(job, start.nodes, now_s)
        self._job_of[run] = job.id
        return ()

    def end(self, run: RunId, ended: RunEnded) -> None:
        self.state.end(self._job_of.pop(run))

    def requeue(self, run: RunId) -> None:
        self.state.requeue(self._job_of.pop(run))

    def set_available(self, node: int, is_available: bool) -> None:
        self.state.set_available(node, is_available)

    def read(self, reading: NodeReading) -> bool:
        for what, value in (
            ("a number of local tasks", reading.local_tasks),
            ("a share of the CPU", reading.local_cpu),
            ("memory", reading.local_memory_mb),
        ):
            if not (isfinite(value) and value >= 0):
                if self._notes is not None:
                    why = f"{what} was reported as {value:g}, expected zero or more"
                    self._notes.bad_reading(reading, f"{why}; the previous reading is kept")
                return False
        load = reading.local_tasks, reading.local_cpu, reading.local_memory_mb, reading.user_is_there
        return self.state.set_local(reading.node, ReportedLoad(*load))

    def view(self) -> SharedNodes:
        """The nodes as schedulers and predictors see them."""
        return self.state.view(self._measure)

    def _measure(self) -> None:
        for run, job in self._job_of.items():
            self.state.measured(job, self._accounting.used_s(run), self._clock.now_s)


@dataclass(frozen=True)
class Forecasting:
    """After a round with new jobs, every predictor forecasts all unfinished jobs.

    A new job that requests a turnaround limit is promised it, or not.
    """

    nodes: TimeSharedAllocation
    predictors: Mapping[str, Predictor]
    notes: Notes
    promises: PromisesByForecast | None = None

    def __call__(self, jobs: Mapping[JobId, Job], now_s: float) -> None:
        view, rule = self.nodes.view(), self.promises
        for name, predictor in self.predictors.items():
            forecasts = predictor.predict(now_s, view)
            for forecast in forecasts:
                self.notes.predicted(Prediction(now_s, name, forecast, len(forecasts)))
                job = jobs.get(forecast.job)
                if rule is None or name != rule.predictor or job is None or job.limit_s is None:
                    continue
                by_s = job.arrival_s + job.limit_s
                if rule.keeps(forecast, now_s, by_s):
                    self.nodes.promised[job.id] = by_s
                    self.notes.promised(job, by_s)
