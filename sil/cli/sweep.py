"""`sil sweep`: replays many slices of logs under several schedulers, loads and estimates."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

from typer import Argument

from sil.cli import console, options
from sil.cli.progress import ProgressBar, progress
from sil.cli.replay import print_notes, print_notes_on_slurm
from sil.declared import AS_JSON, Settings
from sil.settings.replays import Asking, Estimates
from sil.site.logs import OfPeriod
from sil.workers.execution import Execution
from sil.workload.settings import LOAD, Slicing

METRIC = "bounded_slowdown_mean"


@dataclass(frozen=True, kw_only=True)
class Varied(Settings):
    """What varies in the replays of a slice.

    * `load`: Scale the load: divide interarrival times by this factor. May be repeated. Default: 1.
    * `estimates`: Run-time estimates: the users' own, the actual run times, or the mean of the user's last
      two run times. May be repeated. Default: user.
    """

    load: Annotated[list[float] | None, LOAD] = None
    estimates: list[Estimates] | None = None


@dataclass(frozen=True, kw_only=True)
class Grid(Slicing, Varied):
    """The slices, and what varies in the replays of each."""


@dataclass(frozen=True, kw_only=True)
class Replayed(OfPeriod, Asking):
    """Which jobs are replayed, and how."""

    @property
    def asking(self) -> Asking:
        """What results depend on besides the jobs."""
        return Asking(**{field.name: getattr(self, field.name) for field in fields(Asking)})


@dataclass(frozen=True, kw_only=True)
class Compared(Settings):
    """The comparison of the schedulers.

    * `metric`: The metric of the printed table: a column of sweep.csv.
    * `as_json`: Print JSON instead of tables.
    """

    metric: str = METRIC
    as_json: Annotated[bool, AS_JSON] = False


def sweep(
    logs: Annotated[list[Path], Argument(metavar="LOG...")],
    scheduler: options.SchedulersOfLogs = None,
    *,
    grid: Grid,
    how: Replayed,
    out_folder: Annotated[Path | None, options.folder("sil-sweep-LOG")] = None,
    where: Execution,
    results: Compared,
) -> None:
    """Replay slices of logs under each scheduler, load and kind of estimates, and compare the schedulers.

    * `logs`: Logs (SWF), or Batsim workloads (JSON); with --nodes or --site, also Slurm's accounting. Plain
      or compressed.

    With --nodes or --site, jobs request CPUs, memory and GPUs of these nodes, and share them.

    Writes one row per replay into sweep.csv and sweep.parquet, and the comparison with the first scheduler,
    paired by slice, into summary.json. Repeat the command to resume an interrupted sweep.
    """
    for log in logs:  # before anything is loaded
        if not log.exists():
            console.fail(f"{log}: there is no such file")
    from sil.experiment.log_sweep import LogSweep, summary, sweep_into
    from sil.experiment.output_folder import default_folder
    from sil.outcome.metrics import REPLAY_METRICS, replay_metric_named
    from sil.report.tables import INTERVALS, long_table
    from sil.runs.under_test import COMPARED, schedulers_for_logs, with_releases

    folder = out_folder or default_folder("sweep", logs[0].name.split(".")[0])
    metric, cluster = replay_metric_named(results.metric), how.cluster()
    schedulers = with_releases(schedulers_for_logs(scheduler or COMPARED, cluster is not None))
    parts = [how.chosen(log, cluster) for log in logs]
    loads, estimates = tuple(grid.load or [1.0]), tuple(grid.estimates or [Estimates.USER])
    wanted = LogSweep(tuple(map(grid.sliced, parts)), schedulers, loads, estimates, how.asking)
    for k, part in enumerate(parts):
        print_notes(part, estimates, grid.load or [] if k == 0 else [])
    print_notes_on_slurm(schedulers)
    with progress("replays") as bars, where.executor() as executor:
        comparison = sweep_into(folder, wanted, executor, ProgressBar(bars, "sweep"))
    comparison.check(metric)
    if results.as_json:
        console.print_json(summary(wanted, comparison))
    else:
        console.print_table(long_table(comparison, REPLAY_METRICS[metric], metric))
        means = "One slice, hence no confidence intervals (see --slices)."
        if (n := comparison.n_blocks) > 1:
            means = (
                f"Means of {n} slices ± half-width of the {100 * comparison.confidence:g} % confidence "
                f"interval (Student's t, {n - 1} degrees of freedom); {INTERVALS.format('slice')}"
            )
        console.print_line(console.styled(means, "dim"))
    for sentence in comparison.refusals():
        console.print_note(sentence)
    if not results.as_json:
        console.print_line(f"Results are in {folder}.")
    console.exit_on_faults(comparison.faults())
