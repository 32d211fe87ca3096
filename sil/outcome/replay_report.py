"""The report of a replayed log: one HTML file that works offline."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from jinja2 import Environment, PackageLoader, select_autoescape

from sil.outcome import replay_figures as figures
from sil.outcome.figures import styled
from sil.outcome.replay_tables import rows_of_statistics
from sil.outcome.report import script_safe, vega


def write_replay_report(
    path: Path, described: Mapping[str, Any], jobs: Mapping[str, pl.DataFrame], faults: Sequence[str]
) -> None:
    """`jobs` are those of each scheduler (jobs.csv), `described` is what summary.json holds."""
    processors = int(described["processors"])
    charts = {}
    if jobs:
        charts = {
            "Jobs that wait": figures.queue_length(jobs),
            "Processors in use": figures.utilisation(jobs, processors),
            "Waiting time": figures.waiting_distribution(jobs),
            "Slowdown by size of job": figures.slowdown_by_size(jobs),
        }
        for name, table in jobs.items():
            charts[f"Schedule of {name}"] = figures.gantt(table, processors)
    specifications = {
        f"chart-{k}": styled(chart).to_dict() for k, chart in enumerate(charts.values(), start=1)
    }
    environment = Environment(
        loader=PackageLoader("sil.outcome", "."), autoescape=select_autoescape(default=True)
    )
    names = list(described["schedulers"])
    page = environment.get_template("replay.html.j2").render(
        d=described,
        names=names,
        rows=rows_of_statistics({name: described["schedulers"][name] for name in names}),
        faults=faults,
        titles=list(charts),
        notes=_NOTES,
        charts=script_safe(json.dumps(specifications)),
        vega=vega(),
    )
    path.write_text(page, encoding="utf-8")


_NOTES = {
    "Jobs that wait": f"Means over {figures.BINS} equal stretches of time.",
    "Processors in use": f"Means over {figures.BINS} equal stretches of time.",
    "Waiting time": "The share of jobs that wait for at most so long.",
    "Slowdown by size of job": "Bounded slowdown, threshold 10 s. A dot is the mean, a line goes from the "
    "median to the value that 95 % of the jobs do not exceed; a dot above its line: few jobs wait very long.",
}
