"""The replay of a log under one scheduler: rigid jobs on free nodes, with the trace written as it grows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from math import ceil, inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from scheduler import UserError
from scheduler.free_nodes.runtime_estimates import LONGEST_S
from scheduler.managers.queues import Unkept
from scheduler.resource_manager import Manager, OnFreeNodes
from sil.isolation.host import Host
from sil.outcome.invariants.checker import LONG
from sil.outcome.jobs import JOBS, SCHEDULE
from sil.outcome.replayed_log import COLUMNS, JobsMay, OnJobs, PrioritiesAtStart, ReplayedLog, Results
from sil.runs.free_nodes import FreeNodesModel, changes_of, slurm_world, unable
from sil.runs.hosting import Supervision, blamed, here, hosted
from sil.runs.simulation import PRINTED, Disturbances, RunKey, SiteRun, run_times_by
from sil.runs.under_test import InProcess, SlurmProgram, UnderTest, check_for_logs, controllers
from sil.settings.decision_costs import check_decision_cost
from sil.settings.files import paths, scheduler_source
from sil.settings.log_events import Events
from sil.settings.replays import NONE, Asking, Engine, Expiry, Replaying, ReplaySettings
from sil.trace.facts import TIMINGS, TIMINGS_SCHEMA, TRACE, of_run, timings_frame, trace_stream
from sil.trace.stream import CsvStream, ParquetStream
from sil.usable import VERSION
from sil.workers.executor import FIRST, Attempt
from sil.workload.arrivals import LoggedRuns
from sil.workload.job_log import DUE_IN_S, JobLog
from sil.world.actual_runtimes import RandomStreams
from sil.world.events import ORDERS, StateChange
from sil.world.failures import Checkpoints, Hindrances, TimedChange
from sil.world.harness import World
from site_db.files.input_errors import given

if TYPE_CHECKING:
    from sil.batsim.nodes import NumberedNodes
    from sil.runs.compiled import CompiledReplay
    from sil.slurm.world import SlurmWorld

EXACT_S = 2.0**51
"""Up to twice this time, in seconds, floating-point numbers tell seconds apart, which compiled decisions
assume."""
FEW_JOBS = 2_000
_TIMES = "submit_s", "run_s", "estimate_s"
FACTS_OF_A_JOB = 3
"""The facts of a job: it arrives, starts and ends."""

SUBMITTED_LATER_S = {"batsim": 10.0}
"""The seconds by which an order of simultaneous events delays jobs: some of Batsim's schedulers cannot start
one at time 0."""


@dataclass(frozen=True)
class Replay(ReplaySettings):
    """A log, and how it is replayed."""

    log: JobLog
    few_jobs: int = FEW_JOBS
    """The fewest jobs for which Engine.AUTO is the compiled engine. The harness, which times each decision,
    is as fast for fewer."""
    events: Events = field(default_factory=Events)
    """What operators and users did besides submitting jobs."""
    slurm_statements: bool = False
    """Whether Slurm's controller is asked for what it says of itself, into the folder of its results."""

    @classmethod
    def of(cls, log: JobLog, settings: Asking, **more: Any) -> Replay:
        """A replay with these settings, as far as a single replay has them, and `more` of them."""
        names = {field.name for field in fields(cls)} & {field.name for field in fields(settings)}
        return cls(log, **{name: getattr(settings, name) for name in names - {"events"}} | more)

    @classmethod
    def checked(cls, log: JobLog, settings: Replaying, schedulers: Sequence[UnderTest]) -> Replay:
        """As `of`, with the events of files. Raises UserError for settings, events and schedulers that do not
        suit the log."""
        check_for_logs(schedulers, log.cluster is not None)
        events = Events()
        if settings.events:
            from sil.settings.events_file import events_in  # takes time to load

            log, events = events_in(paths(settings.events), log)
        replay = cls.of(log, settings, events=events)
        check_decision_cost(replay.decision_cost)
        replay.check(schedulers)
        return replay

    def description(self) -> dict[str, object]:
        """The description in the summary of a replay and in the traces of its schedulers."""
        nodes, of_nodes = self.log.cluster, dict[str, object](gpus=0, nodes=[])
        if nodes is not None:
            of_nodes = {"gpus": nodes.gpus, "nodes": nodes.model, "machines": list(nodes.nodes)}
            of_nodes["node_cores"] = [ceil(node.cores) for node in nodes.nodes.values()]
        return {
            "log": self.log.name,
            "acknowledge": self.log.header.get("acknowledge", ""),
            **self.log.clock.description(),
            "bounded_slowdown_threshold_s": self.log.bound_s,
            "part": list(self.log.part),
            "jobs": len(self.log.jobs),
            "processors": self.log.processors,
            **of_nodes,
            "estimates": self.estimates.value,
            "order": self.order,
            "decision_cost": self.decision_cost,
            "repairs": list(self.log.notes),
            "version": VERSION,
            "scheduler_source": scheduler_source(),
        }

    def run(self, scheduler: UnderTest, folder: Path, attempt: Attempt = FIRST) -> Results:
        """Replay the log under a scheduler; trace, timings, jobs.csv and schedule.csv are written into
        `folder`, in one pass, and numbers of arrived jobs reported. A fault of the scheduler ends the run and
        is the last fact of its trace."""
        compiled = self.compiled(scheduler)
        description = {
            **self.description(),
            "scheduler": scheduler.label,
            "seed": self.seed,
            "engine": (Engine.HARNESS if compiled is None else Engine.COMPILED).value,
        }
        wall_s = "of a decision" if compiled is None else "mean of the decisions of a part of the log"
        decided_s = 0.0
        with (
            blamed([scheduler]),
            trace_stream(folder / TRACE, description, self.log.ids.differ) as trace,
            ParquetStream(folder / TIMINGS, TIMINGS_SCHEMA, {"wall_s": wall_s}) as timings,
            CsvStream(folder / JOBS) as jobs,
        ):
            replayed = self._replayed(scheduler, jobs.write, folder)

            def take_facts(facts: pl.DataFrame) -> None:
                trace.write(self.log.ids.added_to(facts))
                replayed.add(facts)

            def take_decisions(decisions: pl.DataFrame) -> None:
                nonlocal decided_s
                decided_s += float(decisions["wall_s"].sum())
                timings.write(decisions)

            self._carry_out(scheduler, compiled, take_facts, folder / PRINTED, attempt, take_decisions)
            replayed.end()
        replayed.statistics.schedule(len(self.log.jobs), decided_s).write_csv(folder / SCHEDULE)
        return replayed.results(lambda: pl.read_parquet(folder / TRACE, glob=False))

    def results(self, scheduler: UnderTest, printed: Path, attempt: Attempt = FIRST) -> Results:
        """As `run`, without files. A scheduler in another process prints into the file `printed`."""
        replayed, facts = self._replayed(scheduler), list[pl.DataFrame]()

        def take(more: pl.DataFrame) -> None:
            facts.append(more)
            replayed.add(more)

        with blamed([scheduler]):
            compiled = self.compiled(scheduler)
            compiled = None if compiled is None else replace(compiled, columns=COLUMNS)
            self._carry_out(scheduler, compiled, take, printed, attempt._replace(report=FIRST.report))
            replayed.end()
            return replayed.results(lambda: pl.concat(facts).select(COLUMNS))

    def facts(self, scheduler: UnderTest, printed: Path, attempt: Attempt = FIRST) -> pl.DataFrame:
        """The facts of the replay under a scheduler, as in its trace, which is not written. For `printed` see
        `results`."""
        facts: list[pl.DataFrame] = []
        unheard = attempt._replace(report=FIRST.report)
        self._carry_out(scheduler, self.compiled(scheduler), facts.append, printed, unheard)
        return pl.concat(facts)

    def _replayed(
        self, scheduler: UnderTest, on_jobs: OnJobs | None = None, folder: Path | None = None
    ) -> ReplayedLog:
        # In Batsim's protocol, schedulers submit jobs and describe them after their end.
        be_late = not isinstance(scheduler, InProcess) or not self.log.numbers_rise
        # What is loaded for one of many replays serves the others.
        is_long = not self.few_jobs or len(self.log.jobs) * FACTS_OF_A_JOB >= LONG
        policy = None if self.log.cluster is None else self.log.cluster.policy
        has_them = on_jobs and isinstance(scheduler, InProcess) and policy and policy.multifactor
        priorities = PrioritiesAtStart(self.log) if has_them else None
        requeued = any(event.act == "requeue" for event in self.events.on_jobs)
        restart = self.checkpoint_interval_s or self.changes or requeued or (policy and policy.preemption)
        jobs_may = JobsMay(be_late, bool(restart))
        return ReplayedLog(self.log, scheduler.label, jobs_may, is_long, on_jobs, folder, priorities)

    def _carry_out(
        self,
        scheduler: UnderTest,
        compiled: CompiledReplay | None,
        on_facts: Callable[[pl.DataFrame], None],
        printed: Path,
        attempt: Attempt,
        on_decisions: Callable[[pl.DataFrame], None] | None = None,
    ) -> None:
        """Replay the log; facts and decisions are passed on in parts, as rows of trace and timings."""
        run, n_facts, n_decisions = RunKey(0, 0, scheduler.label), 0, 0
        if compiled is not None:
            from sil.world.core.engine import Stuck  # the harness alone does not load it

            try:
                for chunk in compiled.chunks(self.arriving, run):
                    on_facts(chunk.facts)
                    n_facts += len(chunk.facts)
                    if on_decisions is not None:
                        on_decisions(of_run(decided := chunk.decisions(), *run, TIMINGS_SCHEMA))
                        n_decisions += len(decided)
                    attempt.report(chunk.n_arrived)
                    self.log.pages.forget()
                return
            except Stuck:  # the harness, which notes the same facts again, finds out for what jobs wait
                on_facts = _after(n_facts, on_facts)
                on_decisions = on_decisions and _after(n_decisions, on_decisions)
        decisions: list[float] = []

        def pass_decisions() -> None:
            if decisions and on_decisions is not None:
                on_decisions(timings_frame(decisions, run).with_columns(pl.col("cpu_s").fill_nan(None)))
            decisions.clear()

        def pass_on(table: pl.DataFrame) -> None:
            on_facts(of_run(table, *run))
            pass_decisions()

        follow, most_mb = partial(self._follow, scheduler), self.memory_limit_mb
        with hosted(follow, [scheduler], printed, most_mb, attempt) as host:
            simulation = self._simulation(pass_on, attempt.report)
            simulation.run(self._managed(simulation, scheduler, host, printed, decisions), host)
        simulation.world.trace.close()
        pass_decisions()

    def _follow(self, scheduler: UnderTest, host: Host) -> None:
        """The same run without results, where a scheduler answers."""
        simulation = self._simulation(lambda facts: None)
        simulation.run(self._managed(simulation, scheduler, host, Path(os.devnull)), host)

    def check(self, schedulers: Sequence[UnderTest]) -> None:
        """Raise UserError if the compiled engine is asked for and cannot run one of these schedulers, and
        for settings that have no effect on any of them."""
        for option, is_given in (
            ("--slurm-step", self.slurm_step_s != ReplaySettings.slurm_step_s),
            ("--pause-at", self.pause_at_s is not None),
        ):
            if is_given and not controllers(schedulers):
                raise UserError(
                    f"{given(option).removesuffix('=')} is for Slurm's controller; add "
                    f"{given('--scheduler', 'slurm')}, or leave it out"
                )
        if self.checkpoint_cost_s and self.checkpoint_interval_s is None:
            raise UserError(
                f"{given('--checkpoint-cost').removesuffix('=')} has no effect without "
                f"{given('--checkpoint-interval').removesuffix('=')}; give both"
            )
        for name in ("expiry", "unkept"):
            chosen = getattr(self, name)
            if chosen is not getattr(ReplaySettings, name) and DUE_IN_S not in self.log.jobs.columns:
                raise UserError(
                    f"{given(f'--{name}', chosen)} has no effect, since the jobs of {self.log.name} have no "
                    f"deadlines; draw some with {given('--deadlines', 'LOW:HIGH')}"
                )
        for _, why in unable(self.what_happens, bool(self.log.after), self.unkept, schedulers):
            raise UserError(why)
        others = [each for each in schedulers if not isinstance(each, SlurmProgram)]
        if others and self.events.on_nodes and self.log.cluster is None:
            raise UserError(
                f"there are events on nodes, and the processors of {self.log.name} are no nodes for "
                f"'{others[0].label}'; name them with {given('--nodes', 'slurm.conf')}, or name slurm alone"
            )
        for scheduler in schedulers:
            if (
                self.log.cluster is None
                and isinstance(scheduler, InProcess)
                and scheduler.spec.is_for_requests
            ):
                raise scheduler.spec.unusable(
                    f" is for nodes with CPUs; name them with {given('--nodes', 'slurm.conf')}"
                )
            self.compiled(scheduler)

    def compiled(self, scheduler: UnderTest) -> CompiledReplay | None:
        """The compiled replay under a scheduler; None if it is one for the harness. Raises UserError."""
        is_auto = self.engine is Engine.AUTO
        if self.engine is Engine.HARNESS or (is_auto and len(self.log.jobs) < self.few_jobs):
            return None
        from sil.runs.compiled import CompiledReplay

        compiled = self._not_compiled or CompiledReplay.of(
            self.log, scheduler, self.estimates, ORDERS[self.order], self.changes
        )
        if not isinstance(compiled, str):
            return replace(compiled, events=self.eligibility, checkpoints=self.checkpoints)
        if is_auto:
            return None
        raise UserError(
            f"scheduler '{scheduler.label}': {compiled}; replay it with {given('--engine', 'harness')}"
        )

    @property
    def _not_compiled(self) -> str | None:
        """Why no scheduler can be replayed by the compiled engine; None if some can."""
        if self.decision_cost != NONE:
            return "decisions that cost simulated time are not compiled"
        if self.reasons:
            return "reasons for waiting are not compiled"
        if self.unkept is not Unkept.ACCEPTED:
            return "admission by forecast is not compiled"
        if self.eligibility is not None and not self.log.numbers_rise:
            return "conditions of jobs that do not arrive in order of number are not compiled"
        # All times of a replay, and what schedulers estimate then, are less.
        longest_s = LONGEST_S
        for part in self.log.parts():
            submit_s, run_s, estimate_s = (part[name].to_numpy() for name in _TIMES)
            longest_s += submit_s.max(initial=0.0) + run_s.sum() + estimate_s.max(initial=0.0)
        if longest_s > EXACT_S:
            return f"its jobs may take {longest_s:.0e} s, in which seconds are not exact"
        return None

    @property
    def arriving(self) -> pl.DataFrame:
        """The jobs of the log, as they arrive in this order of events."""
        later_s, jobs = SUBMITTED_LATER_S.get(self.order), self.log.jobs
        if (every := self.checkpoints) is not None and every.cost_s:
            times_s = pl.col("run_s", "estimate_s")  # as in `Checkpoints.run_s`
            n = ((times_s / every.interval_s).ceil() - 1).clip(0)
            jobs = jobs.with_columns(times_s + every.cost_s * n)
        return jobs if later_s is None else jobs.with_columns(pl.col("submit_s") + later_s)

    def steps(
        self, scheduler: UnderTest, on_facts: Callable[[pl.DataFrame], None], printed: Path
    ) -> tuple[World, Iterator[None]]:
        """The world of the replay under a scheduler, and its events: the iterator stops before each. Facts
        are passed on when the trace of the world is closed. For `printed` see `results`."""
        simulation, host = self._simulation(on_facts), here([scheduler])
        return simulation.world, simulation.steps(self._managed(simulation, scheduler, host, printed), host)

    @cached_property
    def changes(self) -> tuple[TimedChange, ...]:
        """What happens to the nodes. Raises UserError."""
        return () if self.log.cluster is None else changes_of(self.events, self.log.cluster)

    @property
    def is_foreseen(self) -> bool:
        """Whether forecasts that admit jobs foresee why runs are stopped; without any, they need not."""
        policy = None if self.log.cluster is None else self.log.cluster.policy
        return self.unkept is Unkept.ACCEPTED or policy is None or policy.preemption is None

    @property
    def checkpoints(self) -> Checkpoints | None:
        interval_s = self.checkpoint_interval_s
        return None if interval_s is None else Checkpoints(interval_s, self.checkpoint_cost_s)

    @cached_property
    def what_happens(self) -> Events:
        """The events, and when jobs expire."""
        jobs = self.log.jobs
        if self.expiry is Expiry.NEVER or DUE_IN_S not in jobs.columns:
            return self.events
        return self.events.with_expiry(jobs.select("job", "submit_s", DUE_IN_S, "estimate_s").iter_rows())

    @cached_property
    def eligibility(self) -> Events | None:
        """The events and conditions that make jobs ineligible at times; None if there are none."""
        return self.what_happens.of_eligibility(self.log, SUBMITTED_LATER_S.get(self.order, 0.0))

    @property
    def ask_twice(self) -> bool:
        return self.determinism_check

    def cost_of(self, scheduler: str) -> str:
        return self.decision_cost

    def _simulation(
        self, on_facts: Callable[[pl.DataFrame], None], on_arrivals: Callable[[int], None] = lambda n: None
    ) -> SiteRun:
        machine = LoggedMachine(self, on_arrivals)
        hindrances = None if self.checkpoints is None else Hindrances(checkpoints=self.checkpoints)
        return SiteRun(machine, Disturbances(ORDERS[self.order], hindrances=hindrances), on_facts)

    def _managed(
        self,
        simulation: SiteRun,
        scheduler: UnderTest,
        host: Host,
        printed: Path,
        decisions: list[float] | None = None,
    ) -> AbstractContextManager[Manager]:
        """The resource manager of the replay. Measured decisions are added to `decisions`."""
        run, seed = (0, 0, scheduler.label), RandomStreams(self.seed).scheduler_seed
        # Reading the CPU time takes longer than most of these decisions.
        cells = [] if decisions is None else decisions
        asking = Supervision.of(self, run, host, simulation.world, cells, seed, cpu_time=None)
        return simulation.managed(scheduler, asking, printed)


