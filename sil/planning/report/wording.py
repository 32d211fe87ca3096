"""Numbers and lists of names in sentences and tables."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10

from sil.outcome.statistics import Interval


def share_text(share: float) -> str:
    """A share in percent, to two digits."""
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"


def figure(value: float) -> str:
    """Of a goal: four digits, or more where it has more before the decimal point."""
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.4g}"


def money(amount: float) -> str:
    return f"{amount:,.0f}" if amount == round(amount) else f"{amount:,.2f}"


def interval(found: Interval) -> str:
    """A mean and its half-width, both to the second significant digit of the half-width; the mean alone if
    there is no half-width."""
    width = found.half_width or 0.0
    places = max(0, 1 - floor(log10(width))) if width > 0.0 else 1
    return found.text(f",.{places}f", plus_minus="± ")


def percentage(found: Interval, sign: str = "") -> str:
    """A mean and its half-width with one decimal; `sign` is that of a format specification."""
    return found.text(".1f", sign, "± ")


def listed(names: Sequence[str]) -> str:
    *first, last = [f"'{name}'" for name in names]
    return f"{', '.join(first)} and {last}" if first else last
