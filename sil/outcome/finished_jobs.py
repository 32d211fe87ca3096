"""The jobs of a replay that have finished, while its facts arrive in parts."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sil.outcome.jobs import BOUND_S, ENDINGS, batsim_jobs
from sil.trace.fact_columns import FactColumns, Places
from sil.trace.facts import CODES, Fact
from sil.trace.held import N_GPUS, texts_of
from sil.trace.recorder import ROW

COLUMNS = (*ROW, "tasks")
"""Of facts, those that are read are among these."""
WIDE = 2**16
"""Numbers in a range so wide, or eight times as wide as there are numbers, are sorted; others get a table."""
_OF_A_DESCRIPTION = {"job": pl.Int64, "metadata": pl.String}
IS_ENDING = np.isin(np.arange(len(CODES)), [CODES[ending] for ending in ENDINGS])
"""By code of an event."""

Rows = dict[str, Any]
"""Columns of the same length: arrays of numbers; series of texts, and of numbers that may be null."""


class Wanted(StrEnum):
    """What finished jobs are for."""

    STATISTICS = "statistics"
    """Without the columns that only a table has, in any order."""
    TABLE = "table"
    """All columns, in order of number."""
    TABLE_AT_THE_END = "table at the end"
    """The same, where a lower number may arrive after a higher one, or a job may be described after it has
    finished; none is `ready` before the end."""


class FinishedJobs:
    """Follows the facts of a replay, whose jobs arrive once. A run that was preempted or lost is the job's
    last one if the job is refused thereafter; else the job runs again, and that run is the one in the table.

    It remembers the jobs that have arrived and not finished, and, for a table, those that have finished while
    a job with a lower number has not. `requested` has the column job and what jobs requested, in order of
    arrival.
    """

    def __init__(self, requested: pl.DataFrame, wanted: Wanted) -> None:
        self._wanted = wanted
        has_gpus = "requested_gpus" in requested.columns
        for_table = wanted is not Wanted.STATISTICS
        self._has_gpus = has_gpus
        self._to_arrive = requested
        if not for_table:
            self._to_arrive = requested[["job", *(["requested_gpus"] if has_gpus else [])]]
        self._arrived: list[Rows] = []
        """What jobs requested that have arrived and not finished, and their submission_time."""
        self._started: list[Rows] = []
        """The starts of runs that are not over."""
        self._stopped: list[Rows] = []
        """Runs that were preempted or lost: their starts and ends."""
        self._suspended: dict[int, float] = {}
        """Seconds in which runs were suspended; of those that are, less the time when they were."""
        self._described = pl.DataFrame(schema=_OF_A_DESCRIPTION)
        self._finished: list[Rows] = []

    def add(self, facts: FactColumns) -> None:
        """The next facts."""
        self._arrive(facts, facts.places(Fact.JOB_ARRIVED))
        self._are_described(facts, facts.places(Fact.JOB_DESCRIBED))
        arrived = _joined(self._arrived)
        started = _joined([*self._started, self._starts(facts, facts.places(Fact.RUN_STARTED))])
        over = np.flatnonzero(IS_ENDING[facts.event])
        end = places_of(started["run"], facts.run[over])
        is_over = end >= 0
        ends = over[end[is_over]]
        runs = _where(started, is_over) | {
            "finish_time": facts.time_s[ends],
            "was_killed": facts.event[ends] != CODES[Fact.RUN_ENDED],
        }
        runs["suspended_s"] = self._suspended_s(facts, runs)
        self._started = [_where(started, ~is_over)]
        refused = facts.job[facts.places(Fact.JOB_REFUSED)]
        last = self._last_runs(runs, refused)
        arrival = places_of(last["job"], arrived["job"])
        has_arrived = arrival >= 0
        self._finished.append(_at(arrived, arrival[has_arrived]) | _where(last, has_arrived))
        stays = np.ones(len(arrived["job"]), np.bool_)
        stays[arrival[has_arrived]] = False
        if len(refused):
            stays &= places_of(arrived["job"], refused) < 0
        self._arrived = [_where(arrived, stays)]

    def _starts(self, facts: FactColumns, places: Places) -> Rows:
        numbers: Rows = {
            "job": facts.job[places],
            "run": facts.run[places],
            "starting_time": facts.time_s[places],
            "tasks": facts.tasks[places],
        }
        if self._wanted is not Wanted.STATISTICS:
            numbers["machines"] = texts_of(*facts.held("machines", places))
        if self._has_gpus:
            numbers["gpus_had"] = facts.frame(["shares"], places).select(N_GPUS).to_series()
        return numbers

    def _suspended_s(self, facts: FactColumns, over: Rows) -> NDArray[np.float64]:
        """For how long the runs that are over were suspended."""
        found = self._suspended
        for fact, sign in ((Fact.RUN_STOPPED, -1.0), (Fact.RUN_CONTINUED, 1.0)):
            places = facts.places(fact)
            for run, time_s in zip(facts.run[places].tolist(), facts.time_s[places].tolist(), strict=True):
                found[run] = found.get(run, 0.0) + sign * time_s
        if not found:
            return np.zeros(len(over["run"]))
        spent = np.array([found.pop(run, 0.0) for run in over["run"].tolist()])
        # Stopped, and never continued: until the end of the run.
        return np.where(spent >= 0.0, spent, spent + over["finish_time"])

    def _last_runs(self, runs: Rows, refused: NDArray[np.int64]) -> Rows:
        """Of runs that are over, those with which their jobs are over; of `refused` jobs, the last one."""
        is_last = ~runs["was_killed"]
        ended = _where(runs, is_last)
        if is_last.all() and not self._stopped:
            return ended
        stopped = _joined([*self._stopped, _where(runs, ~is_last)])
        n = len(stopped["job"])
        _, from_the_end = np.unique(stopped["job"][::-1], return_index=True)
        stopped = _at(stopped, np.sort(n - 1 - from_the_end))  # the last one of each job
        is_refused = np.isin(stopped["job"], refused)
        waits = ~is_refused & ~np.isin(stopped["job"], ended["job"])
        self._stopped = [_where(stopped, waits)] if waits.any() else []
        return _joined([ended, _where(stopped, is_refused)])

    def _arrive(self, facts: FactColumns, places: Places) -> None:
        job, n = facts.job[places], len(places)
        requested = self._to_arrive[:n]
        numbers = requested["job"].to_numpy()
        if not np.array_equal(job, numbers):  # some are not in the log
            place = places_of(job, numbers)
            n = int((place >= 0).sum())
            requested = requested.select(_gathered(column, place) for column in requested)
        self._to_arrive = self._to_arrive[n:]
        more = {column.name: column for column in requested if column.name != "job"}
        self._arrived.append({"job": job, "submission_time": facts.time_s[places], **more})

    def _are_described(self, facts: FactColumns, places: Places) -> None:
        if len(places):
            described = facts.frame(["job", "detail"], places).rename({"detail": "metadata"})
            self._described = pl.concat([self._described, described]).unique("job", keep="last")

    def ready(self) -> pl.DataFrame:
        """Those before which none is missing; each is returned once."""
        none = _at(self._finished[0], np.zeros(0, np.int64))
        if self._wanted is Wanted.TABLE_AT_THE_END:
            return self._with_details(none)
        if self._wanted is Wanted.STATISTICS or not len(self._arrived[0]["job"]):
            rest, self._finished = self.rest(), [none]
            return rest
        least_open = self._arrived[0]["job"].min()
        ready, waiting = [none], list[Rows]()
        for part in self._finished:
            is_ready = part["job"] < least_open
            ready.append(_where(part, is_ready))
            waiting.append(_where(part, ~is_ready))
        self._finished = [part for part in waiting if len(part["job"])] or [none]
        return self._with_details(_in_order(ready))

    @property
    def has_more(self) -> bool:
        """Whether some have not been returned."""
        return any(len(part["job"]) for part in self._finished)

    def rest(self) -> pl.DataFrame:
        """The others, after the last facts."""
        if self._wanted is Wanted.STATISTICS:
            return self._with_details(_joined(self._finished))
        return self._with_details(_in_order(self._finished))

    def _with_details(self, jobs: Rows) -> pl.DataFrame:
        columns = {name: column for name, column in jobs.items() if name not in ("job", "run")}
        table = pl.DataFrame({"job_id": jobs["job"], **columns})
        if self._wanted is Wanted.STATISTICS:
            return table
        place = places_of(jobs["job"], self._described["job"].to_numpy())
        return table.with_columns(_gathered(self._described["metadata"], place))


def jobs_in(
    facts: pl.DataFrame, log: pl.DataFrame, cut: frozenset[int] = frozenset(), bound_s: float = BOUND_S
) -> pl.DataFrame:
    """The rows of `batsim_jobs`, in order of job id, of all facts of a replay. `log` has the columns job and
    estimate_s, in order of arrival."""
    jobs = FinishedJobs(log.select("job", requested_time="estimate_s"), Wanted.TABLE_AT_THE_END)
    jobs.add(FactColumns.of(facts, COLUMNS))
    return batsim_jobs(jobs.rest(), cut, bound_s=bound_s)


def _at(rows: Rows, places: Places) -> Rows:
    return {name: column[places] for name, column in rows.items()}


def _where(rows: Rows, is_kept: NDArray[np.bool_]) -> Rows:
    """These rows. All are the most frequent case, and need no copy."""
    return rows if is_kept.all() else _at(rows, np.flatnonzero(is_kept))


def _joined(parts: Sequence[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    return {
        name: pl.concat([part[name] for part in parts])
        if isinstance(column, pl.Series)
        else np.concatenate([part[name] for part in parts])
        for name, column in parts[0].items()
    }


def _in_order(parts: Sequence[Rows]) -> Rows:
    jobs = _joined(parts)
    return _at(jobs, np.argsort(jobs["job"], kind="stable"))


def places_of(wanted: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each of the wanted numbers is among `numbers`, which are different; -1 if it is not there."""
    if not len(numbers):
        return np.full(len(wanted), -1)
    least, most = int(numbers.min()), int(numbers.max())
    if most - least > WIDE + 8 * len(numbers):
        order = np.argsort(numbers, kind="stable")
        in_order = numbers[order]
        found = np.searchsorted(in_order, wanted).clip(max=len(numbers) - 1)
        return np.where(in_order[found] == wanted, order[found], -1)
    table = np.full(most - least + 2, -1)
    table[numbers - least] = np.arange(len(numbers))
    is_within = (wanted >= least) & (wanted <= most)
    return table[np.where(is_within, wanted - least, -1)]


def _gathered(values: pl.Series, places: NDArray[np.int64]) -> pl.Series:
    """The values at these places; null at -1."""
    found = pl.Series(places)
    return values.gather(found.set(found < 0, None))
