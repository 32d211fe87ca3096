"""Simulations in steps: for debugging, teaching, and programs that watch a scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from scheduler import UserError
from scheduler.messages import counted
from sil.api.logs import Moment, given_log, second_of_log
from sil.declared import Field, Shown, as_keyword, spread
from sil.runs.on_log import Replay
from sil.runs.under_test import named
from sil.settings.replays import Engine, Replaying
from sil.trace.facts import FACT_SCHEMA, Fact
from sil.workload.job_log import JobLog

_ARRIVED: dict[str, Any] = {name: FACT_SCHEMA[name] for name in ("job", "time_s", "user", "queue", "tasks")}
_STARTED: dict[str, Any] = {
    name: FACT_SCHEMA[name] for name in ("job", "time_s", "expected_s", "tasks", "machines")
}
_WAITS_AGAIN = (Fact.RUN_LOST, Fact.RUN_PREEMPTED, Fact.ORDER_OVERTAKEN)


@dataclass(frozen=True)
class State:
    """The state of a simulation at a time. Times are seconds of the log.

    * `waiting`: a row for each waiting job in order of arrival: when it arrived (`time_s`), its user and
      queue, and the processors that it needs (`tasks`).
    * `running`: a row for each running job in order of start: when it started (`time_s`), how long it is
      expected to run (`expected_s`), the number of its processors (`tasks`) and which they are (`machines`).
    * `n_ended`: the number of jobs that have ended. `processors`: those that are in use, of all.
    """

    time_s: float
    waiting: pl.DataFrame
    running: pl.DataFrame
    n_ended: int
    n_in_use: int
    processors: int
    since_first_s: float
    """Seconds since the first submission."""
    date: str | None
    """The date, if the log has dates."""

    def __repr__(self) -> str:
        date = "" if self.date is None else f" ({self.date})"
        return (
            f"{self.since_first_s:,.12g} s{date}: waiting {len(self.waiting):,}, running "
            f"{len(self.running):,}, ended {self.n_ended:,}; {self.n_in_use:,} of "
            f"{counted(self.processors, 'processor')} in use"
        )


_WITHOUT_EFFECT = ("engine", "memory_limit_mb", "slurm_step_s", "pause_at_s")
_DEFAULTS = {"reasons": True, "determinism_check": False}


def _shown(field: Field) -> Shown | None:
    """How a setting of replays appears among those of simulations."""
    if field.name in _WITHOUT_EFFECT:
        return None
    return as_keyword(field._replace(default=_DEFAULTS.get(field.name, field.default)))


class Simulation:
    """The replay of a log under one scheduler, event by event.

    An event is the arrival or the end of a job, or a scheduling pass, in which the scheduler is asked. The
    parameters are those of `replay`; the facts are those of its trace, in seconds of the log. Exceptions in
    the scheduler are raised with their tracebacks, and a debugger stops in it as in any other function.
    """

    @spread(_shown)
    def __init__(self, log: JobLog, scheduler: object = "easy", *, how: Replaying) -> None:
        """Raises UserError for invalid settings, and for a scheduler that cannot replay this log."""
        under_test = named(scheduler, isolated=False, raises_faults=True)
        how = replace(how, engine=Engine.HARNESS)
        replay = Replay.checked(given_log(log), how, list(under_test.values()))
        if len(under_test) != 1:
            raise UserError(f"{len(under_test)} schedulers are given; a simulation has one")
        (only,) = under_test.values()
        self._printed = TemporaryDirectory(prefix="sil-", ignore_cleanup_errors=True)
        self._facts, self._jobs = list[pl.DataFrame](), _Jobs()
        self._world, self._steps = replay.steps(only, self._take, Path(self._printed.name) / "printed")
        self._clock, self._now_s, self._processors = log.clock, log.clock.first_s, log.processors
        self._is_done = False
        self._next()

    @property
    def is_done(self) -> bool:
        """Whether all jobs have ended."""
        return self._is_done

    @property
    def facts(self) -> pl.DataFrame:
        """A row for each fact so far, with the columns of trace.parquet (`docs/reference/results.md`)."""
        return pl.concat([pl.DataFrame(schema=FACT_SCHEMA), *self._facts])

    @property
    def state(self) -> State:
        """The state now."""
        waiting, running = self._jobs.waiting, self._jobs.running
        return State(
            self._now_s,
            pl.DataFrame(list(waiting.values()), schema=_ARRIVED),
            pl.DataFrame(list(running.values()), schema=_STARTED),
            self._jobs.n_ended,
            sum(run["tasks"] for run in running.values()),
            self._processors,
            self._now_s - self._clock.first_s,
            self._clock.date(self._now_s),
        )

    def step(self, events: int = 1) -> pl.DataFrame:
        """Process some events. Returns their facts, if any. Raises SchedulerFault."""
        before = len(self._facts)
        for _ in range(events):
            self._next()
        return self._since(before)

    def run_until(self, time: Moment) -> pl.DataFrame:
        """Process all events up to a time. Returns their facts. The time is a second of the log; a text like
        "2d", which counts from the first submission; or a date, if the log has dates. Raises UserError for
        another text, and SchedulerFault."""
        before, until_s = len(self._facts), second_of_log(time, self._clock)
        while not self._is_done and self._world.events.next_s <= until_s:
            self._next()
        self._now_s = max(self._now_s, until_s)
        return self._since(before)

    def run(self) -> pl.DataFrame:
        """Process all events until all jobs have ended. Returns their facts. Raises SchedulerFault."""
        before = len(self._facts)
        while not self._is_done:
            self._next()
        return self._since(before)

    def __repr__(self) -> str:
        return f"Simulation at {self.state!r}"

    def _next(self) -> None:
        self._is_done = next(self._steps, self) is self
        self._now_s = max(self._now_s, self._world.clock.now_s)

    def _since(self, before: int) -> pl.DataFrame:
        self._world.trace.close()
        return pl.concat([pl.DataFrame(schema=FACT_SCHEMA), *self._facts[before:]])

    def _take(self, facts: pl.DataFrame) -> None:
        facts = facts.select(*FACT_SCHEMA)
        self._facts.append(facts)
        self._jobs.add(facts)


@dataclass
class _Jobs:
    waiting: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    running: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    n_ended: int = 0
    _arrived: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    """The arrivals of running jobs, which may wait again."""

    def add(self, facts: pl.DataFrame) -> None:
        for fact in facts.iter_rows(named=True):
            job = fact["job"]
            match fact["event"]:
                case Fact.JOB_ARRIVED:
                    self.waiting[job] = {name: fact[name] for name in _ARRIVED}
                case Fact.JOB_REFUSED:
                    del self.waiting[job]
                case Fact.RUN_STARTED:
                    self._arrived[job] = self.waiting.pop(job)
                    self.running[job] = {name: fact[name] for name in _STARTED}
                case Fact.RUN_ENDED:
                    del self.running[job], self._arrived[job]
                    self.n_ended += 1
                case event if event in _WAITS_AGAIN:
                    del self.running[job]
                    self.waiting[job] = self._arrived.pop(job)
