"""What waits and what is idle during a run, followed while its facts arrive in parts, and the metrics of
that."""

from __future__ import annotations

from math import inf

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sil.outcome.finished_jobs import COLUMNS, IS_ENDING, places_of
from sil.outcome.jobs import ENDINGS
from sil.outcome.statistics import ExactSum
from sil.trace.facts import CODES, RUN, Fact, FactColumns, RunDescription
from sil.trace.stream import Schema

_WAITING = np.zeros(len(CODES), np.int64)
"""How many more jobs wait after an event, by its code. A job whose run is preempted or lost waits again,
until it is started or refused."""
_WAITING[CODES[Fact.JOB_ARRIVED]] = 1
_WAITING[[CODES[Fact.JOB_REFUSED], CODES[Fact.RUN_STARTED]]] = -1
_WAITING[[CODES[ending] for ending in ENDINGS if ending is not Fact.RUN_ENDED]] = 1


class Backlog:
    """Follows the facts of a run. `capacities` are the processors, or cores, of each machine; `partitions`
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
        """Outages: from, until, and how much was down."""
        self._n_started = self._n_overtaking = 0
        self._ineligible: set[int] = set()

    def add(self, facts: FactColumns) -> None:
        """Add the next facts."""
        begin = 0
        facts, ends = self._of_queue(facts)
        for end in (*ends, len(facts)):
            self._add(facts.part(begin, end))
            begin = end

    def _of_queue(self, facts: FactColumns) -> tuple[FactColumns, list[int]]:
        """The facts with the codes of what happens to the queue: jobs arrive there when they are eligible,
        and are refused when they are held. Also where a part ends after which they may arrive again."""
        leaves, joins = facts.places(Fact.JOB_INELIGIBLE), facts.places(Fact.JOB_ELIGIBLE)
        if not len(leaves) and not self._ineligible:
            return facts, []
        event, held = facts.event.copy(), list[int]()
        arrived, refused, neither = (
            CODES[fact] for fact in (Fact.JOB_ARRIVED, Fact.JOB_REFUSED, Fact.JOB_DESCRIBED)
        )
        changes = np.concatenate([leaves, joins, facts.places(Fact.JOB_REFUSED)])
        for place in np.sort(changes).tolist():
            job, code = int(facts.job[place]), event[place]
            if code == CODES[Fact.JOB_INELIGIBLE]:
                self._ineligible.add(job)
                arrives = place and event[place - 1] == arrived and facts.job[place - 1] == job
                event[place] = neither if arrives else refused
                if arrives:
                    event[place - 1] = neither
                else:
                    held.append(place + 1)
            elif job in self._ineligible:
                self._ineligible.discard(job)
                event[place] = arrived if code == CODES[Fact.JOB_ELIGIBLE] else neither
        return facts.with_events(event), held

    def _add(self, facts: FactColumns) -> None:
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
        """How much more is up after each fact."""
        changes = np.zeros(len(facts), np.int64)
        down = CODES[Fact.MACHINE_DOWN]
        for place in np.flatnonzero((facts.event == down) | (facts.event == CODES[Fact.MACHINE_UP])).tolist():
            machine, time_s, is_down = (
                int(facts.resource[place]),
                facts.time_s[place],
                facts.event[place] == down,
            )
            capacity = int(self._capacities[machine])
            if is_down != (machine in self._down_since):
                changes[place] = -capacity if is_down else capacity
                if is_down:
                    self._down_since[machine] = time_s
                else:
                    self._outages.append((self._down_since.pop(machine), time_s, capacity))
        return changes

    def _held(self, facts: FactColumns) -> NDArray[np.int64]:
        """How much more runs hold after each fact."""
        held = np.zeros(len(facts), np.int64)
        starts, ends = facts.places(Fact.RUN_STARTED), np.flatnonzero(IS_ENDING[facts.event])
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
        parts: list[NDArray[np.bool_] | slice] = [slice(None)]
        if self._partitions is not None:
            known, codes = self._partitions
            of_jobs = codes[places_of(waiting, known)]
            parts = [of_jobs == code for code in np.unique(of_jobs)]
        for partition in parts:
            latest_s = np.maximum.accumulate(leaves_s[partition])
            self._n_overtaking += int((is_start[partition] & (leaves_s[partition] < latest_s)).sum())
        self._waiting = waiting[~np.isfinite(leaves_s)]

    def metrics(self, begins_s: float, ends_s: float, computing_s: float) -> dict[str, float]:
        """The metrics of a run whose runs held `computing_s` processor-seconds between two times."""
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


def backlog_metrics(facts: pl.DataFrame, spans: pl.DataFrame, description: RunDescription) -> pl.DataFrame:
    """The metrics of the backlog of each run of the harness; `spans` has their columns begins_s, ends_s and
    computing_s. Null where they do not apply: jobs that are mapped to machines have no common queue, and
    time-shared nodes are not idle because of one run."""
    schema: Schema = {**{name: facts.schema[name] for name in RUN}, **dict.fromkeys(OF_A_BACKLOG, pl.Float64)}
    is_down = (facts["event"] == Fact.MACHINE_DOWN).any()
    has_nodes = bool(description.node_cores)
    if description.shared_cluster is not None or not (has_nodes or is_down):
        return pl.DataFrame(schema=schema)
    capacities = np.array(description.node_cores or [1] * description.n_machines, np.int64)
    of_runs = facts.partition_by(RUN, as_dict=True)
    rows = []
    for *run, begins_s, ends_s, computing_s in spans.select(*RUN, "begins_s", "ends_s", "computing_s").rows():
        of_run = of_runs[tuple(run)]
        arrived = of_run.filter(pl.col("event") == Fact.JOB_ARRIVED)
        queues = arrived.select("job", partition="queue").unique("job", keep="first").sort("job")
        backlog = Backlog(capacities, queues)
        backlog.add(FactColumns(of_run.select(COLUMNS)))
        found = backlog.metrics(begins_s, ends_s, computing_s)
        known = OF_A_BACKLOG if has_nodes else OF_A_BACKLOG[-1:]
        rows.append((*run, *(found.get(key) if key in known else None for key in OF_A_BACKLOG)))
    return pl.DataFrame(rows, schema=schema, orient="row")


OF_A_BACKLOG = ("backfilled_share", "loss_of_capacity", "utilisation_of_up")
