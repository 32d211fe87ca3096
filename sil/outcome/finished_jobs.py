"""The jobs of a replay that have finished, while its facts arrive in parts."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sil.outcome.jobs import BOUND_S, DEADLINE, DUE_IN_S, ENDINGS, batsim_jobs
from sil.trace.facts import CODES, Fact, FactColumns, Places
from sil.trace.held import MACHINES_AS_TEXT, N_GPUS
from sil.trace.recorder import ROW

COLUMNS = (*ROW, "tasks", "expected_s")
"""The columns of facts that are read at most."""
WIDE = 2**16
"""The widest range of numbers for which there is a table, or eight times as many as there are numbers; others
are sorted."""
_OF_A_DESCRIPTION = {"job": pl.Int64, "metadata": pl.String}
IS_ENDING = np.isin(np.arange(len(CODES)), [CODES[ending] for ending in ENDINGS])
"""Whether an event ends a run, by its code."""


class JobsFor(StrEnum):
    """What finished jobs are for."""

    STATISTICS = "statistics"
    """All jobs in any order, without the columns that only a table has."""
    TABLE = "table"
    """All columns, in order of number."""
    TABLE_AT_THE_END = "table at the end"
    """The same, where a lower number may arrive after a higher one, or a job may be described after it has
    finished; no job is `ready` before the end."""


class FinishedJobs:
    """Follows the facts of a replay, whose jobs arrive once. A run that was preempted or lost is the job's
    last one if the job is refused thereafter; else the job runs again, and that run is the one in the table.

    It remembers the jobs that have arrived and not finished, and, for a table, those that have finished while
    a job with a lower number has not. `requested` has the column job and what jobs requested, in order of
    arrival. If jobs `may_restart`, a table has their restarts, and lost_time.
    """

    def __init__(self, requested: pl.DataFrame, wanted: JobsFor, may_restart: bool = False) -> None:
        self._wanted, self._may_restart = wanted, may_restart
        self._has_gpus = "requested_gpus" in requested.columns
        self._to_arrive = requested
        if wanted is JobsFor.STATISTICS:
            needed = ("job", "requested_gpus", DUE_IN_S)
            self._to_arrive = requested.select(name for name in needed if name in requested.columns)
        self._arrived: list[pl.DataFrame] = []
        """What the jobs requested that have arrived and not finished, and their submission_time."""
        self._started: list[pl.DataFrame] = []
        """The starts of runs that are not over."""
        self._stopped: list[pl.DataFrame] = []
        """Runs that were preempted or lost: their starts and ends."""
        self._suspended: dict[int, float] = {}
        """How long runs were suspended, in seconds; for those that are, less the time when they were."""
        self._interrupted: dict[int, tuple[int, float]] = {}
        """How many runs of a job were preempted or lost, and the seconds of work lost with them."""
        self.n_interrupted, self.lost_s = 0, 0.0
        """How many of all, and the processor-seconds of work lost with them."""
        self._described = pl.DataFrame(schema=_OF_A_DESCRIPTION)
        self._finished: list[pl.DataFrame] = []

    def add(self, facts: FactColumns) -> None:
        """Add the next facts."""
        self._arrive(facts, facts.places(Fact.JOB_ARRIVED))
        if len(places := facts.places(Fact.JOB_DESCRIBED)):
            described = facts.frame(["job", "detail"], places).rename({"detail": "metadata"})
            self._described = pl.concat([self._described, described]).unique("job", keep="last")
        started = pl.concat([*self._started, self._starts(facts, facts.places(Fact.RUN_STARTED))])
        over = np.flatnonzero(IS_ENDING[facts.event])
        end = places_of(started["run"].to_numpy(), facts.run[over])
        is_over, ends = end >= 0, over[end[end >= 0]]
        self._started = [where(started, ~is_over)]
        runs = where(started, is_over).hstack(
            [
                pl.Series("finish_time", facts.time_s[ends]),
                pl.Series("was_killed", facts.event[ends] != CODES[Fact.RUN_ENDED]),
            ]
        )
        if len(eligible := facts.places(Fact.JOB_ELIGIBLE)):
            self._become_eligible(facts.frame(["job", "time_s", "detail"], eligible))
        refused = facts.job[facts.places(Fact.JOB_REFUSED)]
        runs = runs.hstack([self._suspended_s(facts, runs).alias("suspended_s")])
        if runs["was_killed"].any():
            self._interrupt(runs.hstack(facts.frame(["expected_s"], ends)).filter("was_killed"))
        last = self._with_restarts(self._last_runs(runs, refused))
        arrived = pl.concat(self._arrived)
        arrival = places_of(last["job"].to_numpy(), arrived["job"].to_numpy())
        has_arrived = arrival >= 0
        of_last = where(last, has_arrived).drop("job", "run")
        self._finished.append(arrived[arrival[has_arrived]].hstack(of_last))
        stays = ~np.isin(arrived["job"].to_numpy(), refused)
        stays[arrival[has_arrived]] = False
        self._arrived = [where(arrived, stays)]

    def _become_eligible(self, jobs: pl.DataFrame) -> None:
        """The wait of a job begins when it is eligible to run, as in Slurm; until then it was not in the
        queue."""
        last = jobs.unique("job", keep="last", maintain_order=True)
        since = last.select("job", submission_time="time_s")
        self._arrived = [pl.concat(self._arrived).update(since, on="job")]
        for_what = last.select("job", metadata=pl.lit("waited for ") + pl.col("detail"))
        self._described = pl.concat([self._described, for_what]).unique("job", keep="last")

    def _starts(self, facts: FactColumns, places: Places) -> pl.DataFrame:
        columns = {
            "job": pl.Series(facts.job[places]),
            "run": pl.Series(facts.run[places]),
            "starting_time": pl.Series(facts.time_s[places]),
            "tasks": pl.Series(facts.tasks[places]),
        }
        if self._wanted is not JobsFor.STATISTICS:
            columns["machines"] = facts.frame(["machines"], places).select(MACHINES_AS_TEXT).to_series()
        if self._has_gpus:
            columns["gpus_had"] = facts.frame(["shares"], places).select(N_GPUS).to_series()
        return pl.DataFrame(columns)

    def _suspended_s(self, facts: FactColumns, over: pl.DataFrame) -> pl.Series:
        """How long the runs that are over were suspended."""
        found = self._suspended
        for fact, sign in ((Fact.RUN_STOPPED, -1.0), (Fact.RUN_CONTINUED, 1.0)):
            places = facts.places(fact)
            for run, time_s in zip(facts.run[places].tolist(), facts.time_s[places].tolist(), strict=True):
                found[run] = found.get(run, 0.0) + sign * time_s
        if not found:
            return pl.Series(np.zeros(len(over)))
        spent = pl.Series([found.pop(run, 0.0) for run in over["run"]], dtype=pl.Float64)
        # Stopped, and never continued: until the end of the run.
        return spent.zip_with(spent >= 0.0, spent + over["finish_time"])

    def _interrupt(self, runs: pl.DataFrame) -> None:
        """Count runs that were preempted or lost."""
        ran_s = pl.col("finish_time") - pl.col("starting_time") - pl.col("suspended_s")
        of_runs = runs.select("job", "tasks", pl.coalesce("expected_s", ran_s))
        for job, tasks, lost_s in of_runs.iter_rows():
            n, before_s = self._interrupted.get(job, (0, 0.0))
            self._interrupted[job] = n + 1, before_s + lost_s
            self.n_interrupted, self.lost_s = self.n_interrupted + 1, self.lost_s + tasks * lost_s

    def _with_restarts(self, last: pl.DataFrame) -> pl.DataFrame:
        if not self._may_restart or self._wanted is JobsFor.STATISTICS:
            return last
        found = [self._interrupted.get(job, (0, 0.0)) for job in last["job"]]
        n = pl.Series([n for n, _ in found], dtype=pl.Int64)
        lost_s = pl.Series([lost_s for _, lost_s in found], dtype=pl.Float64)
        # A last run that was ended is followed by none.
        return last.with_columns(restarts=n - last["was_killed"].cast(pl.Int64), lost_time=lost_s)

    def _last_runs(self, runs: pl.DataFrame, refused: NDArray[np.int64]) -> pl.DataFrame:
        """The last run of each job that is over; of `refused` jobs, the last one."""
        if not runs["was_killed"].any() and not self._stopped:
            return runs
        ended = runs.filter(~pl.col("was_killed"))
        stopped = pl.concat([*self._stopped, runs.filter("was_killed")])
        stopped = stopped.unique("job", keep="last", maintain_order=True)
        is_refused = stopped["job"].is_in(refused)
        self._stopped = [stopped.filter(~is_refused & ~stopped["job"].is_in(ended["job"].implode()))]
        return pl.concat([ended, stopped.filter(is_refused)])

    def _arrive(self, facts: FactColumns, places: Places) -> None:
        job, n = facts.job[places], len(places)
        requested = self._to_arrive[:n]
        numbers = requested["job"].to_numpy()
        if not np.array_equal(job, numbers):  # some are not in the log
            place = places_of(job, numbers)
            n = int((place >= 0).sum())
            requested = requested.select(_gathered(column, place) for column in requested)
        self._to_arrive = self._to_arrive[n:]
        times_s = pl.Series("submission_time", facts.time_s[places])
        others = [column for column in requested if column.name != "job"]
        arrived = pl.DataFrame([pl.Series("job", job), *others, times_s])
        if DUE_IN_S in arrived.columns:
            arrived = arrived.with_columns(deadline=DEADLINE).drop(DUE_IN_S)
        self._arrived.append(arrived)

    def ready(self) -> pl.DataFrame:
        """The finished jobs before which none is missing; each is returned once."""
        finished = pl.concat(self._finished)
        is_ready = np.full(len(finished), self._wanted is not JobsFor.TABLE_AT_THE_END)
        if self._wanted is JobsFor.TABLE and len(still := self._arrived[0]):
            is_ready = finished["job"].to_numpy() < still["job"].to_numpy().min()
        self._finished = [where(finished, ~is_ready)]
        return self._with_details(where(finished, is_ready))

    @property
    def has_more(self) -> bool:
        """Whether some jobs have not been returned."""
        return any(map(len, self._finished))

    def rest(self) -> pl.DataFrame:
        """The jobs that have not been returned, after the last facts."""
        return self._with_details(pl.concat(self._finished))

    def _with_details(self, jobs: pl.DataFrame) -> pl.DataFrame:
        if self._wanted is JobsFor.STATISTICS:
            return jobs.rename({"job": "job_id"})
        place = places_of(jobs["job"].to_numpy(), self._described["job"].to_numpy())
        metadata = _gathered(self._described["metadata"], place)
        return jobs.with_columns(metadata).rename({"job": "job_id"}).sort("job_id", maintain_order=True)


def jobs_in(
    facts: pl.DataFrame, log: pl.DataFrame, cut: frozenset[int] = frozenset(), bound_s: float = BOUND_S
) -> pl.DataFrame:
    """The rows of `batsim_jobs`, in order of job id, of all facts of a replay. `log` has the columns job and
    estimate_s, in order of arrival."""
    jobs = FinishedJobs(log.select("job", requested_time="estimate_s"), JobsFor.TABLE_AT_THE_END)
    jobs.add(FactColumns(facts.select(COLUMNS)))
    return batsim_jobs(jobs.rest(), cut, bound_s=bound_s)


def where(table: pl.DataFrame, is_true: NDArray[np.bool_]) -> pl.DataFrame:
    """These rows; faster than a filter, which is a query."""
    return table[np.flatnonzero(is_true)]


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
