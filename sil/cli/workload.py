"""`sil workload`: inspects, converts and generates workload files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from sil.cli import console, options
from sil.cli.app import group
from sil.cli.parameters import CommandOption
from sil.workload.settings import LogPart, Rules

app = group(
    """Inspect, cut, convert and generate workloads: logs of rigid jobs (SWF), Batsim's workloads (JSON), and
    Slurm's accounting."""
)


@app.register()
def show(
    log: options.LogOrAccounting,
    processors: options.Processors = None,
    as_json: options.Json = False,
    *,
    rules: Rules,
) -> None:
    """Summarise a log and list the repairs that it needs."""
    from sil.site.logs import read_on_processors

    found = read_on_processors(log, rules, processors)
    for note in found.notes:
        console.print_note(note)
    users = int((found.jobs["user"].unique() >= 0).sum())
    columns = {"run_s": "run time (s)", "estimate_s": "estimate (s)", "processors": "processors"}
    figures = {
        column: {"mean": values.mean(), "median": values.median(), "maximum": values.max()}
        for column, values in found.jobs.select(*columns).to_dict().items()
    }
    if as_json:
        console.print_json({"log": found.name, "jobs": len(found.jobs), "users": users, **figures})
        return
    console.print_line(found.summary)
    for column, label in columns.items():
        texts = [f"{what} {float(value):,.0f}" for what, value in figures[column].items()]  # type: ignore[arg-type]
        console.print_line(f"{label}: {', '.join(texts)}")
    console.print_line(f"users: {users:,} known")


@app.register()
def convert(
    log: options.LogOrAccounting,
    target: Path,
    processors: options.Processors = None,
    *,
    rules: Rules,
    part: LogPart,
) -> None:
    """Repair and cut a log, and write it in the same or another format. Slurm's accounting becomes a log of
    the processors that its jobs had.

    * `target`: The file to write; its suffix selects the format.
    """
    from sil.site.logs import read_on_processors, write_log
    from sil.workload.job_log import on_scaled_days

    whole = read_on_processors(log, rules, processors, keep=True)
    found = part.of(whole)
    lost = write_log(target, found)
    for note in (*found.notes, *on_scaled_days([part.load or 1.0]), *lost):
        console.print_note(note)
    console.print_line(f"Written: {target} ({found.summary})")


@app.register()
def lublin(
    target: Path,
    jobs: Annotated[int, CommandOption(min=1)] = 10_000,
    processors: Annotated[int, CommandOption(min=2)] = 128,
    load: Annotated[float | None, options.LOAD] = None,
    seed: Annotated[int, CommandOption(min=0)] = 0,
) -> None:
    """Generate a synthetic workload with the model of Lublin and Feitelson (2003).

    * `target`: The file to write: .swf, .swf.gz, .json or .json.gz.
    * `jobs`: Number of jobs.
    * `processors`: Processors of the machine.
    * `load`: The offered load, such as 0.9. Default: that of the model.
    * `seed`: Seed of the random numbers.
    """
    import numpy as np

    from sil.site.logs import write_log
    from sil.workload.lublin import Lublin

    generator = np.random.default_rng(seed)
    made = Lublin().jobs(jobs, processors, generator, load)
    write_log(target, made)
    console.print_line(f"Written: {target} ({made.summary})")
