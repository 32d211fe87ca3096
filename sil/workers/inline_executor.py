"""Items run one after another in this process: for trusted code, short work, and tests."""

from __future__ import annotations

from collections.abc import Iterable

from sil.workers.executor import Executor, Item, OnReport, OnResult, ignore, reports_to


class Inline(Executor):
    """Runs each item to its end before it reads the next one.

    Nothing protects this process: an item that ends its process ends this one, and a decision that no signal
    interrupts is never ended. The time limit of decisions holds in the main thread only.
    """

    def run(self, items: Iterable[Item], on_result: OnResult, on_report: OnReport = ignore) -> None:
        for item in items:
            with reports_to(lambda value, item=item: on_report(item, value)):  # type: ignore[misc]
                value = item()
            on_result(item, value)
