"""`sil validate`: a site's accounting replayed under its policies, and held against what happened."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from rich.table import Table
from typer import Option

from sil.cli import console, options
from sil.cli.progress import TerminalProgress, progress
from sil.site.logs import Validating
from sil.workers.execution import Execution


def validate(
    *,
    accounting: Annotated[
        Path,
        Option(metavar="FILE", help="Accounting, as printed by sacct (see `sil db import-sacct --help`)."),
    ],
    scheduler: options.SchedulersOfLogs = None,
    how: Validating,
    out_folder: Annotated[Path | None, options.folder("sil-ACCOUNTING")] = None,
    where: Execution,
    as_json: options.Json = False,
) -> None:
    """Replay a site's accounting under its stated policies, and say what the result is good enough for.

    Starts, waits, order and utilisation are compared with what happened, with intervals, and there is a
    verdict for each use: mean waits, utilisation, choosing between settings, purchases, and the waits of
    each partition, account and QOS. The default scheduler is easy. Writes validation.html, verdicts.json,
    starts.csv and the results of `sil replay`.
    """
    if not accounting.exists():
        console.fail(f"{accounting}: there is no such file")
    from sil.experiment.output_folder import default_folder
    from sil.experiment.replay_folder import render
    from sil.rehearsal import VALIDATION
    from sil.rehearsal.run import rehearse
    from sil.rehearsal.sections import judged_title
    from sil.rehearsal.validation import PAGE, read_validation, validated, write_validation
    from sil.runs.under_test import notes_on_slurm, schedulers_for_logs, with_releases

    folder = out_folder or default_folder(accounting.name.split(".")[0])
    schedulers = with_releases(schedulers_for_logs(list(dict.fromkeys(scheduler or ["easy"])), True))
    month, replay = validated(accounting, how, schedulers)
    notes = [] if how.cluster is None or month.events.options else how.cluster.notes
    for note in (*notes, *month.log.notes, *notes_on_slurm(schedulers)):
        console.print_note(note)
    with progress("jobs") as bars, where.executor() as executor:
        bar = TerminalProgress(bars, month.log.name)
        outcomes = rehearse(month, replay, schedulers, folder, executor, bar, VALIDATION)
    render(folder)
    found = read_validation(folder)
    write_validation(folder, found)
    if as_json:
        console.print_json(found.as_dict())
    else:
        table = Table("use", *found.found)
        verdicts = [
            {judged_title(each): each.grade.value for each in of.judgements} for of in found.found.values()
        ]
        for title in dict.fromkeys(title for each in verdicts for title in each):
            table.add_row(title, *(each.get(title, "") for each in verdicts))
        for name, of in found.found.items():
            for text in of.facts():
                console.print_line(f"{name}: {text}")
        console.print_table(table, table)
        console.print_line(f"Results are in {folder}; open {folder / PAGE} in a browser.")
    console.exit_on_faults(outcome.fault for outcome in outcomes if outcome.fault is not None)
