"""`sil schedule` maps one ETC matrix; `sil schedulers` tells who can."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from sil.cli.console import EXIT_FAULT, one_sentence_for_bad_input, out, print_fault, print_note


def schedule(
    matrix: Annotated[
        Path,
        typer.Argument(
            help="Expected seconds, a row per job and a column per machine: .csv, .npy, or the HCSP text "
            "format (a line `jobs machines 0`, then a value per line, job by job); text may be gzipped."
        ),
    ],
    scheduler: Annotated[
        list[str] | None, typer.Option(help="May be repeated. Default: all built-in ones but the optimising.")
    ] = None,
    ready: Annotated[
        Path | None, typer.Option(help="A file with each machine's ready time in seconds; 0 without.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    out_file: Annotated[
        Path | None, typer.Option("--out", help="Write job, machine, start, completion to this CSV file.")
    ] = None,
    limit_s: Annotated[
        float, typer.Option("--limit", min=0.001, help="Seconds that one decision may take.")
    ] = 3600.0,
) -> None:
    """Map one ETC matrix and tell makespan, sum of completion times and decision time."""
    import json

    from scheduler import registry
    from sil.experiment.matrix import map_matrix, read_problem, write_mapping
    from sil.world.guard.faults import SchedulerFault

    mapped, faults = [], []
    with one_sentence_for_bad_input():
        names = scheduler or [name for name in registry.BUILT_IN if name not in registry.OPTIMISING]
        for name in names:
            registry.load(name)
        problem = read_problem(matrix, ready)
        for name in names:
            try:
                mapped.append(map_matrix(problem, name, limit_s))
            except SchedulerFault as fault:
                faults.append(f"{name} broke the rule {fault}")
        if out_file is not None:
            write_mapping(out_file, mapped)
    rows = [
        {
            "scheduler": result.scheduler,
            "makespan_s": result.schedule.makespan_s,
            "sum_completion_times_s": result.schedule.sum_completion_s,
            "decision_s": result.decision_s,
        }
        for result in mapped
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
    else:
        table = Table(
            title=f"{problem.n_jobs} jobs on {problem.etc.n_resources} machines", title_justify="left"
        )
        table.add_column("scheduler")
        for column in ("makespan (s)", "sum of completion times (s)", "decision (ms)"):
            table.add_column(column, justify="right")
        for result in mapped:
            made = result.schedule
            times = (f"{made.makespan_s:,.3f}", f"{made.sum_completion_s:,.3f}")
            table.add_row(result.scheduler, *times, f"{1e3 * result.decision_s:,.2f}")
        out.print(table)
    for result in mapped:
        n = len(result.schedule.wait_reasons)
        if n:
            print_note(
                f"{result.scheduler} left {n:,} of {problem.n_jobs:,} jobs waiting, which count in no time"
            )
    for sentence in faults:
        print_fault(sentence)
    if faults:
        raise typer.Exit(EXIT_FAULT)


def schedulers() -> None:
    """List the schedulers that can be named, and where each comes from."""
    from scheduler import registry

    table = Table()
    for column in ("name", "source", "class", "what it does"):
        table.add_column(column, overflow="fold")
    for entry in registry.entries():
        table.add_row(entry.name, entry.source, entry.target, entry.summary)
    out.print(table)
    out.print("A class of your own is named as module:Class, found from the current folder.")
