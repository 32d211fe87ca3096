"""Simulated time."""

from collections.abc import Callable


class SimClock:
    """The clock of a simulated site: `now_s` seconds since the start of the experiment.

    Whoever takes events from their queue sets it; the queue sees to it that time never goes back.
    """

    __slots__ = ("_let_pass", "now_s")

    def __init__(self) -> None:
        self.now_s = 0.0
        self._let_pass: Callable[[float], None] | None = None

    def let_pass_by(self, let_pass: Callable[[float], None]) -> None:
        """Say what happens in the world while the system under test is busy until a time."""
        self._let_pass = let_pass

    def wait_until(self, time_s: float) -> None:
        """The system under test is busy until then, which is not before now; afterwards it is so late."""
        if time_s > self.now_s:
            if self._let_pass is not None:
                self._let_pass(time_s)
            self.now_s = time_s
