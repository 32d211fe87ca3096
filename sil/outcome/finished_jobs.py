"""The jobs of a replay that have finished, while its facts arrive in parts."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sil.outcome.jobs import ENDINGS, GPUS_HAD
from sil.trace.facts import CODES, Fact

WIDE = 2**16
"""Numbers in a range so wide, or eight times as wide as there are numbers, are sorted; others get a table."""
_OF_A_DESCRIPTION = {"job": pl.Int64, "metadata": pl.String}


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
        texts = [] if wanted is Wanted.STATISTICS else ["machines"]
        if texts or "requested_gpus" in requested.columns:
            texts.append("detail")
        self._of_a_start = ["job", "run", "time_s", "tasks", *texts]
        self._to_arrive = requested
        self._arrived: list[pl.DataFrame] = []
        """What jobs requested that have arrived and not finished, and their submission_time."""
        self._started: list[pl.DataFrame] = []
        """The starts of runs that are not over."""
        self._stopped: list[pl.DataFrame] = []
        """Runs that were preempted or lost: their starts and ends."""
        self._suspended: dict[int, float] = {}
        """Seconds in which runs were suspended; of those that are, less the time when they were."""
        self._described = pl.DataFrame(schema=_OF_A_DESCRIPTION)
        self._finished: list[pl.DataFrame] = []

    def add(self, facts: pl.DataFrame) -> None:
        """The next facts."""
        events = facts["event"].to_physical().to_numpy()
        self._arrive(facts, np.flatnonzero(events == CODES[Fact.JOB_ARRIVED]))
        self._are_described(facts, np.flatnonzero(events == CODES[Fact.JOB_DESCRIBED]))
        starts = facts[np.flatnonzero(events == CODES[Fact.RUN_STARTED]), self._of_a_start]
        arrived, started = pl.concat(self._arrived), pl.concat([*self._started, starts])
        is_over = np.isin(events, [CODES[ending] for ending in ENDINGS])
        over = facts[np.flatnonzero(is_over), ["run", "time_s", "event"]]
        over.columns = ["run", "finish_time", "ending"]
        end = _places_of(started["run"].to_numpy(), over["run"].to_numpy())
        is_found = end >= 0
        parts = _where(started, is_found), over[end[is_found], 1:]  # without run again
        runs = pl.concat(parts, how="horizontal")
        runs = runs.with_columns(suspended_s=self._suspended_s(facts, events, runs))
        self._started = [_where(started, ~is_found)]
        refused = facts["job"].gather(np.flatnonzero(events == CODES[Fact.JOB_REFUSED]))
        last = self._last_runs(runs, refused)
        arrival = _places_of(last["job"].to_numpy(), arrived["job"].to_numpy())
        is_found = arrival >= 0
        parts = _where(last, is_found), arrived[arrival[is_found], 1:]  # without job again
        self._finished.append(pl.concat(parts, how="horizontal"))
        stays = np.ones(len(arrived), np.bool_)
        stays[arrival[is_found]] = False
        if len(refused):
            stays &= _places_of(arrived["job"].to_numpy(), refused.to_numpy()) < 0
        self._arrived = [_where(arrived, stays)]

    def _suspended_s(
        self, facts: pl.DataFrame, events: NDArray[np.uint8], over: pl.DataFrame
    ) -> pl.Series | pl.Expr:
        """For how long the runs that are over were suspended."""
        found = self._suspended
        for code, sign in ((CODES[Fact.RUN_STOPPED], -1.0), (CODES[Fact.RUN_CONTINUED], 1.0)):
            for run, time_s in _where(facts[["run", "time_s"]], events == code).iter_rows():
                found[run] = found.get(run, 0.0) + sign * time_s
        if not found:
            return pl.lit(0.0)
        spent = [found.pop(run, 0.0) for run in over["run"]]
        ended_s = over["finish_time"].to_list()
        # Stopped, and never continued: until the end of the run.
        return pl.Series(
            [s if s >= 0.0 else s + end_s for s, end_s in zip(spent, ended_s, strict=True)], dtype=pl.Float64
        )

    def _last_runs(self, runs: pl.DataFrame, refused: pl.Series) -> pl.DataFrame:
        """Of runs that are over, those with which their jobs are over; of `refused` jobs, the last one."""
        is_last = runs["ending"].to_physical().to_numpy() == CODES[Fact.RUN_ENDED]
        ended = _where(runs, is_last)
        if is_last.all() and not self._stopped:
            return ended
        stopped = pl.concat([*self._stopped, _where(runs, ~is_last)]).unique(
            "job", keep="last", maintain_order=True
        )
        is_refused = stopped["job"].is_in(refused.to_list())
        waits = ~is_refused & ~stopped["job"].is_in(ended["job"].to_list())
        self._stopped = [rest] if len(rest := stopped.filter(waits)) else []
        return pl.concat([ended, stopped.filter(is_refused)])

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
        """Those before which none is missing; each is returned once."""
        if self._wanted is Wanted.TABLE_AT_THE_END:
            return self._with_details(self._finished[0].clear())
        if self._wanted is Wanted.STATISTICS or self._arrived[0].is_empty():
            rest, self._finished = self.rest(), [self._finished[0].clear()]
            return rest
        least_open = self._arrived[0]["job"].to_numpy().min()
        ready, waiting = [self._finished[0].clear()], list[pl.DataFrame]()
        for part in self._finished:
            numbers = part["job"].to_numpy()
            ready.append(_where(part, numbers < least_open))
            waiting.append(_where(part, numbers >= least_open))
        self._finished = [part for part in waiting if len(part)] or [ready[0]]
        return self._with_details(_in_order(ready))

    @property
    def has_more(self) -> bool:
        """Whether some have not been returned."""
        return any(map(len, self._finished))

    def rest(self) -> pl.DataFrame:
        """The others, after the last facts."""
        if self._wanted is Wanted.STATISTICS:
            return self._with_details(pl.concat(self._finished))
        return self._with_details(_in_order(self._finished))

    def _with_details(self, jobs: pl.DataFrame) -> pl.DataFrame:
        metadata: pl.Expr | pl.Series = pl.lit(None, pl.String).alias("metadata")
        if len(self._described):
            place = _places_of(jobs["job"].to_numpy(), self._described["job"].to_numpy())
            metadata = _gathered(self._described["metadata"], place)
        more = {"gpus_had": GPUS_HAD} if "detail" in jobs.columns else {}
        return jobs.select(
            pl.exclude("job", "run", "time_s", "detail"),
            metadata,
            job_id="job",
            starting_time="time_s",
            **more,
        )


def _where(frame: pl.DataFrame, is_kept: NDArray[np.bool_]) -> pl.DataFrame:
    """These rows. All or none are the most frequent cases, and need no copy."""
    if is_kept.all():
        return frame
    return frame[np.flatnonzero(is_kept)] if is_kept.any() else frame.clear()


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
