"""What is told to the user in one sentence."""

from __future__ import annotations


class UserError(ValueError):
    """What a user has to put right, or what is not there or does not work. The message is one sentence for
    them."""
