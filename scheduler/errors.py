"""Errors for the user."""

from __future__ import annotations


class UserError(ValueError):
    """An error that the user can correct. The message is one sentence for the user."""
