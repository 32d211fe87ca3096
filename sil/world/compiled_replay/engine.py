"""Runs the compiled loop in chunks, and makes its arrays larger when it asks for that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scheduler.compiled import allocate
from scheduler.free_nodes.kernels.queues import Q
from scheduler.free_nodes.runtime_estimates import LAST_RUNS, LONGEST_S
from sil.world.compiled_replay.estimates import EstimateTable
from sil.world.compiled_replay.facts import Facts
from sil.world.compiled_replay.loop import (
    ALL_ENDED,
    FACTS_LACK,
    FIRST_RELEASED,
    LACK,
    NEXT,
    NOW_S,
    PAUSE,
    QUEUE_LACKS,
    SITE_LACKS,
    STARTING,
    STUCK,
    TEXT,
    Site,
)
from sil.world.events import ArrivalDue, EndDue, Order, ReleaseDue, RoundDue, WakeUp
from sil.world.harness import LEAST_STEP_S, MOST_IDLE_ROUNDS

FEWEST = 256


class Jobs(NamedTuple):
    """Rigid jobs in order of arrival, then number."""

    submit_s: NDArray[np.float64]
    run_s: NDArray[np.float64]
    size: NDArray[np.int64]
    """In nodes, or chunks."""
    kind: NDArray[np.int64]
    """Of request, on nodes of which jobs use parts."""
    limit_s: NDArray[np.float64]
    user: NDArray[np.int64]
    """By number from 0 on; -1 = unknown."""
    refused: NDArray[np.bool_]
    """By the manager, when they arrive."""

    @property
    def n_users(self) -> int:
        return int(self.user.max(initial=-1)) + 1

    @classmethod
    def of(cls, log: pl.DataFrame) -> Jobs:
        """From columns submit_s, run_s, processors, estimate_s and user of a job log. Others may be there:
        chunks instead of processors, kind, and refused. Arrays are those of the log where these can be."""
        # Without threads of Polars, which an environment in a forked process does not have.
        n, names, user, estimate_s = (
            len(log),
            log.columns,
            log["user"].to_numpy(),
            log["estimate_s"].to_numpy(),
        )
        if user.max(initial=-1) >= n:
            ranks = np.unique(user, return_inverse=True)[1].astype(np.int64)
            user = np.where(user >= 0, ranks, -1)
        if log["estimate_s"].null_count():
            estimate_s = np.where(np.isnan(estimate_s), LONGEST_S, estimate_s)
        columns = (
            log["submit_s"],
            log["run_s"],
            log["chunks" if "chunks" in names else "processors"],
            log["kind"] if "kind" in names else np.zeros(n, np.int64),
            estimate_s,
            user,
            log["refused"] if "refused" in names else np.zeros(n, np.bool_),
        )
        return cls(*map(_fixed, columns))

    def between(self, begin: int, end: int) -> Jobs:
        """Those in places from `begin` on, before `end`: views of the same arrays."""
        columns: Iterable[Any] = (column[begin:end] for column in self)
        return Jobs(*columns)

    def refusing(self, places: Sequence[int]) -> Jobs:
        """The same jobs, those in some places refused, too."""
        refused = self.refused.copy()
        refused[places] = True
        return self._replace(refused=_fixed(refused))


def _fixed(column: pl.Series | NDArray[Any]) -> NDArray[Any]:
    array = column.to_numpy() if isinstance(column, pl.Series) else column
    array.flags.writeable = False
    return array


class Stuck(RuntimeError):
    """Jobs remain, and nothing can happen any more."""


@dataclass(frozen=True)
class EmptyQueue(Generic[Q]):
    """And what makes its arrays larger."""

    empty: Q
    n_nodes: int
    larger: Callable[[Q, int], Q]


@dataclass(frozen=True)
class CompiledQueue(EmptyQueue[Q]):
    """With the loop for it (`loop.advance`)."""

    advance: Callable[[Site, Q, Facts, int, int, float], int]


class Running(Generic[Q]):
    """A replay under way: the records that the loop changes, which are replaced by larger ones as needed."""

    def __init__(self, jobs: Jobs, queue: EmptyQueue[Q], order: Order, by: int, n_facts: int) -> None:
        """`by` is who estimates; `n_facts` is the room for facts at first."""
        self.queue, self._larger = queue.empty, queue.larger
        self.site = _new_site(jobs, order, queue.n_nodes, by)
        self.facts = _new_facts(n_facts)

    def make_room(self, why: int) -> bool:
        """If that is why the loop has returned; otherwise False."""
        site, facts = self.site, self.facts
        if why == QUEUE_LACKS:
            self.queue = self._larger(self.queue, int(site.counts[LACK]))
        elif why == FACTS_LACK:
            self.facts = _more_facts(facts, int(site.counts[STARTING]), int(site.counts[TEXT]))
        elif why == SITE_LACKS:
            self.site = _more_room(site, self.queue)
        else:
            return False
        return True

    def hand_over(self) -> Facts:
        """The facts so far; others take their place."""
        facts, self.facts = self.facts, _new_facts(len(self.facts.time_s))
        return facts


def run_compiled(
    jobs: Jobs, compiled: CompiledQueue[Q], order: Order, by: int, chunk: int
) -> Iterator[tuple[Facts, int]]:
    """Run jobs, each of which fits on the nodes or is refused, until all have ended. Yields facts, at least a
    `chunk` of them and up to an end of a run except for the last ones, and how many jobs have arrived. Raises
    Stuck."""
    room = min(chunk, 3 * len(jobs.submit_s)) + FEWEST  # a job has three facts
    running = Running(jobs, compiled, order, by, room)
    while True:
        site = running.site
        why = compiled.advance(site, running.queue, running.facts, chunk, MOST_IDLE_ROUNDS, LEAST_STEP_S)
        if running.make_room(why) or why == PAUSE:
            continue
        if why == STUCK:
            raise Stuck(f"jobs remain at {site.times_s[NOW_S]:.12g} s, and nothing can happen any more")
        yield running.hand_over(), int(site.counts[NEXT])
        if why == ALL_ENDED:
            return


def _new_site(jobs: Jobs, order: Order, n_nodes: int, by: int) -> Site:
    kinds = (RoundDue, WakeUp, ArrivalDue, ReleaseDue, EndDue)
    ranks = [order[kind] for kind in kinds]
    releases_first = order[ReleaseDue] < order[EndDue]
    times_s = np.full(5, np.inf)
    times_s[NOW_S] = 0.0
    names = ("run", "slot", "released")
    room: dict[str, Any] = {name: np.zeros(FEWEST, np.int64) for name in names}
    rank = np.array([*ranks, releases_first], dtype=np.int64)
    marks = np.zeros(n_nodes, np.bool_)
    estimates = allocate(EstimateTable, 1, len(jobs.submit_s), (jobs.n_users, LAST_RUNS), jobs.n_users)
    estimates.by[0] = by
    room |= {"end_s": np.zeros(FEWEST), "marks": marks, "estimates": estimates}
    return Site(np.zeros(10, np.int64), times_s, rank, *jobs, **room)


def _more_room(site: Site, queue: Q) -> Site:
    """For as many runs, and jobs, as the queue has slots for, or twice as many as before."""
    n = max(2 * len(site.end_s), len(queue.run))
    larger_by: dict[str, Any] = {name: np.resize(getattr(site, name), n) for name in ("end_s", "run", "slot")}
    # A ring: unrolled, it begins at the front.
    released = np.resize(np.roll(site.released, -int(site.counts[FIRST_RELEASED])), n)
    site.counts[FIRST_RELEASED] = 0
    return site._replace(released=released, **larger_by)


def _new_facts(n: int, text: int = 0) -> Facts:
    return allocate(Facts, 2, n, n, n, n, n, n + 1, max(16 * n, text), n, n, n)


def _more_facts(facts: Facts, starting: int, text: int) -> Facts:
    """With at least twice the room, and that for so many jobs that start and bytes of text."""
    new = _new_facts(2 * (len(facts.time_s) + starting), 2 * (len(facts.text) + text))
    arrays: Iterable[tuple[NDArray[Any], NDArray[Any]]] = zip(facts, new, strict=True)
    for old, larger_one in arrays:
        larger_one[: len(old)] = old
    return new
