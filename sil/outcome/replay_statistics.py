"""The statistics of the jobs of a replayed log, which arrive in parts, and of what waits and is idle."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sil.outcome.exact_summary import ExactSum, ExactSummary
from sil.outcome.finished_jobs import places_of
from sil.outcome.jobs import BOUND_S, ENDINGS, per_processor_slowdown
from sil.outcome.metrics import GPU_UTILISATION, MAKESPAN, UTILISATION
from sil.trace.fact_columns import FactColumns
from sil.trace.facts import CODES, Fact

_SUMMARISED = ("waiting_time", "turnaround_time", "bounded_slowdown")
_NEEDED = (
    *_SUMMARISED,
    "success",
    "stretch",
    "requested_number_of_resources",
    "execution_time",
    "submission_time",
    "finish_time",
)


class Measured(NamedTuple):
    """The numbers of the jobs that count, and the times of their first and last submission: utilisation is
    that of this time, by all jobs, and there is no makespan."""

    jobs: Sequence[int]
    from_s: float
    until_s: float


class ReplayStatistics:
    """Of jobs with the columns of Batsim's jobs.csv and bounded_slowdown; if there are GPUs, also
    requested_gpus. What is too large for memory is kept in `folder`. All jobs count, unless some are
    `measured`."""

    def __init__(
        self,
        processors: int,
        gpus: int = 0,
        folder: Path | None = None,
        measured: Measured | None = None,
        bound_s: float = BOUND_S,
    ) -> None:
        self._bound_s = bound_s
        self._measured = measured
        self._processors = processors
        self._gpus = gpus
        self._summaries = {name: ExactSummary(folder) for name in _SUMMARISED}
        self._stretch, self._most_stretch = ExactSum(), -inf
        self._computing, self._gpu_computing = ExactSum(), ExactSum()
        """Seconds of processors, and of GPUs."""
        self._per_processor, self._area, self._weighted_wait = ExactSum(), ExactSum(), ExactSum()
        """Slowdowns, processor-seconds of jobs, and waiting times times these."""
        self.n = self._successes = 0
        self._begins_s, self._ends_s = inf, 0.0

    @property
    def columns(self) -> list[str]:
        """Those that `add` needs."""
        of_part = [] if self._measured is None else ["job_id", "starting_time"]
        return [*_NEEDED, *of_part, *(["requested_gpus"] if self._gpus else [])]

    def add(self, jobs: pl.DataFrame) -> None:
        """More jobs."""
        ran_s = pl.col("execution_time")
        if self._measured is not None:
            from_s, until_s = self._measured.from_s, self._measured.until_s
            ran_s = pl.min_horizontal("finish_time", until_s) - pl.max_horizontal("starting_time", from_s)
        self._computing.add(_used(jobs, "requested_number_of_resources", ran_s))
        if self._gpus:
            self._gpu_computing.add(_used(jobs, "requested_gpus", ran_s))
        if self._measured is not None:
            jobs = jobs.filter(pl.col("job_id").is_in(self._measured.jobs))
        if jobs.is_empty():
            return
        for name, summary in self._summaries.items():
            summary.add(jobs[name].to_numpy())
        area = jobs["requested_number_of_resources"] * jobs["execution_time"]
        self._area.add(area.to_numpy())
        self._weighted_wait.add((area * jobs["waiting_time"]).to_numpy())
        self._per_processor.add(jobs.select(per_processor_slowdown(self._bound_s)).to_series().to_numpy())
        self.n += len(jobs)
        self._successes += int(jobs["success"].sum())
        self._stretch.add(jobs["stretch"].to_numpy())
        self._most_stretch = max(self._most_stretch, float(jobs["stretch"].max()))  # type: ignore[arg-type]
        self._begins_s = min(self._begins_s, float(jobs["submission_time"].min()))  # type: ignore[arg-type]
        self._ends_s = max(self._ends_s, float(jobs["finish_time"].max()))  # type: ignore[arg-type]

    @property
    def metrics(self) -> dict[str, float]:
        """`sil.outcome.metrics.REPLAY_METRICS`; none without jobs."""
        if not self.n:
            return {}
        found = {}
        for name, summary in self._summaries.items():
            found[f"{name}_mean"] = summary.mean
            found[f"{name}_median"], found[f"{name}_p95"] = summary.quantile(0.5), summary.quantile(0.95)
            found[f"{name}_max"] = summary.max
        found["per_processor_slowdown_mean"] = self._per_processor.mean
        if self._area.sum > 0.0:
            found["weighted_waiting_time_mean"] = self._weighted_wait.sum / self._area.sum
        if self._measured is None:
            found[MAKESPAN.key] = self._ends_s - self._begins_s
        begins_s, ends_s = self.span_s
        if (span_s := ends_s - begins_s) > 0.0:
            found[UTILISATION.key] = 100.0 * self._computing.sum / (self._processors * span_s)
            if self._gpus:
                found[GPU_UTILISATION.key] = 100.0 * self._gpu_computing.sum / (self._gpus * span_s)
        return found

    @property
    def span_s(self) -> tuple[float, float]:
        """The time of which utilisation is a share."""
        if self._measured is not None:
            return self._measured.from_s, self._measured.until_s
        return self._begins_s, self._ends_s

    @property
    def computing_s(self) -> float:
        """Processor-seconds that runs held in this time."""
        return self._computing.sum

    def schedule(self, n_jobs: int, scheduling_s: float) -> pl.DataFrame:
        """The one row of Batsim's schedule.csv, of `n_jobs` that arrived or were to. Energy and states of
        machines are not modelled: -1 and 0."""
        n, successes, ends_s, computing_s = self.n, self._successes, self._ends_s, self._computing.sum
        turnaround, waiting = self._summaries["turnaround_time"], self._summaries["waiting_time"]
        row = {
            "batsim_version": "sil",
            "consumed_joules": -1.0,
            "makespan": ends_s,
            "max_slowdown": self._most_stretch if n else None,
            "max_turnaround_time": turnaround.max if n else None,
            "max_waiting_time": waiting.max if n else None,
            "mean_slowdown": self._stretch.mean if n else None,
            "mean_turnaround_time": turnaround.mean if n else None,
            "mean_waiting_time": waiting.mean if n else None,
            "nb_computing_machines": self._processors,
            "nb_grouped_switches": 0,
            "nb_jobs": n_jobs,
            "nb_jobs_finished": n,
            "nb_jobs_killed": n - successes,
            "nb_jobs_success": successes,
            "nb_machine_switches": 0,
            "scheduling_time": scheduling_s,
            "simulation_time": scheduling_s,
            "success_rate": successes / n_jobs,
            "time_computing": computing_s,
            "time_idle": self._processors * ends_s - computing_s,
            "time_sleeping": 0.0,
            "time_switching_off": 0.0,
            "time_switching_on": 0.0,
        }
        return pl.DataFrame([row])


def _used(jobs: pl.DataFrame, what: str, ran_s: pl.Expr) -> NDArray[np.float64]:
    return jobs.select((pl.col(what) * ran_s.clip(0.0)).cast(pl.Float64)).to_series().to_numpy()


# -- the backlog ---------------------------------------------------------------------------------------------

BACKLOG_COLUMNS = ("time_s", "event", "job", "run", "resource", "tasks")
"""Of facts, those that are read."""

_WAITING = np.zeros(len(CODES), np.int64)
"""By code of an event: by how many more jobs wait after it. One whose run is preempted or lost waits again,
until it is started or refused."""
_WAITING[CODES[Fact.JOB_ARRIVED]] = 1
_WAITING[[CODES[Fact.JOB_REFUSED], CODES[Fact.RUN_STARTED]]] = -1
_WAITING[[CODES[ending] for ending in ENDINGS if ending is not Fact.RUN_ENDED]] = 1
_IS_ENDING = np.isin(np.arange(len(CODES)), [CODES[ending] for ending in ENDINGS])

Times = NDArray[np.float64]


class Backlog:
    """Follows the facts of a replay. `capacities` are the processors, or cores, of each machine; `partitions`
    has the columns job and partition, or none; only jobs `measured`, and the time `within_s`, count."""

    def __init__(
        self,
        capacities: NDArray[np.int64],
        partitions: pl.DataFrame | None = None,
        measured: NDArray[np.int64] | None = None,
        within_s: tuple[float, float] = (-inf, inf),
    ) -> None:
        self._capacities, self._measured, self._within_s = capacities, measured, within_s
        self._partitions = None
        if partitions is not None:
            codes = partitions["partition"].rank("dense").fill_null(0).cast(pl.Int64).to_numpy()
            self._partitions = partitions["job"].to_numpy(), codes
        self._now_s, self._idle, self._up, self._n_waiting = 0.0, 0, int(capacities.sum()), 0
        self._busy = 0
        self._running = np.zeros((2, 0), np.int64)
        """Runs, and how much each holds."""
        self._waiting = np.zeros(0, np.int64)
        """The jobs that have not started, in order of submission."""
        self._idle_s = ExactSum()
        """Processor-seconds that were idle while jobs waited."""
        self._down_since: dict[int, float] = {}
        self._outages: list[tuple[float, float, int]] = []
        """From, until, and how much was down."""
        self._n_started = self._n_overtaking = 0

    def add(self, facts: FactColumns) -> None:
        """The next facts."""
        if not len(facts):
            return
        self._overtake(facts)
        up = self._up + np.cumsum(self._changes(facts))
        busy = self._busy + np.cumsum(self._held(facts))
        waiting = self._n_waiting + np.cumsum(_WAITING[facts.event])
        idle = np.where(waiting > 0, np.maximum(up - busy, 0), 0)
        times = np.concatenate([[self._now_s], facts.time_s]).clip(*self._within_s)
        self._idle_s.add(np.concatenate([[self._idle], idle[:-1]]) * np.diff(times))
        self._now_s, self._idle = float(facts.time_s[-1]), int(idle[-1])
        self._up, self._busy, self._n_waiting = int(up[-1]), int(busy[-1]), int(waiting[-1])

    def _changes(self, facts: FactColumns) -> NDArray[np.int64]:
        """By how much more is up after each fact."""
        changes = np.zeros(len(facts), np.int64)
        down = CODES[Fact.MACHINE_DOWN]
        for place in np.flatnonzero((facts.event == down) | (facts.event == CODES[Fact.MACHINE_UP])).tolist():
            machine, time_s = int(facts.resource[place]), float(facts.time_s[place])
            capacity = int(self._capacities[machine])
            if facts.event[place] == down and machine not in self._down_since:
                self._down_since[machine] = time_s
                changes[place] = -capacity
            elif facts.event[place] != down and machine in self._down_since:
                self._outages.append((self._down_since.pop(machine), time_s, capacity))
                changes[place] = capacity
        return changes

    def _held(self, facts: FactColumns) -> NDArray[np.int64]:
        """By how much more is held by runs after each fact."""
        held = np.zeros(len(facts), np.int64)
        starts, ends = facts.places(Fact.RUN_STARTED), np.flatnonzero(_IS_ENDING[facts.event])
        held[starts] = facts.tasks[starts]
        started = np.array([facts.run[starts], facts.tasks[starts]], np.int64)
        running = np.hstack([self._running, started])
        of_end = places_of(facts.run[ends], running[0])
        held[ends] = np.where(of_end >= 0, -running[1, of_end], 0) if running.size else 0
        stays = np.ones(running.shape[1], np.bool_)
        stays[of_end[of_end >= 0]] = False
        self._running = running[:, stays]
        return held

    def _overtake(self, facts: FactColumns) -> None:
        """Count the jobs that start for the first time, and those that do while one waits that was submitted
        earlier (to the same partitions)."""
        leaving = np.flatnonzero(
            (facts.event == CODES[Fact.RUN_STARTED]) | (facts.event == CODES[Fact.JOB_REFUSED])
        )[::-1]
        waiting = np.concatenate([self._waiting, facts.job[facts.places(Fact.JOB_ARRIVED)]])
        place = places_of(facts.job[leaving], waiting)
        leaving, place = leaving[place >= 0], place[place >= 0]
        leaves_s = np.full(len(waiting), inf)
        leaves_s[place] = facts.time_s[leaving]  # the first of several counts, which is the last one here
        is_start = np.zeros(len(waiting), np.bool_)
        is_start[place] = facts.event[leaving] == CODES[Fact.RUN_STARTED]
        if self._measured is not None:
            is_start &= np.isin(waiting, self._measured)
        self._n_started += int(is_start.sum())
        for partition in self._parts_of(waiting):
            latest_s = np.maximum.accumulate(leaves_s[partition])
            self._n_overtaking += int((is_start[partition] & (leaves_s[partition] < latest_s)).sum())
        self._waiting = waiting[~np.isfinite(leaves_s)]

    def _parts_of(self, jobs: NDArray[np.int64]) -> list[NDArray[np.bool_] | slice]:
        if self._partitions is None:
            return [slice(None)]
        known, codes = self._partitions
        of_jobs = codes[places_of(jobs, known)]
        return [of_jobs == code for code in np.unique(of_jobs)]

    def metrics(self, begins_s: float, ends_s: float, computing_s: float) -> dict[str, float]:
        """Those of a replay whose runs held `computing_s` processor-seconds between two times."""
        found = {}
        if self._n_started:
            found["backfilled_share"] = 100.0 * self._n_overtaking / self._n_started
        available_s = float(self._capacities.sum()) * (ends_s - begins_s)
        if available_s > 0.0:
            found["loss_of_capacity"] = 100.0 * self._idle_s.sum / available_s
        still = [(since_s, inf, int(self._capacities[n])) for n, since_s in self._down_since.items()]
        down_s = sum(
            max(min(until_s, ends_s) - max(from_s, begins_s), 0.0) * capacity
            for from_s, until_s, capacity in (*self._outages, *still)
        )
        if 0.0 < down_s < available_s:
            found["utilisation_of_up"] = 100.0 * computing_s / (available_s - down_s)
        return found
