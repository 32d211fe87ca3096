"""`sil reproduce`: the papers' studies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from sil.cli.console import (
    EXIT_FAULT,
    JsonOption,
    one_sentence_for_bad_input,
    out,
    print_fault,
    print_json,
    print_whole,
)
from sil.cli.options import WORKERS, DaskOption, WorkersOption
from sil.cli.progress import ProgressBar, progress

if TYPE_CHECKING:
    import polars as pl

    from sil.studies.findings import Findings
    from sil.workers.runner import Runner

LEAST_SEEDS = 2
COLOURS = {"holds": "green", "does not hold": "red"}
"""Of verdicts; the others are yellow."""


class Study(StrEnum):
    """What can be reproduced."""

    CS1 = "cs1"
    CS2 = "cs2"
    CS3 = "cs3"
    CS4 = "cs4"
    ALL_PJS = "all-pjs"
    ROBUSTNESS = "robustness"
    PREEMPTION = "preemption"
    CISNE_TABLE1 = "cisne-table1"
    CISNE_FIG3 = "cisne-fig3"
    CISNE_HYBRID = "cisne-hybrid"
    CISNEP_DYN = "cisnep-dyn"
    CISNEP_USER_SPACE = "cisnep-user-space"


def reproduce(
    study: Annotated[
        Study,
        typer.Argument(
            help="A case study of Collins and George 2001, all four of them (all-pjs), or its future work "
            "(robustness, preemption); or a study of the papers on CISNE and CISNE-P."
        ),
    ],
    out_folder: Annotated[
        Path, typer.Option("--out", help="Folder for the results, with a subfolder for each study.")
    ] = Path("sil-reproduced"),
    seeds: Annotated[
        int, typer.Option(min=LEAST_SEEDS, help="Replications of studies with random numbers.")
    ] = 20,
    workers: WorkersOption = WORKERS,
    dask: DaskOption = None,
    as_json: JsonOption = False,
) -> None:
    """Reproduce a paper's study and check each of its claims against the results.

    Prints the claims ledger: the paper's claim, our result, and a verdict by a rule fixed in advance. Writes
    page.html (open it in a browser), ledger.csv, the tables as CSV, and the paper's figures as PNG, SVG and
    PDF. The same command resumes an interrupted study.
    """
    from sil.experiment.output_folder import make_usable
    from sil.studies import CASE_STUDIES
    from sil.studies.page import PAGE, write_findings
    from sil.workers.runner import Runner
    from sil.workers.selection import selected_executor
    from sil.workers.store import Store

    names = CASE_STUDIES if study is Study.ALL_PJS else (study.value,)
    found: list[dict[str, Any]] = []
    with one_sentence_for_bad_input():
        make_usable(out_folder)
        with selected_executor(workers, dask) as executor:
            for name in names:
                folder = out_folder / name
                with Store(out_folder / f"{name}.unfinished.db") as store:
                    findings = _findings(name, seeds, Runner(executor, store))
                    write_findings(folder, findings)
                    store.remove()
                found.append(_as_dict(findings))
                if not as_json:
                    _show(findings)
                    out.print(
                        f"Results are in {folder}; open {folder / PAGE} in a browser.\n", soft_wrap=True
                    )
    if as_json:
        print_json(found)


def _findings(name: str, seeds: int, runner: Runner) -> Findings:
    """Carry out a study. A fault of a scheduler ends the command."""
    from importlib import import_module

    from sil.studies import MODULES
    from sil.studies.findings import StudyFailed

    study: Callable[[int, Runner], Findings] = import_module(f"sil.studies.{MODULES[name]}").study

    with progress("runs") as bars:
        runner.on_progress = ProgressBar(bars, name).progressed
        try:
            return study(seeds, runner)
        except StudyFailed as failed:
            bars.stop()
            print_fault(str(failed))
            raise typer.Exit(EXIT_FAULT) from None


def _as_dict(findings: Findings) -> dict[str, Any]:
    """For JSON: texts, claims, and tables as lists of rows."""
    texts = {key: getattr(findings, key) for key in ("name", "title", "source", "method")}
    tables = {title: frame.to_dicts() for title, frame in findings.tables.items()}
    return texts | {"claims": [asdict(claim) for claim in findings.claims], "tables": tables}


def _show(findings: Findings) -> None:
    out.print(f"\n[bold]{findings.title}[/bold] ({findings.source})")
    for title, frame in findings.tables.items():
        print_whole(_as_table(title, frame))
    for k, claim in enumerate(findings.claims, start=1):
        colour = COLOURS.get(claim.verdict, "yellow")
        out.print(f"\n{k}. {claim.claim}: [{colour}]{claim.verdict.value}[/]", highlight=False)
        for what, text in (("paper", claim.paper), ("here", claim.ours), ("holds if", claim.rule)):
            line = Table.grid(padding=(0, 2))
            line.add_column(width=len("   holds if"), style="dim")
            line.add_row(f"   {what}", escape(text))
            out.print(line)


def _as_table(title: str, frame: pl.DataFrame) -> Table:
    table = Table(title=title, title_justify="left")
    for name, kind in frame.schema.items():
        table.add_column(name, justify="right" if kind.is_numeric() else "left", no_wrap=True)
    for row in frame.rows():
        table.add_row(*(f"{cell:,}" if isinstance(cell, (int, float)) else str(cell) for cell in row))
    return table
