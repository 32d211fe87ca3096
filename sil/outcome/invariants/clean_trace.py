"""A fast check of traces, chunk by chunk: whether they certainly break no invariant."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler.compiled import Ints, allocate
from sil.outcome.invariants.held_machines import Held
from sil.outcome.invariants.kernels.clean_facts import (
    ARRIVED,
    DOWN,
    ENDED,
    INTERRUPTED,
    N_RUNNING,
    N_WAITING,
    OTHER,
    REFUSED,
    STARTED,
    UP,
    Chunk,
    Running,
    keep_texts,
)
from sil.trace.fact_columns import NONE, FactColumns
from sil.trace.facts import EVENTS, Fact

WIDEST = 50_000_000
"""The state has an entry for each number from the least to the largest of jobs that are not over."""

NOT_FOLLOWED = 255
"""The kind of facts that are rare, so that nothing here follows them: a trace with any is not found clean."""
_KINDS = {
    Fact.JOB_ARRIVED: ARRIVED,
    Fact.RUN_STARTED: STARTED,
    Fact.RUN_ENDED: ENDED,
    Fact.RUN_PREEMPTED: INTERRUPTED,
    Fact.RUN_LOST: INTERRUPTED,
    Fact.JOB_REFUSED: REFUSED,
    Fact.MACHINE_DOWN: DOWN,
    Fact.MACHINE_UP: UP,
    Fact.RUN_STOPPED: NOT_FOLLOWED,
    Fact.RUN_CONTINUED: NOT_FOLLOWED,
}
_KIND_OF = np.array([_KINDS.get(Fact(name), OTHER) for name in EVENTS.categories], np.uint8)


class CleanTrace:
    """Follows the facts of one run of the harness on machines of which each run holds what `held` finds.

    A trace that `is_clean` breaks no invariant. Of one that is not, the checker knows which it
    breaks; it may be none, where runs are not numbered in order of start, or jobs have large numbers.
    """

    def __init__(self, held: Held) -> None:
        self._held = held
        self._running = allocate(Running, *[0] * len(Running._fields))
        self._texts = b""
        """What the runs hold."""
        self._least = 0
        """The number of the job of the first place; the compiled code counts from it."""
        self._place_of = np.zeros(0, np.int64)
        self._counts = np.array([0, 0, -1])
        self._time_s = -np.inf
        self._pending: FactColumns | None = None
        """The last facts, of whose last instant there may be more."""
        self._clean, self._faulted = True, False

    def add(self, facts: FactColumns) -> None:
        """The next facts, with at least the columns ROW, and each time with the same."""
        if not self._clean or not len(facts):
            return
        if len(facts.places(Fact.FAULT)):
            self._faulted, facts = True, facts.without(Fact.FAULT)
            if not len(facts):
                return
        times_s = facts.time_s
        if not (times_s[0] >= self._time_s and (np.diff(times_s) >= 0).all() and times_s[-1] < np.inf):
            self._clean = False
            return
        if self._pending is not None and times_s[0] == self._time_s:
            whole = int(np.searchsorted(self._pending.time_s, self._time_s))
            facts = self._pending.slice(whole, len(self._pending)).followed_by(facts)
            self._pending = self._pending.slice(0, whole)
        self._follow_pending()
        self._time_s, self._pending = times_s[-1], facts

    def is_clean(self) -> bool:
        """Whether the facts so far certainly break no invariant, if they are all."""
        self._follow_pending()
        unfinished = int(self._counts[N_WAITING] + self._counts[N_RUNNING])
        return self._clean and (self._faulted or not unfinished)

    def _follow_pending(self) -> None:
        if self._clean and self._pending is not None and len(self._pending):
            self._clean = self._follow(self._pending)
        self._pending = None

    def _follow(self, facts: FactColumns) -> bool:
        kinds = _KIND_OF[facts.event]
        if (kinds == NOT_FOLLOWED).any():
            return False
        is_of_job = facts.job != NONE
        if not self._has_places(facts.job[is_of_job]):
            return False
        of_starts = self._held.texts(facts, np.flatnonzero(kinds == STARTED))
        _, offsets, data = of_starts.buffers()
        n_rows = int(self._counts[N_RUNNING]) + len(of_starts)
        if n_rows > len(self._running.run):
            self._running = Running(*(_grown(column, n_rows) for column in self._running))
        text_at = np.frombuffer(offsets, np.int64)[: len(of_starts) + 1] + len(self._texts)
        all_texts = self._texts + (data.to_pybytes() if data is not None else b"")
        chunk = Chunk(
            facts.time_s.copy(),
            kinds,
            np.where(is_of_job, facts.job - self._least, NONE),
            facts.run.copy(),
            facts.resource.astype(np.int64),
            self._held.requests(facts, np.flatnonzero(kinds == ARRIVED)),
            text_at,
            np.frombuffer(all_texts, np.uint8),
        )
        if not self._held.are_clean(chunk, self._running, self._place_of, self._counts):
            return False
        kept = np.empty(len(all_texts), np.uint8)
        self._texts = kept[: keep_texts(self._running, self._counts, chunk.texts, kept)].tobytes()
        return True

    def _has_places(self, jobs: Ints) -> bool:
        """Make places for jobs of these numbers; False if they are too far apart."""
        begin, end = self._least, self._least + len(self._place_of)
        if not len(jobs) or (begin <= jobs.min() and jobs.max() < end):
            return True
        there = np.flatnonzero(self._place_of)
        least, most = (int(reached(np.concatenate([jobs, there + begin]))) for reached in (np.min, np.max))
        if most - least > WIDEST:
            return False
        place_of = np.zeros(2 * (most - least + 1), np.int64)
        place_of[there + (begin - least)] = self._place_of[there]
        self._running.job[: self._counts[N_RUNNING]] += begin - least
        self._least, self._place_of = least, place_of
        return True


def _grown(array: NDArray[Any], length: int) -> NDArray[Any]:
    """A longer copy, of at least twice the length, with zeros at its end."""
    longer = np.zeros(max(length, 2 * len(array)), array.dtype)
    longer[: len(array)] = array
    return longer
