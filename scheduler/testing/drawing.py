"""Hypothesis, which draws the problems, and is installed only where schedulers are examined."""

from __future__ import annotations

from functools import cache
from typing import TypeVar

from scheduler.messages import UserError

try:
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import strategies as st
    from hypothesis.errors import FlakyFailure
except ImportError as error:
    raise UserError(
        "the problems for examining a scheduler are drawn by Hypothesis, which is not installed; install it "
        "with: pip install 'sil-testbed[testing]'"
    ) from error

__all__ = ["FlakyFailure", "HealthCheck", "Phase", "exactly", "given", "settings", "st"]

T = TypeVar("T")


@cache
def exactly(n: int, each: st.SearchStrategy[T]) -> st.SearchStrategy[list[T]]:
    """Lists of n. Made once, like all strategies, since making one costs more than drawing from it."""
    return st.lists(each, min_size=n, max_size=n)
