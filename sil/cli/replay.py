"""`sil replay`: replays a workload log under backfilling schedulers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from sil.cli.console import (
    EXIT_FAULT,
    JsonOption,
    NoDeterminismCheckOption,
    counted,
    fail,
    one_sentence_for_bad_input,
    out,
    print_fault,
    print_json,
    print_note,
    print_whole,
)
from sil.cli.options import WORKERS, DaskOption, WorkersOption
from sil.cli.progress import ProgressBar, progress
from sil.settings.estimates import Estimates
from sil.workload.swf_rules import Overrun, Rules, TooLarge


def replay(
    log: Annotated[
        Path, typer.Argument(help="A log: .swf, .swf.gz, or a Batsim workload, .json or .json.gz.")
    ],
    scheduler: Annotated[
        list[str] | None,
        typer.Option(help="fcfs, sjf, easy, easy_sjbf, conservative, or your own. May be repeated."),
    ] = None,
    estimates: Annotated[
        Estimates,
        typer.Option(
            help="Run-time estimates: the users' own, the actual run times, or the mean of the user's last "
            "two run times."
        ),
    ] = Estimates.USER,
    order: Annotated[
        str,
        typer.Option(
            help="Order of simultaneous events: default; archive, as in published schedules; or batsim (all "
            "in one message, 10 s later than in the log)."
        ),
    ] = "default",
    decision_cost: Annotated[
        str,
        typer.Option(
            help="Simulated time charged for decisions: none, fixed(seconds=0.5), measured(factor=10), "
            "modelled(seconds=1e-6, a=1, b=1) for seconds * jobs^a * processors^b, or "
            "replayed(trace='OUT/easy') for the charges of an earlier run."
        ),
    ] = "none",
    reasons: Annotated[
        bool, typer.Option("--reasons", help="Record in the trace why jobs wait (for `sil why`).")
    ] = False,
    jobs: Annotated[
        str | None,
        typer.Option(metavar="A:B", help="Only jobs A to B - 1, in order of submission, counted from 0."),
    ] = None,
    begin: Annotated[
        datetime | None, typer.Option("--from", help="Only jobs submitted at or after this time (UTC).")
    ] = None,
    end: Annotated[
        datetime | None, typer.Option("--to", help="Only jobs submitted before this time (UTC).")
    ] = None,
    load: Annotated[
        float | None, typer.Option(help="Scale the load: divide interarrival times by this factor.")
    ] = None,
    processors: Annotated[
        int | None, typer.Option(min=1, help="Override the machine size in the log.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a log that needs repairs.")] = False,
    overrun: Annotated[
        Overrun,
        typer.Option(help="Jobs that exceeded their estimate: raise the estimate, or cut the run."),
    ] = Overrun.RAISE,
    too_large: Annotated[
        TooLarge, typer.Option(help="Jobs larger than the machine: clip them, skip them, or fail.")
    ] = TooLarge.CLIP,
    out_folder: Annotated[
        Path | None, typer.Option("--out", help="Folder for the results. Default: sil-LOG.")
    ] = None,
    workers: WorkersOption = WORKERS,
    dask: DaskOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of random schedulers.")] = 1,
    no_determinism_check: NoDeterminismCheckOption = False,
    no_report: Annotated[bool, typer.Option("--no-report", help="Do not write report.html.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Replay a log of rigid jobs under backfilling schedulers, and compare them.

    For each scheduler, writes jobs.csv and schedule.csv with Batsim's columns, trace.parquet and
    timings.parquet; for all together, report.html and summary.json.
    """
    if not log.exists():  # before anything is loaded
        fail(f"{log}: there is no such file")
    from sil.experiment.logs import read_log
    from sil.experiment.replay_folder import REPORT
    from sil.experiment.replays import left_from_before, replay_all
    from sil.runs.on_log import Replay, schedulers_for_logs
    from sil.settings.decision_costs import check_decision_cost
    from sil.workers.selection import selected_executor
    from sil.workload.job_log import part_of
    from sil.world.events import ORDERS

    if order not in ORDERS:
        fail(f"--order is '{order}'; expected one of {', '.join(ORDERS)}")
    names = list(dict.fromkeys(scheduler or ["fcfs", "easy", "conservative"]))
    with one_sentence_for_bad_input():
        schedulers_for_logs(names)
        check_decision_cost(decision_cost)
        whole = read_log(log, Rules(strict, overrun, too_large), processors)
        chosen = part_of(whole, jobs, begin, end, load)
        for note in chosen.notes:
            print_note(note)
        if estimates is Estimates.HISTORY and (unknown := int((chosen.jobs["user"] < 0).sum())):
            print_note(f"{counted(unknown, 'job')} of unknown users: their estimates are the users' own")
        folder = out_folder or Path(f"sil-{log.name.split('.')[0]}")
        with progress("jobs") as bars, selected_executor(workers, dask) as executor:
            bar = ProgressBar(bars, chosen.name)
            replayed = Replay(
                chosen,
                estimates,
                order,
                decision_cost,
                reasons,
                seed=seed,
                check_determinism=not no_determinism_check,
            )
            outcomes = replay_all(replayed, names, folder, executor, not no_report, bar)
    if not as_json:
        out.print(chosen.summary, highlight=False, soft_wrap=True)
    print_statistics({o.scheduler: o.statistics for o in outcomes}, as_json)
    for outcome in outcomes:
        if outcome.fault is not None:
            print_fault(outcome.fault)
    if older := left_from_before(folder, outcomes):
        print_note(f"{folder} also has results of an earlier replay: {', '.join(older)}")
    look = "" if no_report else f"; open {folder / REPORT} in a browser"
    if not as_json:
        out.print(f"Results are in {folder}{look}.", soft_wrap=True)
    if any(outcome.fault for outcome in outcomes):
        raise typer.Exit(EXIT_FAULT)


def print_statistics(statistics: Mapping[str, Mapping[str, float]], as_json: bool) -> None:
    """A row for each statistic, a column for each scheduler; as JSON an object for each scheduler."""
    from sil.report.tables import replay_rows

    if as_json:
        print_json({name: dict(found) for name, found in statistics.items()})
        return
    table = Table()
    table.add_column("")
    for name in statistics:
        table.add_column(name, justify="right")
    for label, texts in replay_rows(statistics):
        table.add_row(label, *texts)
    print_whole(table)
