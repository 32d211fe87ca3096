"""The report of a replayed log: one HTML file that works offline."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, PackageLoader, select_autoescape

from sil.outcome.batsim_tables import Replayed
from sil.report.experiment import script_safe, vega
from sil.report.figures import Figure, save, styled
from sil.report.replay_figures import (
    BINS,
    gantt,
    queue_length,
    slowdown_by_size,
    utilisation,
    waiting_distribution,
)
from sil.report.replay_tables import rows_of_statistics


def write_replay_report(path: Path, replayed: Replayed) -> None:
    described, charts = replayed.described, _charts(replayed)
    specifications = {
        f"chart-{k}": styled(chart).to_dict() for k, chart in enumerate(charts.values(), start=1)
    }
    environment = Environment(
        loader=PackageLoader("sil.report", "."), autoescape=select_autoescape(default=True)
    )
    page = environment.get_template("replay.html.j2").render(
        d=described,
        names=list(described["schedulers"]),
        rows=rows_of_statistics(replayed.statistics),
        faults=replayed.faults,
        titles=list(charts),
        notes=_NOTES,
        charts=script_safe(json.dumps(specifications)),
        vega=vega(),
    )
    path.write_text(page, encoding="utf-8")


def write_replay_figures(folder: Path, kind: str, replayed: Replayed) -> list[Path]:
    """Write every chart of the report as a file of its own: `kind` is png, svg or pdf."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for title, chart in _charts(replayed).items():
        paths.append(folder / f"{re.sub(r'[^a-z0-9]+', '-', title.lower()).strip('-')}.{kind}")
        save(chart, str(paths[-1]))
    return paths


def _charts(replayed: Replayed) -> Mapping[str, Figure]:
    """By title."""
    jobs, processors = replayed.jobs, int(replayed.described["processors"])
    if not jobs:
        return {}
    return {
        "Jobs that wait": queue_length(jobs),
        "Processors in use": utilisation(jobs, processors),
        "Waiting time": waiting_distribution(jobs),
        "Slowdown by size of job": slowdown_by_size(jobs),
        **{f"Schedule of {name}": gantt(table, processors) for name, table in jobs.items()},
    }


_NOTES = {
    "Jobs that wait": f"Means over {BINS} equal stretches of time.",
    "Processors in use": f"Means over {BINS} equal stretches of time.",
    "Waiting time": "The share of jobs that wait for at most so long.",
    "Slowdown by size of job": "Bounded slowdown, threshold 10 s. A dot is the mean, a line goes from the "
    "median to the value that 95 % of the jobs do not exceed; a dot above its line: few jobs wait very long.",
}
