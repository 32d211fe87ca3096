"""The jobs of a replay that have finished, while its facts arrive in parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sil.outcome.jobs import GPUS_HAD
from sil.trace.facts import CODES, Fact

WIDE = 2**16
"""Numbers in a range so wide, or eight times as wide as there are numbers, are sorted; others get a table."""
_OF_A_START = ["job", "run", "time_s", "machines", "tasks", "detail"]
_OF_A_DESCRIPTION = {"job": pl.Int64, "metadata": pl.String}


class FinishedJobs:
    """Follows the facts of a replay, whose jobs arrive once and run once.

    It remembers the jobs that have arrived and not finished, and those that have finished while a job with a
    lower number has not. `requested` has the column job and what jobs requested, in order of arrival. Jobs
    `may_be_late` if a lower number may arrive after a higher one, or a job may be described after it has
    finished; then no job is `ready` before the end.
    """

    def __init__(self, requested: pl.DataFrame, may_be_late: bool) -> None:
        self._may_be_late = may_be_late
        self._to_arrive = requested
        self._arrived: list[pl.DataFrame] = []
        """What jobs requested that have arrived and not finished, and their submission_time."""
        self._started: list[pl.DataFrame] = []
        """The starts of runs that are not over."""
        self._described = pl.DataFrame(schema=_OF_A_DESCRIPTION)
        self._finished: list[pl.DataFrame] = []

    def add(self, facts: pl.DataFrame) -> None:
        """The next facts."""
        events = facts["event"].to_physical().to_numpy()
        self._arrive(facts, np.flatnonzero(events == CODES[Fact.JOB_ARRIVED]))
        self._are_described(facts, np.flatnonzero(events == CODES[Fact.JOB_DESCRIBED]))
        starts = facts[np.flatnonzero(events == CODES[Fact.RUN_STARTED]), _OF_A_START]
        arrived, started = pl.concat(self._arrived), pl.concat([*self._started, starts])
        is_over = (events == CODES[Fact.RUN_ENDED]) | (events == CODES[Fact.RUN_PREEMPTED])
        over = facts[np.flatnonzero(is_over), ["run", "time_s", "event"]]
        over.columns = ["run", "finish_time", "ending"]
        end = _places_of(started["run"].to_numpy(), over["run"].to_numpy())
        arrival = _places_of(started["job"].to_numpy(), arrived["job"].to_numpy())
        rows = np.flatnonzero((end >= 0) & (arrival >= 0))
        parts = started[rows], over[end[rows], 1:], arrived[arrival[rows], 1:]  # without run and job again
        self._finished.append(pl.concat(parts, how="horizontal"))
        self._started = [started[np.flatnonzero(end < 0)]]
        stays = np.ones(len(arrived), np.bool_)
        stays[arrival[rows]] = False
        if len(refused := facts["job"].gather(np.flatnonzero(events == CODES[Fact.JOB_REFUSED]))):
            stays &= _places_of(arrived["job"].to_numpy(), refused.to_numpy()) < 0
        self._arrived = [arrived[np.flatnonzero(stays)]]

    def _arrive(self, facts: pl.DataFrame, places: NDArray[np.int64]) -> None:
        arrived = facts[places, ["job", "time_s"]]
        arrived.columns = ["job", "submission_time"]
        n = len(arrived)
        requested = self._to_arrive[:n]
        if not arrived["job"].equals(requested["job"]):  # some are not in the log
            place = _places_of(arrived["job"].to_numpy(), requested["job"].to_numpy())
            n = int((place >= 0).sum())
            requested = requested.select(_gathered(column, place) for column in requested)
        self._to_arrive = self._to_arrive[n:]
        columns = [name for name in requested.columns if name != "job"]
        self._arrived.append(pl.concat([arrived, requested[:, columns]], how="horizontal"))

    def _are_described(self, facts: pl.DataFrame, places: NDArray[np.int64]) -> None:
        if len(places):
            described = facts[places, ["job", "detail"]].rename({"detail": "metadata"})
            self._described = pl.concat([self._described, described]).unique("job", keep="last")

    def ready(self) -> pl.DataFrame:
        """Those before which none is missing, in order of number; each is returned once."""
        if self._may_be_late:
            return self._with_details(self._finished[0].clear())
        if self._arrived[0].is_empty():
            rest, self._finished = self.rest(), [self._finished[0].clear()]
            return rest
        least_open = self._arrived[0]["job"].to_numpy().min()
        ready, waiting = [self._finished[0].clear()], list[pl.DataFrame]()
        for part in self._finished:
            numbers = part["job"].to_numpy()
            ready.append(part[np.flatnonzero(numbers < least_open)])
            waiting.append(part[np.flatnonzero(numbers >= least_open)] if len(ready[-1]) else part)
        self._finished = [part for part in waiting if len(part)] or [ready[0]]
        return self._with_details(_in_order(ready))

    @property
    def has_more(self) -> bool:
        """Whether some have not been returned."""
        return any(map(len, self._finished))

    def rest(self) -> pl.DataFrame:
        """The others, after the last facts."""
        return self._with_details(_in_order(self._finished))

    def _with_details(self, jobs: pl.DataFrame) -> pl.DataFrame:
        metadata: pl.Expr | pl.Series = pl.lit(None, pl.String).alias("metadata")
        if len(self._described):
            place = _places_of(jobs["job"].to_numpy(), self._described["job"].to_numpy())
            metadata = _gathered(self._described["metadata"], place)
        return jobs.select(
            pl.exclude("job", "run", "time_s", "detail"),
            metadata,
            job_id="job",
            starting_time="time_s",
            gpus_had=GPUS_HAD,
        )


def _in_order(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    jobs = pl.concat(parts)
    return jobs[np.argsort(jobs["job"].to_numpy(), kind="stable")]


def _places_of(wanted: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
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
