"""The executor port: independent items of work, run in this process, in others, or on a Dask cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from scheduler.errors import UserError

TRIES = 3
"""How often an item is run whose process is killed from outside."""


class NoExecutor(UserError):
    """The executor cannot be used. The message is one sentence for the user."""


class Interrupted(Exception):
    """Ctrl-C stopped the work. The runs that are done are stored."""

    def __init__(self, done: int, total: int | None) -> None:
        super().__init__(f"{done:,} of {total:,} runs are done" if total else f"{done:,} runs are done")
        self.done = done
        self.total = total


@dataclass(frozen=True)
class Item:
    """A call that can be pickled and whose result does not depend on where it runs."""

    key: str
    """Unique: equal keys stand for equal results."""
    call: Callable[..., Any]
    folder: Path | None = None
    """The folder to which the call, with this as its argument, writes files. The files get there even if the
    executor runs the call on a computer without access to the folder."""
    fresh: bool = False
    """Whether it needs a process in which no other item has run."""

    def __call__(self) -> Any:
        return self.call() if self.folder is None else self.call(self.folder)


@dataclass(frozen=True)
class Result:
    value: Any


@dataclass(frozen=True)
class Failed:
    """The item raised an exception."""

    error: BaseException


@dataclass(frozen=True)
class Died:
    """The item's process ended before the item did."""

    may_retry: bool = False
    """Whether somebody else may have killed it."""

    def __str__(self) -> str:
        return "its process died, or was killed because a decision did not return"


@dataclass(frozen=True)
class Report:
    """What an item that is still running tells by `send_report`."""

    value: Any


Outcome = Result | Failed | Died | Report
OnResult = Callable[[Item, Any], None]
"""Called with an item and its result, or `Died`."""
OnReport = Callable[[Item, Any], None]


def ignore(_item: Item, _value: Any) -> None:
    """For callers that need no reports."""


class Executor(ABC):
    """Runs items. Use it in a `with` statement, which ends its processes."""

    @abstractmethod
    def run(self, items: Iterable[Item], on_result: OnResult, on_report: OnReport = ignore) -> None:
        """Run `items`, read lazily, and pass each result to `on_result` in order of completion.

        Raises NoExecutor, and what an item or a callback raises; items that are still running are abandoned.
        """

    def close(self) -> None:  # noqa: B027 (an executor without processes has nothing to end)
        """End all processes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Concurrent(Executor):
    """Runs several items at once. One whose process is killed from outside is tried TRIES times."""

    slots: int
    """How many items to have started at once, so that no process is idle."""

    def run(self, items: Iterable[Item], on_result: OnResult, on_report: OnReport = ignore) -> None:
        remaining, again = iter(items), deque[Item]()
        deaths, running = Counter[str](), 0
        try:
            while True:
                while running < self.slots and (item := _next(again, remaining)) is not None:
                    self._start(item)
                    running += 1
                if not running:
                    return
                errors: list[BaseException] = []
                for item, outcome in self._wait():
                    if isinstance(outcome, Report):
                        on_report(item, outcome.value)
                        continue
                    running -= 1
                    if isinstance(outcome, Failed):
                        errors.append(outcome.error)
                    elif isinstance(outcome, Result):
                        on_result(item, outcome.value)
                    else:
                        deaths[item.key] += 1
                        if outcome.may_retry and deaths[item.key] < TRIES:
                            again.append(item)
                        else:
                            on_result(item, outcome)
                if errors:  # only now, so that no result of the same moment is lost
                    raise errors[0]
        except BaseException:
            self._abandon()
            raise

    @abstractmethod
    def _start(self, item: Item) -> None:
        """Begin to run an item."""

    @abstractmethod
    def _wait(self) -> Sequence[tuple[Item, Outcome]]:
        """Wait until something happens to items that were started."""

    @abstractmethod
    def _abandon(self) -> None:
        """Stop the items that are running."""


def _next(again: deque[Item], remaining: Iterator[Item]) -> Item | None:
    return again.popleft() if again else next(remaining, None)


_listener: Callable[[Any], None] | None = None


def send_report(value: Any) -> None:
    """Called by an item: pass its progress to the caller of `Executor.run`. Dask passes nothing on."""
    if _listener is not None:
        _listener(value)


@contextmanager
def reports_to(listener: Callable[[Any], None]) -> Iterator[None]:
    """Where the reports of an item go while it runs in this process."""
    global _listener
    before, _listener = _listener, listener
    try:
        yield
    finally:
        _listener = before
