"""Predicted turnaround of the jobs of a queue file, under the scheduler of their cluster; and that file:
running and waiting jobs on time-shared nodes, written by users or scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from scheduler import UserError
from scheduler.model import Job, JobId
from scheduler.naming import Misnamed
from scheduler.registry import SchedulerSpec
from scheduler.rules import Kind
from scheduler.time_shared import predictors
from scheduler.time_shared.forecast import COVERAGE, Basis, circumstances_of
from scheduler.time_shared.problem import ReportedLoad, SystemState
from sil.isolation.host import Host
from sil.runs.hosting import call_isolated, what_if_scheduler
from sil.runs.under_test import UnderTest
from sil.site.time_shared_cluster import NodesOfSite, histories
from sil.world.events import SimClock
from site_db.experience import KnownError
from site_db.files import toml_file
from site_db.files.fields import Name
from site_db.files.toml_file import Count, Location, NotNegative, Table
from site_db.site_file.tables import Names


class RunningTable(Table):
    """A running job, with one task on each of its nodes. `cpu_used_s` is the mean of its tasks, from
    accounting; without it, the job is assumed to have run alone."""

    job: Annotated[int, Field(ge=0, strict=True)]
    job_class: Name
    nodes: Annotated[Names, Field(min_length=1)]
    ran_for_s: NotNegative
    cpu_used_s: NotNegative | None = None

    @property
    def tasks(self) -> int:
        return len(self.nodes)


class WaitingTable(Table):
    """A waiting job; jobs are in the order of submission."""

    job: Annotated[int, Field(ge=0, strict=True)]
    job_class: Name
    tasks: Count


class LocalTable(Table):
    """Local users on some nodes: their current tasks, recent CPU usage, and memory."""

    nodes: Annotated[Names, Field(min_length=1)]
    tasks: NotNegative = 1.0
    cpu: float = Field(default=0.0, ge=0, le=1, strict=True)
    memory_mb: NotNegative = 0.0
    user_is_there: bool = Field(default=True, strict=True)


class QueueFile(Table):
    """The state of a cluster."""

    running: tuple[RunningTable, ...] = ()
    waiting: tuple[WaitingTable, ...] = ()
    local: tuple[LocalTable, ...] = ()

    @property
    def jobs(self) -> tuple[RunningTable | WaitingTable, ...]:
        """Running ones first."""
        return (*self.running, *self.waiting)

    def with_submitted(self, job_class: str, tasks: int) -> QueueFile:
        """The state with one more job, submitted now, with the next number."""
        number = max((table.job for table in self.jobs), default=-1) + 1
        new = WaitingTable(job=number, job_class=job_class, tasks=tasks)
        return self.model_copy(update={"waiting": (*self.waiting, new)})

    @model_validator(mode="after")
    def _jobs_are_different(self) -> QueueFile:
        numbers = [table.job for table in self.jobs]
        doubled = [number for number in numbers if numbers.count(number) > 1]
        if doubled:
            raise ValueError(f"job {doubled[0]} is listed twice")
        return self


def read_queue_file(path: Path) -> QueueFile:
    """The state in a TOML file. Raises InvalidFile with all its mistakes."""
    return toml_file.read(path, QueueFile)


DECISION_LIMIT_S = 60.0
"""Limit of a scheduler's hypothetical decisions."""


@dataclass(frozen=True, slots=True)
class TurnaroundPrediction:
    """Start (None if it runs) and completion of one job, in seconds from now (infinite = never), and their
    basis."""

    job: int
    job_class: str
    tasks: int
    start_s: float | None
    end_s: float
    low_s: float | None = None
    high_s: float | None = None
    basis: Basis | None = None
    overdue: bool = False
    """It has used its measured CPU time already: its completion is unknown."""
    after: tuple[int, ...] = ()
    """For a waiting job, the overdue jobs; the prediction assumes that they complete now."""

    def promises(self, by_s: float) -> bool:
        """Whether completion within `by_s` seconds can be promised: nine in ten similar jobs would."""
        return (
            not self.overdue
            and not self.after
            and self.high_s is not None
            and max(self.high_s, self.end_s) <= by_s
        )

    def as_dict(self) -> dict[str, Any]:
        """A JSON object. JSON has no infinity: a start or completion that is never or unknown is None."""
        return {
            "job": self.job,
            "job_class": self.job_class,
            "tasks": self.tasks,
            "starts_in_s": None if self.start_s == inf else self.start_s,
            "ends_in_s": None if self.overdue or self.end_s == inf else self.end_s,
            "overdue": self.overdue,
            "low_s": self.low_s,
            "high_s": self.high_s,
            "coverage": None if self.low_s is None else COVERAGE,
            "errors_known": 0 if self.basis is None else self.basis.n_errors,
            "errors_of": None if self.basis is None else self.basis.alike,
        }


@dataclass(frozen=True)
class Question:
    """Nodes, scheduler and predictor, known past errors, and resources that are down."""

    nodes: NodesOfSite
    scheduler: UnderTest
    predictor: str
    errors: tuple[KnownError, ...] = ()
    down: frozenset[str] = frozenset()


