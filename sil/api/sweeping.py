"""Sweeps over logs from Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import polars as pl

from scheduler import UserError
from scheduler.messages import counted
from sil.api.calls import Working, warn
from sil.api.logs import given_log
from sil.declared import as_keyword, choice, spread
from sil.experiment.log_sweep import LogSweep, alternatives, run_sweep
from sil.experiment.log_sweep import notes as notes_on
from sil.outcome.comparison import SweepComparison
from sil.outcome.jobs import BOUND_S
from sil.outcome.metrics import replay_metric_named
from sil.outcome.statistics import CONFIDENCE
from sil.runs.under_test import check_for_logs, named
from sil.settings.alternatives import texts
from sil.settings.replays import Asking, Estimates
from sil.workers.executor import Interrupted
from sil.workload.job_log import JobLog
from sil.workload.settings import Slicing
from sil.workload.slices import SlicedLog


@dataclass(frozen=True, kw_only=True)
class MeasuredSlices(Slicing):
    """Slices, and how their jobs are measured.

    * `bound_s`: Run times that are shorter count as this many seconds in bounded slowdowns.
    """

    bound_s: float = BOUND_S


@spread(as_keyword)
def sweep(
    logs: JobLog | Iterable[JobLog] | Mapping[str, JobLog | Iterable[JobLog]],
    schedulers: object,
    *,
    load: float | Sequence[float] = 1.0,
    estimates: str | Sequence[str] = "user",
    settings: str | Sequence[str] = (),
    cut: MeasuredSlices,
    how: Asking,
    where: Working,
) -> Sweep:
    """Replay every slice of some logs under every scheduler, load and kind of estimates, with the results of
    the command `sil sweep`.

    * `logs`: a log or several; or to compare policies, by the name of each, the same logs as read under it.
    * `load`: factors by which times between arrivals are divided.
    * `settings`: of replays, to compare with the present ones, like "checkpoint_interval_s={600,3600}".
    {cut}
    {how}
    {where}

    For the other parameters see `replay`. A scheduler's fault is in the row of its replay. Ctrl-C returns the
    replays that are done, with a warning. Raises UserError for invalid settings.
    """
    under_test = named(schedulers, isolated=True, raises_faults=False)
    policies = logs if isinstance(logs, Mapping) else {"": logs}
    of = {str(name) if k else "": _logs(each, cut) for k, (name, each) in enumerate(policies.items())}
    check_for_logs(under_test.values(), any(x.log.cluster is not None for each in of.values() for x in each))

    def read(policy: str, other: str) -> tuple[SlicedLog, ...]:
        if other:
            raise UserError(
                f"{other} is no setting of a replay; one of slurm.conf is of the log: give logs by name, "
                f"from sil.read_log(..., settings={other!r})"
            )
        return of[policy]

    under = alternatives(of, texts(settings), read)
    wanted = LogSweep(
        under[0].logs if under else (),
        tuple(under_test.values()),
        tuple([float(load)] if isinstance(load, int | float) else map(float, load)),
        tuple(choice(Estimates, kind, "estimates") for kind in texts(estimates)),
        how,
        under[1:],
    )
    with where.listened("sweep", "replays") as (listener, executor):
        try:
            table = run_sweep(wanted, executor, listener)
            found = Sweep(table, wanted.names, tuple(notes_on(wanted, table)))
        except Interrupted as interrupted:
            found = Sweep(cast("pl.DataFrame", interrupted.finished), wanted.names)
            if found.table.is_empty():
                raise KeyboardInterrupt from None
            notes = "".join(f"; {note}" for note in found.notes)
            warn(f"interrupted: {interrupted}; the others are left out{notes}")
    return found


def _logs(given: object, cut: MeasuredSlices) -> tuple[SlicedLog, ...]:
    of_one = isinstance(given, JobLog | str) or not isinstance(given, Iterable)
    logs = cast("Iterable[object]", [given] if of_one else given)
    return tuple(cut.sliced(given_log(log, cut.bound_s)) for log in logs)


@dataclass(frozen=True, repr=False)
class Sweep:
    """The results of a sweep: `table` has a row for each replay, with the columns of sweep.csv
    (`docs/reference/results.md`); `schedulers` are in order, the baseline first."""

    table: pl.DataFrame
    schedulers: tuple[str, ...] = ()
    on_settings: tuple[str, ...] = ()
    """Sentences on settings without effect, and on the warm-up."""

    def summary(self, metric: str = "bounded_slowdown_mean", ci: float = CONFIDENCE) -> pl.DataFrame:
        """A row for each load, kind of estimates and scheduler: the mean of a metric over slices (`mean`),
        its difference to that of the first scheduler on the same slices (`difference`), the same as a
        percentage (`percent`), and the limits or half-widths of their intervals with the confidence `ci`.

        Slices are blocks: they are taken for independent and alike. With one slice there are no intervals,
        nor for a difference that hardly any slice shows (`not_settled`); after a fault, a scheduler has no
        mean. A quantity alone, like `waiting_time`, stands for its mean.
        Raises UserError for an unknown metric or an impossible `ci`.
        """
        metric = replay_metric_named(metric)
        if not 0 < ci < 1:
            raise UserError(f"ci is {ci:g}; expected a confidence between 0 and 1, like 0.95")
        comparison = SweepComparison(self.table, ci, self.schedulers)
        comparison.check(metric)
        return comparison.frame(metric).drop("metric", "unit")

    @property
    def faults(self) -> list[str]:
        """For each scheduler that broke a rule, a sentence on the first replay in which it did."""
        return SweepComparison(self.table, schedulers=self.schedulers).faults()

    @property
    def notes(self) -> list[str]:
        """Settings without effect, whether the warm-up is too short, and after an interruption how many
        replays are in no difference."""
        return [*self.on_settings, *SweepComparison(self.table, schedulers=self.schedulers).left_out()]

    def __repr__(self) -> str:
        names = self.table["scheduler"].unique(maintain_order=True)
        return f"Sweep of {counted(len(self.table), 'replay')} under {', '.join(names)}"

    def _repr_html_(self) -> str:
        return self.table._repr_html_()
