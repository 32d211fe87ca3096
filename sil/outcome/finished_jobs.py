"""The jobs of a replay that have finished, while its facts arrive in parts."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sil.outcome.jobs import GPUS_HAD
from sil.trace.facts import EVENTS, Fact

_CODES = {Fact(name): code for code, name in enumerate(EVENTS.categories)}
_OF_A_START = ("job", "run", "time_s", "machines", "tasks", "detail")
_OF_AN_ARRIVAL = {"job": pl.Int64, "submission_time": pl.Float64}
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
        self._requested = requested.clear()
        """Of jobs that have arrived, and have not finished."""
        self._arrived = pl.DataFrame(schema=_OF_AN_ARRIVAL)
        self._started: pl.DataFrame | None = None
        """The starts of runs that are not over."""
        self._described = pl.DataFrame(schema=_OF_A_DESCRIPTION)
        self._finished: list[pl.DataFrame] = []

    def add(self, facts: pl.DataFrame) -> None:
        """The next facts."""
        events = facts["event"].to_physical().to_numpy()
        arrivals = _those(facts, events == _CODES[Fact.JOB_ARRIVED])
        if len(arrivals):
            arrived = arrivals.select("job", submission_time="time_s")
            self._arrived = pl.concat([self._arrived, arrived])
            self._requested = pl.concat([self._requested, self._to_arrive[: len(arrived)]])
            self._to_arrive = self._to_arrive[len(arrived) :]
        descriptions = _those(facts, events == _CODES[Fact.JOB_DESCRIBED])
        if len(descriptions):
            described = pl.concat([self._described, descriptions.select("job", metadata="detail")])
            self._described = described.unique("job", keep="last")
        starts = _those(facts, events == _CODES[Fact.RUN_STARTED]).select(_OF_A_START)
        started = starts if self._started is None else pl.concat([self._started, starts])
        over = _those(
            facts, (events == _CODES[Fact.RUN_ENDED]) | (events == _CODES[Fact.RUN_PREEMPTED])
        ).select("run", "time_s", "event")
        end = places_of(started["run"].to_numpy(), over["run"].to_numpy())
        self._started = _those(started, end < 0)
        jobs = started["job"].to_numpy()
        arrival = places_of(jobs, self._arrived["job"].to_numpy())
        rows = np.flatnonzero((end >= 0) & (arrival >= 0))
        rows = rows[np.argsort(jobs[rows], kind="stable")]
        jobs, end, arrival = jobs[rows], end[rows], arrival[rows]
        requested = places_of(jobs, self._requested["job"].to_numpy())
        self._finished.append(
            started[rows]
            .select("machines", "tasks", "detail", job_id="job", starting_time="time_s")
            .with_columns(
                submission_time=self._arrived["submission_time"].gather(arrival),
                finish_time=over["time_s"].gather(end),
                ending=over["event"].gather(end),
                **{
                    name: gathered(self._requested[name], requested)
                    for name in self._requested.columns
                    if name != "job"
                },
            )
        )
        refused = _those(facts, events == _CODES[Fact.JOB_REFUSED])["job"].to_numpy()
        leaves = np.concatenate([jobs, refused])
        self._arrived, self._requested = (
            _those(table, places_of(table["job"].to_numpy(), leaves) < 0)
            for table in (self._arrived, self._requested)
        )

    def ready(self) -> pl.DataFrame:
        """Those before which none is missing, in order of number; each is returned once."""
        finished = self._in_order()
        open_jobs, n_ready = self._arrived["job"].to_numpy(), 0
        if not self._may_be_late:
            least_open = open_jobs.min(initial=np.iinfo(np.int64).max)
            n_ready = int(np.searchsorted(finished["job_id"].to_numpy(), least_open))
        self._finished = [finished[n_ready:]]
        return self._with_details(finished[:n_ready])

    def rest(self) -> pl.DataFrame:
        """The others, after the last facts."""
        finished, self._finished = self._in_order(), []
        return self._with_details(finished)

    def _in_order(self) -> pl.DataFrame:
        finished = pl.concat(self._finished)
        if len(self._finished) < 2:
            return finished
        return finished[np.argsort(finished["job_id"].to_numpy(), kind="stable")]

    def _with_details(self, jobs: pl.DataFrame) -> pl.DataFrame:
        number = jobs["job_id"].to_numpy()
        place = places_of(number, self._described["job"].to_numpy())
        return jobs.with_columns(gathered(self._described["metadata"], place), gpus_had=GPUS_HAD).drop(
            "detail"
        )


def _those(facts: pl.DataFrame, where: NDArray[np.bool_]) -> pl.DataFrame:
    return facts[np.flatnonzero(where)]


def places_of(wanted: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each of the wanted numbers is among `numbers`, which are different; -1 if it is not there."""
    if not len(numbers):
        return np.full(len(wanted), -1)
    order = np.argsort(numbers, kind="stable")
    in_order = numbers[order]
    found = np.searchsorted(in_order, wanted).clip(max=len(numbers) - 1)
    return np.where(in_order[found] == wanted, order[found], -1)


def gathered(values: pl.Series, places: NDArray[np.int64]) -> pl.Series:
    """The values at these places; null at -1."""
    found = pl.Series(places)
    return values.gather(found.set(found < 0, None))
