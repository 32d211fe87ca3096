"""A fast check of traces, chunk by chunk: whether they certainly break no invariant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scheduler.compiled import Ints, Ints2, allocate
from scheduler.node_request import Gpus, Node, Request, thousandths
from sil.outcome.invariants.kernels.clean_facts import (
    ARRIVED,
    DOWN,
    ENDED,
    INTERRUPTED,
    N_OF_REQUEST,
    N_RUNNING,
    N_WAITING,
    OTHER,
    REFUSED,
    STARTED,
    UP,
    Chunk,
    Held,
    Running,
    are_clean,
)
from sil.trace.fact_columns import NONE, FactColumns, Places
from sil.trace.facts import EVENTS, Fact
from sil.trace.held import machines_of
from sil.trace.requests import request_of
from sil.world.node_usage import WHOLE_GPU

LARGEST = 2**62
"""Greater amounts count as this one: what fits on an empty node is computed from the amounts themselves."""


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
    """Follows the facts of one run of the harness on machines, of which each holds one run, or on `nodes`, of
    which runs use cores, memory and GPUs, and resources of the whole site.

    A trace that `is_clean` breaks no invariant. Of one that is not, the checker knows which it
    breaks; it may be none, where runs are not numbered in order of start, or jobs have large numbers.
    """

    def __init__(self, n_machines: int, nodes: Sequence[Node], site_resources: Mapping[str, int]) -> None:
        self._nodes, self._site_resources = nodes, site_resources
        self._specifications = {node.specification: node for node in nodes}
        self._others = sorted({name for node in nodes for name in node.others})
        self._bit_of = {gpu: 1 << x for x, gpu in enumerate(sorted({gpu for n in nodes for gpu in n.gpus}))}
        self._number_of: dict[str, int] = {}
        """By the text of a request."""
        n, n_others = len(nodes), len(self._others)
        n_gpus = max((len(node.gpus) for node in nodes), default=0)
        self._state = allocate(
            Held, n_machines, 0 if n else n_machines, n, n, n, (n, 2 + n_others), (n, n_gpus), (n, n_gpus),
            len(site_resources), (0, N_OF_REQUEST), (0, 2 + n_others), (0, len(site_resources)),
            (0, len(self._specifications)),
        )  # fmt: skip
        number_of = {specification: x for x, specification in enumerate(self._specifications)}
        for x, node in enumerate(nodes):
            self._state.specification[x] = number_of[node.specification]
            self._state.room[x] = self._amounts(node)
            self._state.gpus[x, : len(node.gpus)] = WHOLE_GPU
            self._state.gpu_types[x, : len(node.gpus)] = [self._bit_of[gpu] for gpu in node.gpus]
        self._state.of_site[:] = _counted(site_resources.values())
        self._running = allocate(Running, *[0] * len(Running._fields))
        self._held = np.zeros((0, 3 if nodes else 2), np.int64)
        """What the runs hold, by row."""
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
        held_by_starts = self._held_by(facts, np.flatnonzero(kinds == STARTED))
        if held_by_starts is None:
            return False
        ends, held = held_by_starts
        n_rows = int(self._counts[N_RUNNING]) + len(ends)
        if n_rows > len(self._running.run):
            self._running = Running(*(_grown(column, n_rows) for column in self._running))
        chunk = Chunk(
            facts.time_s.copy(),
            kinds,
            np.where(is_of_job, facts.job - self._least, NONE),
            facts.run.copy(),
            facts.resource.astype(np.int64),
            self._requests_of(facts, np.flatnonzero(kinds == ARRIVED)),
            ends + len(self._held),
            np.concatenate([self._held, held]),
        )
        if not are_clean(self._state, chunk, self._running, self._place_of, self._counts):
            return False
        at, end = (column[: self._counts[N_RUNNING]] for column in self._running[-2:])
        kept_end = np.cumsum(end - at)
        self._held = chunk.held[np.repeat(end - kept_end, end - at) + np.arange(kept_end.max(initial=0))]
        at[:], end[:] = kept_end - (end - at), kept_end
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

    def _requests_of(self, facts: FactColumns, arrivals: Places) -> Ints:
        """The number of the request of each job that arrives."""
        if not self._nodes or not len(arrivals):
            return np.zeros(len(arrivals), np.int64)
        details = facts.frame(["detail"], arrivals)["detail"].fill_null("{}")
        texts = details.unique().to_list()
        if new := sorted(set(texts) - self._number_of.keys()):
            self._number_of |= {text: len(self._number_of) + x for x, text in enumerate(new)}
            self._add(list(map(request_of, new)))
        numbers = [self._number_of[text] for text in texts]
        return details.replace_strict(texts, numbers, return_dtype=pl.Int64).to_numpy(writable=True)

    def _held_by(self, facts: FactColumns, starts: Places) -> tuple[Ints, Ints2] | None:
        """What each run that starts holds; None if it has not one share of each of its nodes."""
        ends, intervals = facts.held("machines", starts)
        if not self._nodes:
            return ends, intervals
        ends_of_shares, shares = facts.held("shares", starts)
        of_shares = machines_of(ends_of_shares, shares[:, 0])
        n_nodes = np.diff(intervals).sum() + len(intervals)
        are_same = map(np.array_equal, (ends, intervals), of_shares)
        return (ends_of_shares, shares) if all(are_same) and n_nodes == len(shares) else None

    def _add(self, requests: Sequence[Request]) -> None:
        nodes, of_site, state = self._specifications.values(), self._site_resources, self._state
        rows = {
            "requests": [self._request(request) for request in requests],
            "amounts": [self._amounts(request) for request in requests],
            "site_amounts": [
                _counted(request.site_resources.get(name, 0) for name in of_site) for request in requests
            ],
            "most": [
                _counted(0 if request.beyond(of_site) else request.chunks_on(node) for node in nodes)
                for request in requests
            ],
        }
        longer = {
            name: np.concatenate([getattr(state, name), np.array(new, np.int64)])
            for name, new in rows.items()
        }
        self._state = state._replace(**longer)

    def _request(self, request: Request) -> list[int]:
        gpus = Gpus() if request.gpus is None else request.gpus
        wanted = 0 if request.gpus is None else request.gpus.count
        types = sum(self._bit_of.get(gpu, 0) for gpu in gpus.types or self._bit_of)
        return _counted([request.chunks, request.exclusive, wanted, thousandths(gpus.share), types])

    def _amounts(self, of: Node | Request) -> list[int]:
        others = (of.others.get(name, 0) for name in self._others)
        return _counted([thousandths(of.cores), of.memory_mib, *others])


def _counted(amounts: Iterable[int]) -> list[int]:
    return [min(amount, LARGEST) for amount in amounts]


def _grown(array: NDArray[Any], length: int) -> NDArray[Any]:
    """A longer copy, of at least twice the length, with zeros at its end."""
    longer = np.zeros(max(length, 2 * len(array)), array.dtype)
    longer[: len(array)] = array
    return longer
