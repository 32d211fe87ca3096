"""`sil run`, `sil report` and `sil experiments`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from scheduler import UserError
from scheduler.registry import ON_FREE_NODES, ON_MACHINES, OPTIMISING
from sil.cli import console, options
from sil.cli.app import group
from sil.cli.progress import TerminalProgress, progress
from sil.report import FigureKind
from sil.settings.replays import ExperimentOverrides
from sil.workers.execution import Execution
from sil.workers.executor import Executor, Inline

if TYPE_CHECKING:
    from sil.outcome.comparison import Comparison
    from sil.settings.experiment_file import Experiment as Settings


def run(
    experiment: str,
    out_folder: Annotated[Path | None, options.folder("sil-NAME")] = None,
    *,
    overrides: ExperimentOverrides,
    where: Execution,
    metric: options.Metric = options.METRIC,
    as_json: options.Json = False,
) -> None:
    """Run an experiment and compare its schedulers.

    * `experiment`: An experiment file, or the name of a built-in one (see `sil experiments`).

    Writes trace.parquet (every simulated fact), jobs.csv, summary.json, report.html (open it in a browser),
    timings.parquet (measured decision times) and results.db (a copy of the site as it was, with the jobs,
    runs and predictions of this experiment). Repeat the command to resume an interrupted run.
    """
    from sil.api.experiments import Experiment
    from sil.settings.foreign_code import ask_in_terminal, permit
    from site_db.store import parse_address

    chosen = Experiment.read(experiment).with_(**overrides.changes)
    address = parse_address(overrides.site) if overrides.site else None
    if not overrides.trust:
        permit(chosen.foreign_code(address), ask_in_terminal)
    name = chosen.settings.name
    executor = _chosen_executor(chosen.settings, where)
    from sil.experiment.output_folder import default_folder
    from sil.experiment.run import REPORT, Definition, SiteChoice, run_experiment
    from sil.outcome import metrics

    metrics.metric(metric)
    folder = out_folder or default_folder(name)
    choice = SiteChoice(address, overrides.learn, overrides.as_of)
    definition = Definition(chosen.settings, chosen.source)
    with progress("runs") as bars, executor:
        bar = TerminalProgress(bars, name)
        comparison = run_experiment(definition, folder, executor, choice, bar)
    _show(comparison, metric, as_json)
    if not as_json:
        console.print_line(f"Results are in {folder}; open {folder / REPORT} in a browser.")
    console.exit_on_faults(map(str, comparison.faults))


def _chosen_executor(experiment: Settings, where: Execution) -> Executor:
    """This process where worker processes would take longer to start. They start before large libraries are
    loaded here."""
    if where.dask is None:
        if needs_no_workers(experiment):
            return Inline()
        from scheduler.registry import modules_of
        from sil.workers.nursery import PREDICTION, begin_early

        begin_early([*modules_of(experiment.schedulers), *(PREDICTION if experiment.shared_nodes else ())])
    return where.executor()


def report(
    folder: Path,
    figures: FigureKind | None = None,
    metric: options.Metric = options.METRIC,
    warm_up_days: options.WarmUp = None,
    cool_down_days: options.CoolDown = None,
    block_days: options.BlockDays = None,
    as_json: options.Json = False,
) -> None:
    """Rebuild the report in a results folder.

    * `folder`: A results folder of `sil run` or `sil replay`.
    * `figures`: Also write each chart to a file in the folder `figures`.

    For `sil run`, rebuilds jobs.csv, summary.json and report.html from the trace; for `sil replay`, rebuilds
    report.html from jobs.csv, trace.parquet and summary.json. Options in days are for replays; by default,
    they are those of the replay.
    """
    from sil.cli.replay import print_statistics
    from sil.experiment import replay_folder
    from sil.rehearsal import REHEARSAL

    if replay_folder.are_replays(folder):
        days = {"warm_up_days": warm_up_days, "cool_down_days": cool_down_days, "block_days": block_days}
        changes = {name: given for name, given in days.items() if given is not None}
        replayed = replay_folder.render(folder, changes)
        drawn = replay_folder.draw(folder, figures, changes) if figures else []
        print_statistics(replayed.statistics, as_json)
        faults, written, source = [*replayed.faults], replay_folder.REPORT, replay_folder.SUMMARY
        if (folder / REHEARSAL).is_file():
            from sil.rehearsal.page import write_rehearsal

            drawn.append(write_rehearsal(folder))
    else:
        from sil.experiment import run as experiment_run
        from sil.outcome import metrics
        from sil.trace.facts import TRACE

        metrics.metric(metric)
        if not (folder / TRACE).is_file():
            raise UserError(f"{folder} is no results folder: `sil run` and `sil replay` write {TRACE}")
        comparison = experiment_run.render(folder)
        drawn = experiment_run.draw(folder, figures) if figures else []
        _show(comparison, metric, as_json)
        faults, written, source = list(map(str, comparison.faults)), experiment_run.REPORT, TRACE
    for fault in faults:
        console.print_fault(fault)
    for path in () if as_json else (*drawn, folder / written):
        console.print_line(f"Written from {folder / source}: {path}")


def _show(comparison: Comparison, metric: str, as_json: bool) -> None:
    """Show all metrics of a single point, or one metric over a grid, as tables; as JSON what summary.json
    has."""
    if as_json:
        console.print_json(comparison.as_dict())
    else:
        _print_tables(comparison, metric)
    for sentence in (*comparison.refusals, *comparison.failures, *comparison.notes):
        console.print_note(sentence)


def _print_tables(comparison: Comparison, metric: str) -> None:
    from sil.outcome import metrics
    from sil.report.tables import INTERVALS, comparison_table, grid_table, long_table, prediction_table

    if comparison.description.axes:
        long = long_table(comparison, metrics.metric(metric), metric)
        console.print_table(grid_table(comparison, metric), long)
    else:
        console.print_table(comparison_table(comparison, 0))
    if comparison.accuracies:
        console.print_table(prediction_table(comparison))
    how = "One replication, hence no confidence intervals (see --replications)."
    if (n := comparison.description.replications) > 1:
        how = (
            f"Means of {n} replications ± half-width of the 95 % confidence interval; "
            f"{INTERVALS.format('replication')}"
        )
    console.print_line(console.styled(how, "dim"))


experiments = group("List the experiments that come with the package, or copy them.")


@experiments.by_itself
def list_experiments(as_json: options.Json = False) -> None:
    """List the experiments that come with the package, or copy them."""
    from sil.settings import experiment_file, files

    found = [
        {"name": name, "description": experiment_file.read_experiment(path).description, "file": str(path)}
        for name, path in files.built_in("experiments").items()
    ]
    if as_json:
        console.print_json(found)
        return
    from rich.table import Table

    table = Table("name", "description", "file")
    for experiment in found:
        table.add_row(*experiment.values())
    console.print_table(table)


@experiments.register()
def copy(folder: Path) -> None:
    """Copy all examples, to edit: experiments, plans, sites, logs, and JSON Schemas for editors.

    * `folder`: The folder to copy them into. Files there are never replaced.
    """
    from sil.settings.files import copy_examples

    copied = copy_examples(folder)
    first = folder / "experiments" / "light-to-heavy.toml"
    command = shlex.join(["sil", "run", str(first)])
    console.print_line(f"Copied {len(copied)} files into {folder}; edit {first}, and run it: {command}")


MAX_JOBS = 2_000
"""The most jobs, over all runs, for which no workers start: a job takes about a millisecond, starting the
workers some seconds of CPU time."""
QUICK = {*ON_MACHINES, *ON_FREE_NODES} - OPTIMISING - {"gsa"}
"""The names of schedulers that never take seconds for a decision."""


def needs_no_workers(experiment: Settings) -> bool:
    """Whether the process of the command carries out all runs itself: few jobs under quick built-in
    schedulers, which need no process of their own. Predictions on time-shared nodes are not quick."""
    workload = experiment.workload
    if workload is None or experiment.shared_nodes is not None or not QUICK.issuperset(experiment.schedulers):
        return False
    of_points = (point.get("workload.jobs", workload.jobs) for point in experiment.points)
    n_runs = experiment.replications * len(experiment.schedulers)
    return n_runs * sum(n for n in of_points if isinstance(n, int)) <= MAX_JOBS
