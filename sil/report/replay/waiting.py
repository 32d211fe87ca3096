"""How long jobs wait."""

from __future__ import annotations

from collections.abc import Sequence

from sil.report.figures import distribution
from sil.report.replay import Jobs
from sil.report.vega_lite import Figure


def waiting_distribution(jobs: Jobs, names: Sequence[str]) -> Figure:
    """The share of jobs that wait for at most a time."""
    waits_s = {name: table["waiting_time"] for name, table in jobs.items()}
    title = "Waiting time (log scale; less than 1 s is drawn at 1 s)"
    return distribution(waits_s, names, title, least=1.0)
