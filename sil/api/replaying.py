"""Replays of logs from Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from math import nan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import polars as pl

from scheduler import UserError
from sil.api.calls import Isolating, progress_listener, warn
from sil.api.logs import given_log
from sil.declared import Field, Setting, as_keyword, spread
from sil.experiment import replay_folder
from sil.experiment.output_folder import copy_results
from sil.experiment.replay import replay_all
from sil.outcome.jobs import BOUND_S, JOBS, read_whole_jobs_csv
from sil.outcome.metrics import REPLAY_METRICS
from sil.report.analysis import ALL_JOBS
from sil.report.listing import file_name
from sil.report.replay.measured import Replayed
from sil.runs.free_nodes import notes_for
from sil.runs.on_log import Replay
from sil.runs.under_test import COMPARED, UnderTest, named
from sil.settings.replays import Engine, Replaying
from sil.trace.facts import TIMINGS, TIMINGS_SCHEMA, TRACE, Fact
from sil.trace.log_ids import ids_in
from sil.trace.reading import NoTrace, read_facts, read_table
from sil.workers.executor import Inline, Interrupted
from sil.workload.job_log import JobLog
from sil.world.guard.faults import PROCESS_SURVIVES, SchedulerFault

if TYPE_CHECKING:
    from sil.api.charts import Plots

KEEPS_INVARIANTS = "keeps-invariants"
"""The rule that no trace of a run breaks an invariant."""


@spread(as_keyword)
def replay(
    log: JobLog, schedulers: object = COMPARED, *, how: Replaying, bound_s: float = BOUND_S, call: Isolating
) -> Replays:
    """Replay a log of rigid jobs under some schedulers, with the results of the command `sil replay`.

    * `schedulers`: a name ("easy", "my_module:Class(cap=8)"), a class, an instance or a factory (see
      `factory`); several of them, or a dictionary of them by name. Instances are copied for each run.
    {how}
    * `bound_s`: run times that are shorter count as this many seconds in bounded slowdowns.
    {call}

    Ctrl-C returns the results of the schedulers that are done, with a warning. Raises UserError for invalid
    settings, and for schedulers that cannot replay this log.
    """
    if how.pause_at_s is not None:
        call = replace(call, workers=None, dask=None)  # Enter is pressed in this process
    if how.memory_limit_mb is not None:  # of a process of its own
        call = replace(call, isolate=True)
    under_test = named(schedulers, call.is_elsewhere, call.raises_faults and not call.is_elsewhere)
    of_log = Replay.checked(given_log(log, bound_s), how, list(under_test.values()))
    for note in notes_for(of_log.events, under_test.values(), of_log.is_foreseen):
        warn(note)
    folder = TemporaryDirectory(prefix="sil-", ignore_cleanup_errors=True)
    found = Replays(Path(folder.name), of_log, under_test, folder)
    with call.listened(of_log.log.name, "jobs") as (listener, executor):
        try:
            replay_all(of_log, list(under_test.values()), found.folder, executor, ALL_JOBS, listener)
        except Interrupted as interrupted:
            if not found.schedulers:
                raise KeyboardInterrupt from None
            warn(f"interrupted: {interrupted}; the others are left out")
    if call.raises_faults:
        _raise_fault(found)
    return found


class Replays:
    """The results of a log under some schedulers: the folder that `sil replay` writes.

    `metrics` compares them; `jobs`, `trace` and `decisions` are tables of one of them. Tables are Polars
    frames (`to_pandas()`, `to_arrow()`); times are seconds.
    """

    def __init__(
        self,
        folder: Path,
        replay: Replay | None = None,
        under_test: Mapping[str, UnderTest] | None = None,
        kept: object = None,
    ) -> None:
        """Read a folder with results. `kept` lives as long as this object."""
        self.folder, self._kept = folder, kept
        self._replay, self._under_test = replay, under_test or {}
        self._with_reasons: dict[str, Replays] = {}

    @property
    def schedulers(self) -> list[str]:
        """The names of the schedulers, in order."""
        return list(self._replayed.described["schedulers"])

    @property
    def metrics(self) -> pl.DataFrame:
        """A row for each scheduler: its name, the metrics of `docs/how-to/replay.md` (null after a fault),
        and a sentence on its fault and on refused jobs, if any."""
        rows = [{"scheduler": name, **row} for name, row in self._replayed.described["schedulers"].items()]
        known = [name for name in REPLAY_METRICS if any(name in row for row in rows)]
        texts = dict.fromkeys(("fault", "refused"), pl.String)
        kinds: dict[str, Any] = {"scheduler": pl.String, **dict.fromkeys(known, pl.Float64), **texts}
        return pl.DataFrame(rows, schema=kinds)

    @property
    def faults(self) -> dict[str, str]:
        """A sentence for each scheduler that broke a rule."""
        found = self._replayed.described["schedulers"]
        return {name: row["fault"] for name, row in found.items() if row["fault"]}

    def jobs(self, scheduler: str) -> pl.DataFrame:
        """A row for each finished job, with the columns of jobs.csv (`docs/reference/results.md`)."""
        return read_whole_jobs_csv(self._folder_of(scheduler) / JOBS)

    def trace(self, scheduler: str) -> pl.DataFrame:
        """A row for each fact of the replay, with the columns of trace.parquet
        (`docs/reference/results.md`)."""
        return read_facts(self._folder_of(scheduler) / TRACE)

    def decisions(self, scheduler: str) -> pl.DataFrame:
        """A row for each decision, with the columns of timings.parquet: when it was made, and how long it
        took."""
        return read_table(self._folder_of(scheduler) / TIMINGS, TIMINGS_SCHEMA)

    def differences(self, block_days: float | None = None) -> pl.DataFrame:
        """How jobs differ from what they are under EASY, or without it under the first scheduler: a row for
        each other scheduler and quantity. `low` and `high` bound the mean at 95 % confidence, by blocks of
        `block_days` (by default 7, or 1 in logs of fewer than 8 weeks; null with few blocks, or where hardly
        any block shows a difference), whose means should have a `correlation` with those before of 0.2 at
        most: give longer ones above it. `less` and `more` are shares of jobs. Raises UserError for blocks
        without length."""
        from sil.outcome.paired import baseline_of, paired_differences
        from sil.report.replay.differences import COMPARED

        if block_days is not None and not block_days > 0:
            raise UserError(f"block_days is {block_days!r}; expected a positive number")
        jobs = {name: table for name, table in self._replayed.jobs.items() if name not in self.faults}
        baseline = baseline_of(self.schedulers)
        rows = []
        for name in [name for name in jobs if name != baseline and baseline in jobs]:
            for quantity in COMPARED:
                found = paired_differences(jobs[name], jobs[baseline], quantity, block_days)
                if found is not None:
                    of = found.difference.as_dict()
                    limits, shares = (of["mean"], of["low"], of["high"]), (found.less, found.more)
                    rows.append((name, quantity, *limits, *shares, found.correlation, found.jobs))
        numbers = dict.fromkeys(("mean", "low", "high", "less", "more", "correlation"), pl.Float64)
        kinds: dict[str, Any] = {"scheduler": pl.String, "quantity": pl.String, **numbers, "jobs": pl.Int64}
        return pl.DataFrame(rows, schema=kinds, orient="row")

    @property
    def plot(self) -> Plots:
        """The charts of the results."""
        from sil.api.charts import Plots

        return Plots(lambda: self._replayed)

    def why(self, scheduler: str, job: int | str) -> Explanation:
        """What became of a job: when it arrived, why it waited, which jobs overtook it, when it ran. `job` is
        its number or, as a text, its id in the log, like "100_1".

        If no reasons were recorded, the scheduler is run again to record them, which it can be in this
        session. Raises UserError for an unknown scheduler or job.
        """
        from sil.outcome.trace_inspection import timeline
        from sil.trace.reading import read_clock, read_resource_names

        explained = self._explained(scheduler)
        facts = explained.trace(scheduler)
        path = explained._folder_of(scheduler) / TRACE
        names, clock = read_resource_names(path), read_clock(path, facts)
        ids = ids_in(facts, scheduler)
        number = ids.number(job)
        found = timeline(facts, number, names)
        assert found is not None  # the job has arrived
        unknown = () if found.has_reasons else ("No reasons for waiting were recorded (reasons=True).",)
        return Explanation("\n".join([*found.lines(clock), *ids.namesakes(number), *unknown]))

    def save(self, folder: str | Path) -> Path:
        """Write the results into a folder, with summary.json and report.html, as `sil replay` does. Raises
        UserError if it cannot be written."""
        folder = Path(folder)
        copy_results(self.folder, folder)
        replay_folder.render(folder)
        return folder

    def __repr__(self) -> str:
        return f"Replays of {self._replayed.described['log']} under {', '.join(self.schedulers)}"

    def _repr_html_(self) -> str:
        return self.metrics._repr_html_()

    @cached_property
    def _replayed(self) -> Replayed:
        return replay_folder.read(self.folder)

    def _folder_of(self, scheduler: str) -> Path:
        known = Setting(known=tuple(self.schedulers))
        Field("scheduler", str, setting=known).checked(scheduler, "scheduler")
        return self.folder / file_name(scheduler)

    def _explained(self, scheduler: str) -> Replays:
        """The results with the reasons of a scheduler, recorded now if need be and possible."""
        if self._replay is None or self._replay.reasons or scheduler not in self._under_test:
            return self
        if scheduler not in self._with_reasons:
            folder = TemporaryDirectory(prefix="sil-", ignore_cleanup_errors=True)
            again = replace(self._replay, reasons=True, engine=Engine.HARNESS)
            under_test = replace(self._under_test[scheduler], raises_faults=False)
            with progress_listener(scheduler, "jobs", is_shown=True) as listener:
                try:
                    replay_all(again, [under_test], Path(folder.name), Inline(), ALL_JOBS, listener)
                except Interrupted:
                    raise KeyboardInterrupt from None
            self._with_reasons[scheduler] = Replays(Path(folder.name), again, None, folder)
        return self._with_reasons[scheduler]


def _raise_fault(replays: Replays) -> None:
    for name, sentence in replays.faults.items():
        try:
            facts = replays.trace(name).filter(pl.col("event") == Fact.FAULT)
        except NoTrace:
            raise SchedulerFault(PROCESS_SURVIVES, sentence, nan) from None
        for fact in facts.iter_rows(named=True):
            fault = SchedulerFault(fact["detail"], fact["message"], fact["time_s"], fact["job"])
            raise fault.named(name)
        raise SchedulerFault(KEEPS_INVARIANTS, sentence, nan)


class Explanation(str):
    """A text that interactive sessions print as it is."""

    def __repr__(self) -> str:
        return str(self)


def read_replays(folder: str | Path) -> Replays:
    """The results in a folder of `sil replay`. Raises UserError if there are none."""
    found = Replays(Path(folder))
    _ = found.schedulers
    return found
