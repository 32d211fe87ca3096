"""The executor port: independent items of work. `Inline` runs them in this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeVar

from sil.world.guard.faults import TRIES, Died

Value = TypeVar("Value")


class Interrupted(Exception):
    """Ctrl-C stopped the work. Finished runs are stored; `finished` are their results, where known."""

    def __init__(self, done: int, total: int | None, finished: object = None) -> None:
        super().__init__(f"{done:,} of {total:,} runs are done" if total else f"{done:,} runs are done")
        self.done = done
        self.total = total
        self.finished = finished


class Attempt(NamedTuple):
    """What an item gets: a function that reports its progress (not on Dask), and where it was killed in
    earlier tries."""

    report: Callable[[Any], None] = lambda value: None
    deaths: tuple[object, ...] = ()

    def dies_each_time(self, place: object) -> bool:
        """Whether this is the last try, and all were killed at the same place: that is no accident, but what
        the scheduler does or needs."""
        return self.deaths == (place,) * (TRIES - 1)


FIRST = Attempt()


@dataclass(frozen=True)
class Item:
    """A call that can be pickled, with a result that does not depend on where it runs."""

    key: str
    """Equal keys mean equal results."""
    call: Callable[..., Any]
    folder: Path | None = None
    """The call's argument: the folder for its files, even if it runs on a computer without access."""
    name: str = ""
    """The name in messages, where the key says nothing to people."""
    gets_attempt: bool = False
    """Whether the call has the argument `attempt`."""

    def __call__(self, attempt: Attempt = FIRST) -> Any:
        folder = () if self.folder is None else (self.folder,)
        return self.call(*folder, attempt=attempt) if self.gets_attempt else self.call(*folder)


Outcome = tuple[Literal["result", "failed", "died", "report"], Any]
"""The outcome of an item: its result, the exception that it raised, how its process ended (`Died`), or its
progress while it is running."""
OnResult = Callable[[Item, Any], None]
"""Called with an item and its result, or `Died`."""
OnReport = Callable[[Item, Any], None]


def ignore(_item: Item, _value: Any) -> None:
    """A callback for callers that need no reports."""


class Listener:
    """Receives the progress of an experiment, a replay or a plan; this one ignores it."""

    def progressed(self, done: int, total: int | None) -> None:
        """Report the number of runs or jobs that are done, and of all (None: unknown)."""

    def finished(self, scheduler: str) -> None:
        """Report that the results of a replay under a scheduler are complete, without a fault."""

    def notify(self, sentence: str) -> None:
        """Report something that the user should know; the work continues."""


class Executor(ABC):
    """Runs items. Use it in a `with` statement, which ends its processes."""

    @abstractmethod
    def run(self, items: Iterable[Item], on_result: OnResult, on_report: OnReport = ignore) -> None:
        """Run `items`, read lazily, and pass each result to `on_result` in order of completion. Raises
        UserError, and what an item or a callback raises; items that are still running are abandoned."""

    def close(self) -> None:  # noqa: B027 (an executor without processes has nothing to end)
        """End all processes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Inline(Executor):
    """Runs items one after another in this process: for trusted code, short work, and tests.

    Nothing protects this process: an item that exits ends it, and a decision that no signal interrupts
    never ends. The time limit of decisions holds in the main thread only.
    """

    def run(self, items: Iterable[Item], on_result: OnResult, on_report: OnReport = ignore) -> None:
        for item in items:
            on_result(item, tried(item, partial(on_report, item)))


def tried(call: Callable[[Attempt], Value], report: Callable[[Any], None] = FIRST.report) -> Value | Died:
    """Make a call, up to TRIES times if a process of it is killed from outside. Returns its result, or
    `Died`."""
    deaths: tuple[object, ...] = ()
    while True:
        try:
            return call(Attempt(report, deaths))
        except Died as died:
            deaths += (died.place,)
            if not died.from_outside or len(deaths) == TRIES:
                return Died(died.rule, died.how)


class Concurrent(Executor):
    """Runs several items at once. An item whose process is killed from outside is tried TRIES times."""

    slots: int
    """Number of items to start at once, so that no process is idle."""

    def run(self, items: Iterable[Item], on_result: OnResult, on_report: OnReport = ignore) -> None:
        remaining, again = iter(items), deque[Item]()
        deaths, running = Counter[str](), 0
        try:
            while True:
                while running < self.slots:
                    next_item = again.popleft() if again else next(remaining, None)
                    if next_item is None:
                        break
                    self._start(next_item)
                    running += 1
                if not running:
                    return
                errors: list[BaseException] = []
                for item, (kind, value) in self._wait():
                    if kind == "report":
                        on_report(item, value)
                        continue
                    running -= 1
                    deaths[item.key] += kind == "died"
                    if kind == "failed":
                        errors.append(value)
                    elif kind == "died" and value.from_outside and deaths[item.key] < TRIES:
                        again.append(item)
                    else:
                        on_result(item, value)
                if errors:  # only now, so that no simultaneous result is lost
                    raise errors[0]
        except BaseException:
            self._abandon()
            raise

    @abstractmethod
    def _start(self, item: Item) -> None:
        """Begin to run an item."""

    @abstractmethod
    def _wait(self) -> Sequence[tuple[Item, Outcome]]:
        """Wait for outcomes of items that were started."""

    @abstractmethod
    def _abandon(self) -> None:
        """Stop the items that are running."""
