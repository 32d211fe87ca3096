"""How an experiment tells how it goes on."""


class Listener:
    """Hears how an experiment goes on. This one does nothing about it."""

    def started(self, done: int, total: int) -> None:
        """So many replications are done already, of so many."""

    def progressed(self, done: int) -> None:
        """So many are done now."""

    def told(self, sentence: str) -> None:
        """Something happened that the user should know of, and the experiment goes on."""
