"""The port through which an experiment, a replay or a plan tells its progress."""

from __future__ import annotations


class Listener:
    """Ignores what it is told."""

    def progressed(self, done: int, total: int | None) -> None:
        """So many runs or jobs are done, of so many (None: not known)."""

    def told(self, sentence: str) -> None:
        """Something happened that the user should know of; the work continues."""
