"""`sil replay` and `sil sweep`: replays logs of jobs under backfilling schedulers, whole ones or many
slices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.table import Column, Table

from scheduler.messages import UserError, counted
from sil.cli import console, options
from sil.cli.parameters import Argument
from sil.cli.progress import TerminalProgress, progress
from sil.declared import AS_JSON, Settings
from sil.report.analysis import Analysis
from sil.settings.alternatives import expanded
from sil.settings.replays import Asking, Estimates, Replaying
from sil.site.logs import OfPart, OfPeriod
from sil.workers.execution import Execution
from sil.workers.executor import Inline
from sil.workload.settings import LOAD, Slicing

if TYPE_CHECKING:
    from sil.experiment.log_sweep import Alternative
    from sil.runs.under_test import UnderTest
    from sil.workload.job_log import JobLog
    from sil.workload.slices import SlicedLog


@dataclass(frozen=True, kw_only=True)
class _Cited(Settings):
    """What the validation says of the site.

    * `validation`: Folder of a `sil validate` at the site: says how good such replays are.
    """

    validation: Path | None = None


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(OfPart, Replaying, _Cited):
    """Which jobs are replayed, and how."""


@dataclass(frozen=True, kw_only=True)
class _Written(Settings):
    """Which files are written.

    * `no_report`: Do not write report.html.
    """

    report: bool = True


@dataclass(frozen=True, kw_only=True)
class Reported(Analysis, _Written):
    """What becomes of the results.

    * `as_json`: Print JSON instead of tables.
    """

    as_json: Annotated[bool, AS_JSON] = False

    @property
    def analysis(self) -> Analysis:
        return Analysis(self.warm_up_days, self.cool_down_days, self.block_days)


def replay(
    log: options.LogOnNodes,
    scheduler: options.SchedulersOfLogs = None,
    *,
    how: ReplayOptions,
    out_folder: Annotated[Path | None, options.folder("sil-LOG")] = None,
    where: Execution,
    results: Reported,
) -> None:
    """Replay a log of rigid jobs under backfilling schedulers, and compare them.

    With --nodes or --site, jobs request CPUs, memory and GPUs of these nodes, and share them.

    For each scheduler, writes jobs.csv and schedule.csv with Batsim's columns, trace.parquet and
    timings.parquet; for all together, report.html and summary.json.
    """
    if not log.exists():  # before anything is loaded
        console.fail(f"{log}: there is no such file")
    from sil.experiment.output_folder import default_folder
    from sil.experiment.replay import left_from_before, replay_all
    from sil.experiment.replay_folder import REPORT, render
    from sil.outcome.metrics import REFUSED
    from sil.outcome.refused_and_failed import IF_RESUBMITTED
    from sil.runs.free_nodes import notes_for
    from sil.runs.on_log import Replay
    from sil.runs.under_test import COMPARED
    from sil.settings.decision_costs import check_decision_cost

    names = list(dict.fromkeys(scheduler or COMPARED))
    folder = out_folder or default_folder(log.name.split(".")[0])
    analysis = results.analysis
    check_decision_cost(how.decision_cost)
    schedulers, chosen = _schedulers(names, how), how.chosen(log)
    _print_notes([chosen], schedulers, how, Varied(load=[how.load or 1.0], estimates=[how.estimates]))
    if chosen.charged or how.validation is not None:
        _print_validation(how.validation, chosen, schedulers, "waits", "utilisation", "means")
    analysis.check(chosen.span_s / 86_400)
    if how.events and how.load is not None:
        raise UserError(
            f"--load moves the submissions of jobs, and not the times in {how.events[0]}; leave one out"
        )
    run = Replay.checked(chosen, how, schedulers)
    for note in notes_for(run.events, schedulers, run.is_foreseen):
        console.print_note(note)
    # Enter is pressed in this process.
    executing = where.executor() if how.pause_at_s is None else Inline()
    with progress("jobs") as bars, executing as executor:
        bar = TerminalProgress(bars, chosen.name)
        outcomes = replay_all(run, schedulers, folder, executor, analysis, bar)
    if results.report:
        render(folder)
    if not results.as_json:
        console.print_line(chosen.summary)
        for line in [] if chosen.cluster is None else chosen.cluster.model:
            console.print_line(f"{line}.")
    print_statistics({o.scheduler: o.statistics for o in outcomes}, results.as_json)
    for sentence in dict.fromkeys(o.refused for o in outcomes if o.refused is not None):
        console.print_note(sentence)
    if any(REFUSED[0].key in o.statistics for o in outcomes):
        console.print_note(IF_RESUBMITTED)
    if older := left_from_before(folder, outcomes):
        console.print_note(f"{folder} also has results of an earlier replay: {', '.join(older)}")
    if not results.as_json:
        look = f"; open {folder / REPORT} in a browser" if results.report else ""
        console.print_line(f"Results are in {folder}{look}.")
    console.exit_on_faults(outcome.fault for outcome in outcomes if outcome.fault is not None)


def _schedulers(names: Iterable[str], how: OfPeriod) -> tuple[UnderTest, ...]:
    """Raises UserError."""
    from sil.runs.under_test import schedulers_for_logs, with_releases

    has_nodes = how.nodes is not None or how.site is not None or bool(how.policy)
    return with_releases(schedulers_for_logs(names, has_nodes))


def _print_notes(
    logs: Sequence[JobLog], schedulers: Sequence[UnderTest], how: OfPeriod, varied: Varied
) -> None:
    """Print what the model of the nodes leaves out (a controller with a slurm.conf reads it), repairs of
    the logs, what loads do to them, what is unknown for estimates, what Slurm does not read: each once."""
    from sil.runs.under_test import SlurmProgram, notes_on_slurm
    from sil.workload.job_log import on_scaled_days

    of_logs = dict.fromkeys((log.name, note) for log in logs for note in log.notes)
    clusters = [log.cluster for log in logs if log.cluster is not None]
    of_nodes = [*dict.fromkeys(note for cluster in clusters for note in cluster.notes)]
    programs = [each for each in schedulers if isinstance(each, SlurmProgram)]
    with_theirs = [each.label for each in programs if each.program.path is not None]
    if len(with_theirs) == len(schedulers):
        of_nodes = []
    elif with_theirs and of_nodes:
        whose = f"'{with_theirs[0]}', which reads its own slurm.conf"
        of_nodes.append(f"settings ignored above do apply under {whose}")
    of_users = []
    if Estimates.HISTORY in (varied.estimates or ()):
        n = sum(int((log.jobs["user"] < 0).sum()) for log in {log.name: log for log in logs}.values())
        of_users = [f"{counted(n, 'job')} of unknown users: their estimates are the users' own"] if n else []
    loads = on_scaled_days(varied.load or ())
    texts = (note for _, note in of_logs)
    for note in (*of_nodes, *texts, *loads, *of_users, *notes_on_slurm(schedulers, bool(how.policy))):
        console.print_note(note)


def _print_validation(folder: Path | None, log: JobLog, schedulers: Sequence[UnderTest], *uses: str) -> None:
    """Print what a validation says of these uses of replays."""
    from sil.rehearsal.uses import Use, cited

    console.print_note(cited(folder, log.cluster, schedulers, [*map(Use, uses)]).text)


def print_statistics(statistics: Mapping[str, Mapping[str, float]], as_json: bool) -> None:
    """Print a row for each statistic, a column for each scheduler; as JSON an object for each scheduler."""
    from sil.report.tables import replay_rows

    if as_json:
        console.print_json({name: dict(found) for name, found in statistics.items()})
        return
    rows = replay_rows(statistics)
    wide = Table("", *(Column(name, justify="right") for name in statistics))
    for label, cells in rows:
        wide.add_row(label, *cells)
    turned = Table("scheduler", *(Column(label, justify="right") for label, _ in rows))
    for place, name in enumerate(statistics):
        turned.add_row(name, *(cells[place] for _, cells in rows))
    console.print_table(wide, turned)


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
class GridOptions(Slicing, Varied):
    """The slices, and what varies in the replays of each."""


@dataclass(frozen=True, kw_only=True)
class SweepOptions(OfPeriod, Asking, _Cited):
    """Which jobs are replayed, and how.

    * `settings`: A setting to compare with the present one, of the policy's slurm.conf or of replays, like
      PriorityWeightFairshare=0 or 'checkpoint_interval_s={600,3600}': each of the values in braces, as of
      files in --policy 'limits-{5,10}.cfg'. May be repeated, for all combinations.
    """

    def under(self, logs: Sequence[Path], cut: Slicing) -> tuple[Alternative, ...]:
        """The logs under each of the policies and settings, the first ones as they are. Raises UserError."""
        from sil.experiment.log_sweep import alternatives

        first, *others = product(*map(expanded, map(str, self.policy or ())))
        of = {"": first} | {" ".join(x for x in each if x not in first): each for each in others}

        def read(policy: str, settings: str) -> tuple[SlicedLog, ...]:
            one = replace(self, policy=[*map(Path, of[policy])], settings=[settings] if settings else None)
            return tuple(cut.sliced(one.chosen(log)) for log in logs)

        return alternatives(of, self.settings, read)

    @property
    def asking(self) -> Asking:
        """What results depend on besides the jobs."""
        return Asking(**{field.name: getattr(self, field.name) for field in fields(Asking)})


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions(Settings):
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
    grid: GridOptions,
    how: SweepOptions,
    out_folder: Annotated[Path | None, options.folder("sil-sweep-LOG")] = None,
    where: Execution,
    results: ComparisonOptions,
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
    from sil.experiment.log_sweep import LogSweep, notes, summary, sweep_into
    from sil.experiment.output_folder import default_folder
    from sil.outcome.metrics import REPLAY_METRICS, replay_metric_named
    from sil.report.tables import INTERVALS, long_table
    from sil.runs.under_test import COMPARED

    folder = out_folder or default_folder("sweep", logs[0].name.split(".")[0])
    metric = replay_metric_named(results.metric)
    schedulers, under = _schedulers(scheduler or COMPARED, how), how.under(logs, grid)
    loads, estimates = tuple(grid.load or [1.0]), tuple(grid.estimates or [Estimates.USER])
    wanted = LogSweep(under[0].logs, schedulers, loads, estimates, how.asking, under[1:])
    parts = [sliced.log for each in under for sliced in each.logs]
    _print_notes(parts, schedulers, how, grid)
    if (len(under) > 1 and parts[0].charged) or how.validation is not None:
        _print_validation(how.validation, parts[0], schedulers, "means", "jobs")
    with progress("replays") as bars, where.executor() as executor:
        comparison = sweep_into(folder, wanted, executor, TerminalProgress(bars, "sweep"))
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
    for sentence in (*comparison.refusals(), *notes(wanted, comparison.table)):
        console.print_note(sentence)
    if not results.as_json:
        console.print_line(f"Results are in {folder}.")
    console.exit_on_faults(comparison.faults())
