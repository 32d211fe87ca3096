"""`sil workload`: logs and synthetic workloads, as files."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from sil.cli.console import one_sentence_for_bad_input, out, print_note
from sil.workload.swf_rules import Overrun, Rules, TooLarge

app = typer.Typer(
    no_args_is_help=True,
    help="Logs of rigid jobs (.swf, .swf.gz) and Batsim's workloads (.json, .json.gz): look at them, cut "
    "them, convert them, and make synthetic ones.",
)

Log = Annotated[Path, typer.Argument(help="A log: .swf, .swf.gz, .json or .json.gz.")]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse a log that needs repairs.")]
Processors = Annotated[int | None, typer.Option(min=1, help="Instead of what the log says of the machine.")]


@app.command()
def show(log: Log, strict: Strict = False, processors: Processors = None) -> None:
    """Tell what is in a log, and what has to be repaired in it."""
    from sil.experiment.logs import read_log

    with one_sentence_for_bad_input():
        found = read_log(log, Rules(strict), processors)
    for note in found.notes:
        print_note(note)
    out.print(found.summary, highlight=False)
    columns = {"run time (s)": "run_s", "estimate (s)": "estimate_s", "processors": "processors"}
    for label, column in columns.items():
        values = found.jobs[column]
        figures = (values.mean(), values.median(), values.max())
        mean, median, largest = (f"{float(value):,.0f}" for value in figures)  # type: ignore[arg-type]
        out.print(f"{label}: mean {mean}, median {median}, maximum {largest}", highlight=False)
    users = found.jobs["user"].unique()
    out.print(f"users: {int((users >= 0).sum()):,} known", highlight=False)


@app.command()
def convert(
    log: Log,
    target: Annotated[Path, typer.Argument(help="The file to write; its name says the format.")],
    strict: Strict = False,
    processors: Processors = None,
    overrun: Annotated[
        Overrun,
        typer.Option(help="Jobs that ran for too long: raise the estimate, or cut the run."),
    ] = Overrun.RAISE,
    too_large: Annotated[
        TooLarge, typer.Option(help="Jobs that are larger than the machine: clip them, skip them, or stop.")
    ] = TooLarge.CLIP,
    jobs: Annotated[
        str | None,
        typer.Option(metavar="A:B", help="Only these places in the order of submission."),
    ] = None,
    begin: Annotated[
        datetime | None, typer.Option("--from", help="Only jobs submitted from then on (UTC).")
    ] = None,
    end: Annotated[datetime | None, typer.Option("--to", help="Only jobs submitted before (UTC).")] = None,
    load: Annotated[
        float | None, typer.Option(help="So many times the load: times between arrivals are divided by it.")
    ] = None,
) -> None:
    """Write a log, repaired and cut, in the other format or the same."""
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
        float | None, typer.Option(help="The offered load, like 0.9. Default: what the model gives.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
) -> None:
    """Make a synthetic workload by the model of Lublin and Feitelson (2003)."""
    import numpy as np

    from sil.experiment.logs import write_log
    from sil.workload.lublin import Lublin

    luck = np.random.default_rng(seed)
    with one_sentence_for_bad_input():
        made = Lublin().jobs(jobs, processors, luck)
        if load is not None:
            made = made.at_load(load)
        write_log(target, made)
    out.print(f"Written: {target} ({made.summary})", highlight=False, soft_wrap=True)
