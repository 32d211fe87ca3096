"""What is printed and shown of replayed logs: a row for each statistic, a column for each scheduler."""

from __future__ import annotations

from collections.abc import Mapping

from sil.outcome.metrics import REPLAY_METRICS


def rows_of_statistics(statistics: Mapping[str, Mapping[str, float]]) -> list[tuple[str, list[str]]]:
    """(label, a text for each scheduler); "-" where a scheduler has none."""
    return [
        (m.label, [f"{found[name]:,.{m.digits}f}" if name in found else "-" for found in statistics.values()])
        for name, m in REPLAY_METRICS.items()
    ]
