"""Runs that are asked for, carried out once each, and kept as they end."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

from scheduler.errors import UserError
from sil.workers.port import WorkerDied, Workers, finished

Measures = dict[str, float]

MOST_TIMES_AGAIN = 3
"""How often work is submitted again whose process died."""


class Work(Protocol):
    """One run. It can be pickled, and gives the same whoever carries it out."""

    @property
    def key(self) -> str:
        """Equal for equal work, and only for that."""
        ...

    def __call__(self) -> Measures: ...


class Kept(Protocol):
    """What remembers runs beyond the command, by their keys."""

    def get_many(self, keys: Sequence[str]) -> dict[str, Measures]:
        """The measures of those that are kept."""
        ...

    def put(self, key: str, measures: Mapping[str, float]) -> None:
        """Keep a run, so that it outlasts this process however that ends."""
        ...


class RunDied(UserError):
    """A run ended its process each time that it was tried. The message is one sentence for the user."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"run {key}: its process died, or had to be ended, {1 + MOST_TIMES_AGAIN} times; the runs that "
            "ended are kept"
        )
        self.key = key


def _tell_nobody(_done: int) -> None:
    pass


class Runs:
    """Carries runs out on `workers`, unless they are `kept` already.

    `on_done` is told after each run that was carried out, how many that makes since this object began.
    """

    def __init__(self, workers: Workers, kept: Kept, on_done: Callable[[int], None] = _tell_nobody) -> None:
        self._workers = workers
        self._kept = kept
        self._on_done = on_done
        self._done = 0

    def results(self, works: Sequence[Work]) -> list[Measures]:
        """The measures of each work, in their order; they do not depend on who was faster, nor on which runs
        were kept. Equal work is carried out once. Each run is kept as it ends.

        Raises RunDied, NoEngine, or what a work raises; and then lets go of what is under way.
        """
        by_key = {work.key: work for work in works}
        found = self._kept.get_many(list(by_key))
        self._carry_out({key: work for key, work in by_key.items() if key not in found}, found)
        return [dict(found[work.key]) for work in works]

    def _carry_out(self, works: Mapping[str, Work], found: dict[str, Measures]) -> None:
        """Carry out all `works`, and note in `found` what they come to."""
        pending = deque(works)
        deaths: Counter[str] = Counter()
        under_way: dict[Future[Measures], str] = {}
        try:
            while pending or under_way:
                while pending and len(under_way) < self._workers.at_once:
                    key = pending.popleft()
                    under_way[self._workers.submit(works[key])] = key
                errors: dict[str, Exception] = {}
                for future in finished(under_way):
                    key = under_way.pop(future)
                    try:
                        found[key] = self._keep(key, self._workers.outcome(future))
                    except WorkerDied:
                        deaths[key] += 1
                        if deaths[key] > MOST_TIMES_AGAIN:
                            errors[key] = RunDied(key)
                        pending.appendleft(key)
                    except Exception as error:
                        errors[key] = error
                # Only now: what ended well at the same time is kept.
                for key in works:
                    if key in errors:
                        raise errors[key]
        finally:
            for future in under_way:
                future.cancel()

    def _keep(self, key: str, measures: Measures) -> Measures:
        # As they are read again: a run gives the same whether it was carried out or kept.
        plain = {name: float(measure) for name, measure in measures.items()}
        self._kept.put(key, plain)
        self._done += 1
        self._on_done(self._done)
        return plain
