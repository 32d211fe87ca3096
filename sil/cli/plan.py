"""`sil plan`: what to buy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from click.exceptions import Exit
from rich.box import SIMPLE_HEAD
from rich.table import Table

from sil.cli import console, options
from sil.cli.parameters import Argument
from sil.cli.progress import TerminalProgress, progress
from sil.settings.replays import PlanOverrides
from sil.workers.execution import Execution

if TYPE_CHECKING:
    from sil.planning.answers import Answers


def plan(
    plan_file: Annotated[str, Argument(metavar="PLAN")],
    out_folder: Annotated[Path | None, options.folder("sil-plan-NAME")] = None,
    *,
    overrides: PlanOverrides,
    where: Execution,
    as_json: options.Json = False,
) -> None:
    """Answer a purchasing question: the effect of each offer, the best buy within a budget, sizing, and
    retirement.

    * `plan_file`: A plan file, or the name of a built-in one (five-offers, gpu-nodes, join-two-sites).

    Writes plan.html (open it in a browser), options.csv, job_classes.csv and the chart. Every finished run is
    stored in runs.db: the same command resumes an interrupted plan, and repeats no run.
    """
    from sil.workers.nursery import begin_early

    if where.dask is None:
        begin_early()  # before large libraries are loaded here
    from sil.api.planning import Asked
    from sil.experiment.output_folder import default_folder, make_usable
    from sil.planning.answers import AllAtFault, fault_texts
    from sil.planning.page import PAGE, as_dict, write_page
    from sil.report.origin import record_origin
    from sil.settings.foreign_code import ask_in_terminal

    consent = None if overrides.trust else ask_in_terminal
    asked = Asked.of(plan_file, overrides.site or None, overrides.changes, consent)
    asked = replace(asked, validation=overrides.validation)
    folder = out_folder or default_folder("plan", asked.plan.name)
    make_usable(folder)
    try:
        with progress("runs") as bars, where.executor() as executor:
            bar = TerminalProgress(bars, asked.plan.name)
            answers = asked.answered(folder, executor, bar.progressed, bar.look)
    except AllAtFault as none_left:
        for sentence in fault_texts(none_left.faults):
            console.print_fault(sentence)
        raise Exit(console.EXIT_FAULT) from None
    record_origin(folder, asked.inputs)
    write_page(folder, answers)
    if as_json:
        console.print_json(as_dict(answers))
    else:
        _show(answers)
        console.print_line(f"Results are in {folder}; open {folder / PAGE} in a browser.")
    console.exit_on_faults(fault_texts(answers.faults))


def _show(answers: Answers) -> None:
    from sil.planning import assumptions, recommendation
    from sil.planning.page import sections

    for k, section in enumerate(sections(answers)):
        if k:
            console.print_line("")
        for part in section.parts:
            if part.table is not None:
                table = Table(title=section.title, box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
                for heading in part.table.head:
                    is_text = heading in ("", "option", "offer", "job class")
                    table.add_column(heading, justify="left" if is_text else "right")
                for row in part.table.rows:
                    table.add_row(*map(str, row))
                console.print_table(table)
        if section.note:
            console.print_line(section.note)
    if answers.model:
        for line in (assumptions.forecast(answers), *assumptions.modelled(answers)):
            console.print_line(line)
    for sentence in (*([answers.validated.text] if answers.validated else ()), *assumptions.caveats(answers)):
        console.print_note(sentence)
    console.print_line("\n", console.styled(recommendation.recommendation(answers), "bold"))
