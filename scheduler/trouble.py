"""What keeps a command from its work."""

from __future__ import annotations


class Trouble(ValueError):
    """A mistake of the user's, or something that is not there or does not work. The message is one sentence
    for the user; no command shows a traceback for it."""