def _after(n: int, on_rows: Callable[[pl.DataFrame], None]) -> Callable[[pl.DataFrame], None]:
    """Passes on the rows of tables that come after the first `n`."""

    def take(table: pl.DataFrame) -> None:
        nonlocal n
        rest = table[n:]
        n = max(n - len(table), 0)
        if len(rest):
            on_rows(rest)

    return take


class LoggedMachine(FreeNodesModel):
    """The machine of a log, with its jobs."""

    def __init__(self, replay: Replay, on_arrivals: Callable[[int], None] = lambda n: None) -> None:
        log = replay.log
        super().__init__(log.cluster, log.processors)
        runs = LoggedRuns(
            replay.arriving, on_arrivals, log.requests, log.users, log.job_classes, charged=log.charged
        )
        self.jobs, self.n_jobs = runs.arrivals(), runs.total
        self.run_s = lambda job, nodes: runs.run_s(job)
        self.run_times = run_times_by(replay.estimates, runs.run_s)
        self.changes, self.events, self.unkept = replay.changes, replay.eligibility, replay.unkept
        self.unsuccessful = frozenset(map(int, log.unsuccessful)) if self.events else ()
        self.may_fail = any(isinstance(change, StateChange) for _, change in self.changes)
        self._replay, self._runs = replay, runs

    def batsim_nodes(self, ports: OnFreeNodes) -> NumberedNodes:
        from sil.batsim.nodes import identical_nodes

        return identical_nodes(self.n_nodes, self.run_times, self._runs)

    def slurm_world(self, ports: OnFreeNodes, folder: Path) -> SlurmWorld:
        from sil.slurm.queries import STATEMENTS

        replay = self._replay
        return replace(
            slurm_world(replay.log, replay.estimates, self.run_times),
            step_s=replay.slurm_step_s,
            pause_at_s=inf if replay.pause_at_s is None else replay.pause_at_s,
            events=replay.what_happens,
            statements=folder / STATEMENTS if replay.slurm_statements else None,
        )
