"""`sil replay`: a log of an archive under backfilling schedulers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from sil.cli.console import (
    EXIT_FAULT,
    EXIT_INTERRUPTED,
    counted,
    err,
    fail,
    one_sentence_for_bad_input,
    out,
    print_fault,
    print_note,
    print_whole,
)
from sil.cli.progress import ProgressBar, progress
from sil.settings.estimates import Estimates
from sil.workload.swf_rules import Overrun, Rules, TooLarge


def replay(
    log: Annotated[
        Path, typer.Argument(help="A log: .swf, .swf.gz, or a workload of Batsim's, .json or .json.gz.")
    ],
    scheduler: Annotated[
        list[str] | None,
        typer.Option(help="May be repeated: fcfs, sjf, easy, easy_sjbf, conservative, or one of your own."),
    ] = None,
    estimates: Annotated[
        Estimates,
        typer.Option(
            help="What is believed of run times: what users asked for, the truth, or the mean of the user's "
            "last two run times."
        ),
    ] = Estimates.USER,
    order: Annotated[
        str,
        typer.Option(
            help="Which events of one instant come first: default; archive, as in published schedules; or "
            "batsim (all in one message, and 10 s later than in the log)."
        ),
    ] = "default",
    decision_cost: Annotated[
        str,
        typer.Option(
            help="What a decision costs in simulated time: none, fixed(seconds=0.5), measured(factor=10), "
            "modelled(seconds=1e-6, a=1, b=1) for seconds * jobs^a * processors^b, or "
            "replayed(trace='OUT/easy') for what an earlier run was charged."
        ),
    ] = "none",
    reasons: Annotated[
        bool, typer.Option("--reasons", help="Keep in the trace why jobs are passed over (for `sil why`).")
    ] = False,
    jobs: Annotated[
        str | None,
        typer.Option(
            metavar="A:B", help="Only these: places in the order of submission, from 0 on, without B."
        ),
    ] = None,
    begin: Annotated[
        datetime | None, typer.Option("--from", help="Only jobs submitted from then on (UTC).")
    ] = None,
    end: Annotated[datetime | None, typer.Option("--to", help="Only jobs submitted before (UTC).")] = None,
    load: Annotated[
        float | None, typer.Option(help="So many times the load: times between arrivals are divided by it.")
    ] = None,
    processors: Annotated[
        int | None, typer.Option(min=1, help="Instead of what the log says of the machine.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a log that needs repairs.")] = False,
    overrun: Annotated[
        Overrun,
        typer.Option(help="Of jobs that ran for longer than asked for: raise the estimate, or cut the run."),
    ] = Overrun.RAISE,
    too_large: Annotated[
        TooLarge, typer.Option(help="Jobs that are larger than the machine: clip them, skip them, or stop.")
    ] = TooLarge.CLIP,
    out_folder: Annotated[
        Path | None, typer.Option("--out", help="Folder for the results. Default: sil-LOG.")
    ] = None,
    workers: Annotated[
        int, typer.Option(min=1, help="Processes to run on, at most. The results do not depend on it.")
    ] = os.cpu_count() or 1,
    no_report: Annotated[bool, typer.Option("--no-report", help="Do not write report.html.")] = False,
) -> None:
    """Replay a log of rigid jobs under backfilling schedulers, and compare them.

    Writes, for each scheduler, jobs.csv and schedule.csv with Batsim's columns, trace.parquet and
    timings.parquet; and report.html and summary.json over all.
    """
    if not log.exists():  # before anything is loaded
        fail(f"{log}: there is no such file")
    from sil.experiment.logs import read_log
    from sil.experiment.replay_folder import REPORT
    from sil.experiment.replays import ReplayInterrupted, left_from_before, replay_all
    from sil.runs.on_log import Replay
    from sil.runs.under_test import check_for_free_nodes
    from sil.settings.decision_costs import check_decision_cost
    from sil.workload.job_log import part_of
    from sil.world.events import ORDERS

    if order not in ORDERS:
        fail(f"there is no order of events '{order}'; there are {', '.join(ORDERS)}")
    names = list(dict.fromkeys(scheduler or ["fcfs", "easy", "conservative"]))
    with one_sentence_for_bad_input():
        check_for_free_nodes(names)
        check_decision_cost(decision_cost)
        whole = read_log(log, Rules(strict, overrun, too_large), processors)
        chosen = part_of(whole, jobs, begin, end, load)
        for note in chosen.notes:
            print_note(note)
        if estimates is Estimates.HISTORY and (unknown := int((chosen.jobs["user"] < 0).sum())):
            print_note(
                f"the users of {counted(unknown, 'job')} are not known; what was asked for is believed"
            )
        folder = out_folder or Path(f"sil-{log.name.split('.')[0]}")
        with progress("jobs") as bars:
            try:
                bar = ProgressBar(bars, chosen.name)
                replayed = Replay(chosen, estimates, order, decision_cost, reasons)
                outcomes = replay_all(replayed, names, folder, workers, not no_report, bar)
            except (KeyboardInterrupt, ReplayInterrupted):
                bars.stop()
                err.print(f"Interrupted; what was done is in {folder}, without a report.")
                raise typer.Exit(EXIT_INTERRUPTED) from None
    out.print(chosen.summary, highlight=False, soft_wrap=True)
    print_whole(statistics_table({o.scheduler: o.statistics for o in outcomes}))
    for outcome in outcomes:
        if outcome.fault is not None:
            print_fault(outcome.fault)
    if older := left_from_before(folder, outcomes):
        print_note(f"{folder} still has results of an earlier replay: {', '.join(older)}")
    look = "" if no_report else f"; open {folder / REPORT} in a browser"
    out.print(f"Results are in {folder}{look}.", soft_wrap=True)
    if any(outcome.fault for outcome in outcomes):
        raise typer.Exit(EXIT_FAULT)


def statistics_table(statistics: Mapping[str, Mapping[str, float]]) -> Table:
    """A row for each statistic, a column for each scheduler."""
    from sil.report.replay_tables import rows_of_statistics

    table = Table()
    table.add_column("")
    for name in statistics:
        table.add_column(name, justify="right")
    for label, texts in rows_of_statistics(statistics):
        table.add_row(label, *texts)
    return table
