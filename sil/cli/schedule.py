"""`sil schedule` maps one ETC matrix; `sil schedulers` lists the schedulers."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sil.cli import console, options
from sil.cli.listing import Column, Listing, number, print_listings, text

if TYPE_CHECKING:
    from scheduler.registry import Entry

SCREEN = 100
"""Columns of the listing of schedulers, at least; longer summaries are cut there."""


COLUMNS = (
    text("scheduler"),
    number("makespan (s)", "makespan_s", ",.3f"),
    number("sum of completion times (s)", "sum_completion_times_s", ",.3f"),
    Column("decision (ms)", lambda row: f"{1e3 * row['decision_s']:,.2f}", is_number=True),
)


def schedule(
    matrix: Annotated[
        Path,
        typer.Argument(
            help="Expected seconds, a row per job and a column per machine: .csv, .npy, or the HCSP text "
            "format (a line `jobs machines 0`, then a value per line, job by job); text may be gzipped."
        ),
    ],
    scheduler: Annotated[
        list[str] | None,
        typer.Option(help="May be repeated. Default: all built-in ones except the optimising."),
    ] = None,
    ready: Annotated[
        Path | None, typer.Option(help="A file with each machine's ready time in seconds. Default: 0.")
    ] = None,
    as_json: options.Json = False,
    out_file: Annotated[
        Path | None, typer.Option("--out", help="Write job, machine, start, completion to this CSV file.")
    ] = None,
    decision_limit: options.DecisionLimit = 3600.0,
    limit: Annotated[float | None, typer.Option("--limit", min=0.001, hidden=True)] = None,
) -> None:
    """Map one ETC matrix; print makespan, sum of completion times and decision time."""
    from scheduler import registry
    from scheduler.kinds import Kind
    from sil.experiment.matrix import map_matrix, read_problem, write_mapping
    from sil.world.guard.faults import SchedulerFault

    mapped, faults = [], []
    with console.one_sentence_for_bad_input():
        names = scheduler or [name for name in registry.BUILT_IN if name not in registry.OPTIMISING]
        specs = [registry.resolve(name) for name in names]
        for spec in specs:
            spec.require(Kind.MAPPING, "a matrix")
        problem = read_problem(matrix, ready)
        for spec in specs:
            try:
                mapped.append(map_matrix(problem, spec, limit or decision_limit))
            except SchedulerFault as fault:
                faults.append(f"{spec.name} broke the rule {fault}")
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
        console.print_json(rows)
    else:
        title = f"{problem.n_jobs} jobs on {problem.etc.n_resources} machines"
        print_listings([Listing("mappings", title, COLUMNS, rows)])
    for result in mapped:
        if n := len(result.schedule.wait_reasons):
            left = f"{result.scheduler} left {n:,} of {problem.n_jobs:,} jobs waiting"
            console.print_note(f"{left}; the times exclude them")
    console.exit_on_faults(faults)


def schedulers(as_json: options.Json = False) -> None:
    """List the schedulers by kind: built-in ones and plug-ins."""
    from scheduler import registry

    groups: dict[str, list[Entry]] = {}
    for entry in registry.entries():
        groups.setdefault(entry.kind or "plug-in", []).append(entry)
    if as_json:
        console.print_json(
            [asdict(entry) | {"kind": name} for name, entries in groups.items() for entry in entries]
        )
        return
    room = max(console.out.width, SCREEN)
    for heading, entries in groups.items():
        print(f"{heading}:")
        for entry in entries:
            what = entry.target if "(" in entry.target else entry.summary
            line = f"  {entry.name:16}{what}"
            print(line if len(line) <= room else line[: room - 1] + "…")
    print("A class of your own is named module:Class, relative to the current folder; --json has details.")