def problems(file: QueueFile, nodes: NodesOfSite) -> Iterator[tuple[Location, str]]:
    """The mistakes in a queue file at its site: (place in the file, sentence)."""
    sizes = nodes.known.sizes()
    for k, table in enumerate(file.jobs):
        runs = k < len(file.running)
        place: Location = ("running", k) if runs else ("waiting", k - len(file.running))
        who = f"job {table.job}"
        if table.job_class not in sizes:
            known = ", ".join(sizes) or "none"
            what = f"has no job class '{table.job_class}' on shared nodes; it has {known}"
            yield (*place, "job_class"), f"{who}: the site {what}"
        elif table.tasks not in sizes[table.job_class]:
            measured = ", ".join(map(str, sizes[table.job_class]))
            never = f"was never measured with {table.tasks} tasks, but with {measured}"
            yield (*place, "nodes" if runs else "tasks"), f"{who}: {table.job_class} {never}"
    jobs_on = Counter(name for table in file.running for name in table.nodes)
    mentions = Counter(name for local in file.local for name in local.nodes)
    most = nodes.contract.most_jobs
    named: list[tuple[Location, tuple[str, ...]]] = [
        (("running", k), running.nodes) for k, running in enumerate(file.running)
    ]
    named += [(("local", k), local.nodes) for k, local in enumerate(file.local)]
    for place, names in named:
        for name in names:
            if name not in nodes.names:
                yield (*place, "nodes"), f"the cluster '{nodes.cluster}' has no node '{name}'"
            elif names.count(name) > 1:
                yield (*place, "nodes"), f"the node '{name}' is named twice"
            elif place[0] == "local" and mentions[name] > 1:
                yield (*place, "nodes"), f"the local users of node '{name}' are listed twice"
            elif jobs_on[name] > most:
                crowded = f"{jobs_on[name]} jobs run on node '{name}'"
                yield (*place, "nodes"), f"{crowded}; the social contract allows {most}"


def predict_turnaround(file: QueueFile, path: Path, question: Question) -> list[TurnaroundPrediction]:
    """All jobs of a state, running ones first. Raises UserError and SchedulerFault."""
    mistakes = list(problems(file, question.nodes))
    if mistakes:
        raise toml_file.invalid(path, mistakes)
    scheduler = question.scheduler.require_in_process("a prediction", Kind.TIME_SHARED)
    return call_isolated(partial(_predicted, file, question, scheduler.spec), scheduler)


def _predicted(
    file: QueueFile, question: Question, spec: SchedulerSpec, host: Host
) -> list[TurnaroundPrediction]:
    errors_of = histories(question.errors, question.nodes.known, spec)
    scheduler = what_if_scheduler(host, spec, SimClock(), DECISION_LIMIT_S)
    try:
        name = predictors.read(question.predictor)
        predictor = predictors.make(name, scheduler, errors_of)
    except Misnamed as error:
        raise UserError(str(error)) from None
    view = _state_of(file, question).view()
    alike = circumstances_of(view)
    forecasts = predictor.predict(0.0, view)
    predictions = []
    for made in forecasts:
        table = file.jobs[made.job]
        job, overdue = (table.job, table.job_class, table.tasks), made.start_s is None and made.end_s <= 0.0
        basis = errors_of(name.uncorrected).basis(alike[made.job])
        found = TurnaroundPrediction(*job, made.start_s, made.end_s, made.low_s, made.high_s, basis)
        predictions.append(TurnaroundPrediction(*job, None, 0.0, overdue=True) if overdue else found)
    late = tuple(one.job for one in predictions if one.overdue)
    return [one if one.start_s is None else replace(one, after=late) for one in predictions]


def _state_of(file: QueueFile, question: Question) -> SystemState:
    """The state now, at 0 s. A job's number is its index in the file, the order of the queue."""
    nodes = question.nodes
    at = {name: n for n, name in enumerate(nodes.names)}
    state, jobs = SystemState(nodes.memory_mb, nodes.contract), []
    for number, table in enumerate(file.jobs):
        needs = nodes.known.of(table.job_class, table.tasks)
        refusal = nodes.contract.refusal(needs, state.free_mb)
        if refusal is not None:
            raise UserError(f"job {table.job} can never run: {refusal}")
        job = Job(JobId(number), table.job_class, 0.0, n_tasks=table.tasks)
        jobs.append((job, needs))
        state.add(job, needs)
    for running, (job, needs) in zip(file.running, jobs, strict=False):
        state.start(job, [at[name] for name in running.nodes], -running.ran_for_s)
        used_s = running.ran_for_s * needs.cpu if running.cpu_used_s is None else running.cpu_used_s
        state.measured(job.id, used_s, 0.0)
    for local in file.local:
        load = ReportedLoad(local.tasks, local.cpu, local.memory_mb, local.user_is_there)
        for name in local.nodes:
            state.set_local(at[name], load)
    for name in question.down & at.keys():
        state.set_available(at[name], False)
    return state
