"""What every engine offers while it is open: somewhere to run things, and word of what became of them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Protocol, TypeVar

from scheduler.errors import UserError

Result = TypeVar("Result")

WAKE_EVERY_S = 0.2


class NoEngine(UserError):
    """Runs cannot take place where they were to. The message is one sentence for the user."""


class WorkerDied(Exception):
    """The process that carried something out ended before it was done."""


class Workers(Protocol):
    """Many processes, here or elsewhere. One that dies is replaced, and nothing else is lost with it."""

    @property
    def at_once(self) -> int:
        """How many pieces of work to have under way, so that no process waits for the next one."""
        ...

    def submit(self, work: Callable[[], Result]) -> Future[Result]:
        """Have `work`, which can be pickled, carried out in another process."""
        ...

    def outcome(self, future: Future[Result]) -> Result:
        """What a future that is done came to. Raises WorkerDied, NoEngine, or what the work raised."""
        ...


def finished(under_way: Collection[Future[Result]]) -> set[Future[Result]]:
    """The futures that are done, at least one."""
    while True:
        # Ctrl-C may be delivered to any thread, and then does not wake this one.
        done = wait(under_way, timeout=WAKE_EVERY_S, return_when=FIRST_COMPLETED).done
        if done:
            return done
