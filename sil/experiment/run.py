"""One experiment from its file to its results folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl

from scheduler import registry
from sil.experiment.config import Experiment
from sil.experiment.provenance import describe, fingerprint
from sil.experiment.sweep import Sweep
from sil.experiment.wiring import import_site, problems
from sil.outcome.comparison import Comparison
from sil.outcome.jobs import job_table, write_jobs_csv
from sil.outcome.metrics import run_metrics
from sil.outcome.report import write_figures, write_report
from sil.outcome.trace import TIMINGS_SCHEMA, RunDescription, read_trace, write_trace
from site_db import toml_file

TRACE = "trace.parquet"
TIMINGS = "timings.parquet"
JOBS = "jobs.csv"
SUMMARY = "summary.json"
REPORT = "report.html"
DATABASE = "site.db"
FIGURES = "figures"
PARTS = "parts"


class UnusableFolder(ValueError):
    """The output folder cannot be written. The message is one sentence for the user."""


def run_experiment(
    experiment: Experiment,
    source: Path,
    out: Path,
    workers: int,
    on_start: Callable[[int, int], None],
    on_progress: Callable[[int], None],
) -> Comparison:
    """Run the experiment that was read from `source` and write its results into `out`.

    `on_start` is told how many replications are done already and how many there are, `on_progress` how many
    are done. Raises UnusableFolder, InvalidFile, SchedulerNotLoaded, Interrupted.
    """
    _make_usable(out)
    in_use = import_site(experiment, source.parent, out / DATABASE)
    for place, sentence in problems(experiment, in_use):
        raise toml_file.invalid(toml_file.read_text(source), source, place, sentence)
    for name in (*experiment.schedulers, *(own for _, own in in_use.queues if own)):
        registry.load(name)
    sweep = Sweep(experiment, in_use, out / PARTS, fingerprint(experiment, in_use))
    on_start(sweep.done, sweep.total)
    sweep.run(workers, on_progress)
    facts, timings = sweep.collect()
    write_trace(out / TRACE, facts, describe(experiment, in_use))
    timings.write_parquet(out / TIMINGS)
    comparison = render(out)
    sweep.clear()
    return comparison


def render(out: Path) -> Comparison:
    """Write everything that follows from the trace in `out`: jobs.csv, summary.json, report.html.

    Raises NoTrace.
    """
    facts, description = read_trace(out / TRACE)
    jobs, comparison = evaluate(facts, _timings(out), description)
    write_jobs_csv(out / JOBS, jobs)
    summary = json.dumps(comparison.as_dict(), indent=2, ensure_ascii=False)
    (out / SUMMARY).write_text(summary + "\n", encoding="utf-8")
    write_report(out / REPORT, facts, jobs, comparison)
    return comparison


def draw(out: Path, kind: str) -> list[Path]:
    """Write the charts of the report in `out` as files (png, svg or pdf) into its folder `figures`."""
    facts, description = read_trace(out / TRACE)
    jobs, comparison = evaluate(facts, _timings(out), description)
    return write_figures(out / FIGURES, kind, facts, jobs, comparison)


def evaluate(
    facts: pl.DataFrame, timings: pl.DataFrame, description: RunDescription
) -> tuple[pl.DataFrame, Comparison]:
    """The table of jobs and the comparison that a trace amounts to."""
    jobs = job_table(facts, description.n_machines)
    return jobs, Comparison(description, facts, run_metrics(facts, jobs, timings, description.n_machines))


def _timings(out: Path) -> pl.DataFrame:
    """Measured times; the trace stands without them."""
    path = out / TIMINGS
    return pl.read_parquet(path) if path.is_file() else pl.DataFrame(schema=TIMINGS_SCHEMA)


def _make_usable(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UnusableFolder(
            f"the folder {out} cannot be written: {error.strerror}; name another with --out"
        ) from None
