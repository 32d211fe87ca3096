"""Simulated time."""


class SimClock:
    """The clock of a simulated site, in seconds from the start of the experiment."""

    def __init__(self) -> None:
        self._now_s = 0.0

    @property
    def now_s(self) -> float:
        return self._now_s

    def advance(self, to_s: float) -> None:
        """Move to `to_s`. Raises ValueError where that lies in the past."""
        if to_s < self._now_s:
            raise ValueError(f"time cannot go back from {self._now_s} s to {to_s} s")
        self._now_s = to_s
