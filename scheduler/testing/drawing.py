"""Hypothesis, which draws the problems, and is installed only where schedulers are examined."""

from __future__ import annotations

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

__all__ = ["FlakyFailure", "HealthCheck", "Phase", "given", "settings", "st"]
