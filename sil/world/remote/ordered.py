"""What a resource manager has ordered and been told of each run."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from scheduler.model import DispatchOrder


@dataclass(slots=True)
class Ordered:
    """A run that the manager has ordered, and what else it has ordered for it; times in the world."""

    order: DispatchOrder
    ordered_s: float
    sent_s: float
    """When its order to start was last sent, or the one to stop."""
    is_answered: bool = False
    waited_s: float = 0.0
    """The longest time until an order was sent again, or answered."""
    is_stopped: bool = False
    """It was told to stop, or abandoned."""
    abandoned_s: float = inf
    silent_s: float = inf
    """For how long its machine had answered no ping when it was abandoned."""
    over_s: float = inf
    """When the manager acknowledged that it is over."""

    def sent(self, now_s: float, stops: bool) -> None:
        """An order to start or to stop leaves."""
        if stops is self.is_stopped:
            self._wait_until(now_s)
        elif stops:
            self.is_stopped, self.is_answered, self.sent_s = True, False, now_s

    def answered(self, now_s: float) -> None:
        self._wait_until(now_s)
        self.is_answered = True

    def _wait_until(self, now_s: float) -> None:
        if not self.is_answered:
            self.waited_s = max(self.waited_s, now_s - self.sent_s)
            self.sent_s = now_s
