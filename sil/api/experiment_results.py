"""The results of experiments, from Python."""

from __future__ import annotations

from functools import cached_property
from math import nan
from pathlib import Path

import polars as pl

from scheduler.model import JobId
from sil.api.charts import Chart
from sil.experiment.output_folder import copy_results
from sil.experiment.run import evaluated
from sil.outcome.comparison import Comparison
from sil.report.experiment import experiment_page
from sil.trace.facts import RunTables
from sil.world.guard.faults import SchedulerFault


class ExperimentResults:
    """The results of an experiment: the folder that `sil run` writes.

    `comparison` has every metric of every scheduler. Tables are Polars frames; times are seconds.
    """

    def __init__(self, folder: Path, kept: object = None) -> None:
        """Read a folder with results. `kept` lives as long as this object."""
        self.folder = folder
        self.kept = kept

    @property
    def schedulers(self) -> list[str]:
        """The names of the schedulers, in order; the first one is the baseline."""
        return list(self._comparison.schedulers)

    @property
    def comparison(self) -> pl.DataFrame:
        """A row for each point of the grid (a column for each of its settings), scheduler and metric: the
        mean over replications, the mean paired difference to the first scheduler, and the half-widths of
        their 95 % intervals (Student's t), null with one replication, or after a fault."""
        return self._comparison.frame(*self._comparison.metrics)

    @property
    def jobs(self) -> pl.DataFrame:
        """A row for each job of each run, with the columns of jobs.csv (`docs/reference/results.md`)."""
        return self._evaluated[1]

    @property
    def trace(self) -> pl.DataFrame:
        """A row for each fact of each run, with the columns of trace.parquet
        (`docs/reference/results.md`)."""
        return self._evaluated[0].facts

    @property
    def decisions(self) -> pl.DataFrame:
        """A row for each decision: when it was made, and how long it took."""
        return self._evaluated[0].timings

    @property
    def predictions(self) -> pl.DataFrame:
        """On time-shared nodes, a row for each prediction of a turnaround, with the real one."""
        return self._comparison.scores

    @property
    def faults(self) -> list[str]:
        """A sentence for each scheduler that broke a rule."""
        return list(map(str, self._comparison.faults))

    @property
    def notes(self) -> list[str]:
        """Sentences on refused jobs and on problems of monitors."""
        return [*self._comparison.refusals, *self._comparison.failures, *self._comparison.notes]

    @property
    def charts(self) -> dict[str, Chart]:
        """The charts of the report, by the names of their files (`sil report --figures`)."""
        page = experiment_page(*self._evaluated)
        return {name: Chart(part.chart) for name, _, part in page.charts() if part.chart is not None}

    def save(self, folder: str | Path) -> Path:
        """Write the results into a folder, as `sil run` does. Raises UserError if it cannot be written."""
        folder = Path(folder)
        copy_results(self.folder, folder)
        return folder

    def __repr__(self) -> str:
        return f"Results of {self._comparison.description.experiment} under {', '.join(self.schedulers)}"

    def _repr_html_(self) -> str:
        return self.comparison._repr_html_()

    @cached_property
    def _evaluated(self) -> tuple[RunTables, pl.DataFrame, Comparison]:
        return evaluated(self.folder)

    @property
    def _comparison(self) -> Comparison:
        return self._evaluated[2]


def raise_faults(results: ExperimentResults) -> None:
    """Raise SchedulerFault if a scheduler broke a rule in another process, or its trace an invariant."""
    for fault in results._comparison.faults:
        time_s = nan if fault.time_s is None else fault.time_s
        job = None if fault.job is None else JobId(fault.job)
        raise SchedulerFault(fault.rule, fault.message, time_s, job).named(fault.scheduler)


def read_results(folder: str | Path) -> ExperimentResults:
    """The results in a folder of `sil run`. Raises UserError if there are none."""
    found = ExperimentResults(Path(folder))
    _ = found.schedulers
    return found
