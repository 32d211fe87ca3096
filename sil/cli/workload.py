"""`sil workload`: inspects, converts and generates workload files."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from sil.cli.console import JsonOption, one_sentence_for_bad_input, out, print_json, print_note
from sil.workload.swf_rules import Overrun, Rules, TooLarge

app = typer.Typer(
    no_args_is_help=True,
    help="Inspect, cut, convert and generate workloads: logs of rigid jobs (.swf, .swf.gz) and Batsim "
    "workloads (.json, .json.gz).",
)

Log = Annotated[Path, typer.Argument(help="A log: .swf, .swf.gz, .json or .json.gz.")]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse a log that needs repairs.")]
Processors = Annotated[int | None, typer.Option(min=1, help="Override the machine size in the log.")]


@app.command()
def show(
    log: Log, strict: Strict = False, processors: Processors = None, as_json: JsonOption = False
) -> None:
    """Summarise a log and list the repairs that it needs."""
    from sil.experiment.logs import read_log

    with one_sentence_for_bad_input():
        found = read_log(log, Rules(strict), processors)
    for note in found.notes:
        print_note(note)
    users = int((found.jobs["user"].unique() >= 0).sum())
    columns = {"run_s": "run time (s)", "estimate_s": "estimate (s)", "processors": "processors"}
    figures = {
        column: {"mean": values.mean(), "median": values.median(), "maximum": values.max()}
        for column, values in found.jobs.select(*columns).to_dict().items()
    }
    if as_json:
        print_json({"log": found.name, "jobs": len(found.jobs), "users": users, **figures})
        return
    out.print(found.summary, highlight=False)
    for column, label in columns.items():
        texts = [f"{what} {float(value):,.0f}" for what, value in figures[column].items()]  # type: ignore[arg-type]
        out.print(f"{label}: {', '.join(texts)}", highlight=False)
    out.print(f"users: {users:,} known", highlight=False)


@app.command()
def convert(
    log: Log,
    target: Annotated[Path, typer.Argument(help="The file to write; its suffix selects the format.")],
    strict: Strict = False,
    processors: Processors = None,
    overrun: Annotated[
        Overrun,
        typer.Option(help="Jobs that exceeded their estimate: raise the estimate, or cut the run."),
    ] = Overrun.RAISE,
    too_large: Annotated[
        TooLarge, typer.Option(help="Jobs larger than the machine: clip them, skip them, or fail.")
    ] = TooLarge.CLIP,
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
) -> None:
    """Repair and cut a log, and write it in the same or the other format."""
    from sil.experiment.logs import read_log, write_log
    from sil.workload.job_log import part_of

    with one_sentence_for_bad_input():
        found = part_of(read_log(log, Rules(strict, overrun, too_large), processors), jobs, begin, end, load)
        write_log(target, found)
    for note in found.notes:
        print_note(note)
    out.print(f"Written: {target} ({found.summary})", highlight=False, soft_wrap=True)


@app.command()
def lublin(
    target: Annotated[Path, typer.Argument(help="The file to write: .swf, .swf.gz, .json or .json.gz.")],
    jobs: Annotated[int, typer.Option(min=1)] = 10_000,
    processors: Annotated[int, typer.Option(min=2)] = 128,
    load: Annotated[
        float | None, typer.Option(help="The offered load, such as 0.9. Default: that of the model.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
) -> None:
    """Generate a synthetic workload with the model of Lublin and Feitelson (2003)."""
    import numpy as np

    from sil.experiment.logs import write_log
    from sil.workload.lublin import Lublin

    generator = np.random.default_rng(seed)
    with one_sentence_for_bad_input():
        made = Lublin().jobs(jobs, processors, generator)
        if load is not None:
            made = made.at_load(load)
        write_log(target, made)
    out.print(f"Written: {target} ({made.summary})", highlight=False, soft_wrap=True)
