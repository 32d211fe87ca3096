"""What is printed and shown of replayed logs: a row for each statistic, a column for each scheduler."""

from __future__ import annotations

from collections.abc import Mapping

from sil.outcome.replayed_jobs import OF_JOBS, STATISTICS

_WHAT = {
    "waiting_time": ("Waiting time", "s", 1),
    "turnaround_time": ("Turnaround", "s", 1),
    "bounded_slowdown": ("Bounded slowdown", "", 3),
}
_HOW = {"mean": "mean", "median": "median", "p95": "95th percentile", "max": "maximum"}


def rows_of_statistics(statistics: Mapping[str, Mapping[str, float]]) -> list[tuple[str, list[str]]]:
    """(label, a text for each scheduler); "-" where a scheduler has none."""
    keys = [
        (f"{_WHAT[name][0]}, {_HOW[what]}", _WHAT[name][1], f"{name}_{what}", _WHAT[name][2])
        for name in OF_JOBS
        for what in STATISTICS
    ]
    keys += [("Utilisation", "%", "utilisation", 2), ("Makespan", "s", "makespan", 0)]
    return [
        (
            f"{label} ({unit})" if unit else label,
            [f"{found[key]:,.{digits}f}" if key in found else "-" for found in statistics.values()],
        )
        for label, unit, key, digits in keys
    ]
