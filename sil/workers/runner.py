"""Runs items whose results are not stored yet, and stores them."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar, get_type_hints

from scheduler import UserError
from sil.settings.files import code_and_data
from sil.workers.executor import Executor, Interrupted, Item, OnReport, OnResult, ignore
from sil.workers.store import MISSING, Store
from sil.world.guard.faults import Died

Case = TypeVar("Case")
Value = TypeVar("Value")
OnProgress = Callable[[int, int | None], None]
"""Called with the number of items that are done, and of all (None: unknown)."""


class ItemDied(UserError):
    """An item's process died each time. The message is one sentence for the user."""

    def __init__(self, name: str, died: Died) -> None:
        super().__init__(
            f"run {name}: {died}; the runs that are done are kept, and the same command continues there"
        )
        self.name = name
        self.died = died


class Runner:
    """Runs items on `executor` and stores their results in `store`. `done` counts finished items,
    of `total` if known."""

    def __init__(
        self,
        executor: Executor,
        store: Store | None = None,
        on_progress: OnProgress = lambda done, total: None,
        total: int | None = None,
    ) -> None:
        self.executor = executor
        self.store = store or Store()
        self.on_progress = on_progress
        self.total = total
        self.done = 0

    def run(
        self,
        items: Sequence[Item],
        on_result: OnResult,
        on_report: OnReport = ignore,
        skip: Callable[[Item], bool] = lambda item: False,
        kind: Any = Any,
    ) -> None:
        """Pass the result of each item, or `Died`, to `on_result`: first stored ones, then others as they
        complete. An item that `skip` selects when its turn comes has no result. Results are of the type
        `kind`.

        Raises Interrupted, and what the executor and the store raise.
        """

        def finish(item: Item, value: Any) -> None:
            if not isinstance(value, Died):
                self.store.put(item.key, value)
            self.done += 1
            on_result(item, value)
            self.on_progress(self.done, self.total)

        def wanted() -> Iterator[Item]:
            for item in missing:
                if skip(item):
                    self.done += 1
                else:
                    yield item

        with self.interruptible():
            missing = []
            for item in items:
                value = self.store.get(item.key, kind)
                if value is MISSING:
                    missing.append(item)
                else:
                    self.done += 1
                    on_result(item, value)
            self.on_progress(self.done, self.total)
            self.executor.run(wanted(), finish, on_report)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Within this context, Ctrl-C raises Interrupted, which says how many items are done."""
        try:
            yield
        except KeyboardInterrupt:
            raise Interrupted(self.done, self.total) from None

    def results(self, items: Sequence[Item], kind: Any = Any) -> list[Any]:
        """The results, of type `kind`, in order of `items`; equal ones run once. Raises what `run` raises,
        and ItemDied."""
        found: dict[str, Any] = {}

        def note(item: Item, value: Any) -> None:
            if isinstance(value, Died):
                raise ItemDied(item.name or item.key, value)
            found[item.key] = value

        self.run(list({item.key: item for item in items}.values()), note, kind=kind)
        return [found[item.key] for item in items]

    def map(self, function: Callable[..., Value], cases: Sequence[Case], *context: Any) -> list[Value]:
        """`function(*context, case)` for each case, in order. The result must not depend on the context, and
        is stored as what the function's annotation says."""
        if self.total is None:
            self.total = len(cases)
        code = code_and_data(), f"{function.__module__}.{function.__qualname__}"
        return self.results(
            [
                Item(digest(*code, case), partial(function, *context, case), name=f"{number} of {len(cases)}")
                for number, case in enumerate(cases, 1)
            ],
            get_type_hints(function)["return"],
        )


def digest(*parts: object) -> str:
    """A digest that is equal for equal parts."""
    return hashlib.sha256(pickle.dumps(parts)).hexdigest()
