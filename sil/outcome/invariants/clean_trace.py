"""A fast check of traces, chunk by chunk: whether they certainly break no invariant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import polars as pl

from scheduler.core.arrays import Ints, Ints2
from scheduler.node_request import Gpus, Node, Request, thousandths
from sil.outcome.invariants.core.clean_facts import CleanOnMachines, CleanOnNodes
from sil.trace.facts import NONE, Fact, FactColumns, Places
from sil.trace.held import machines_of, request_of

LARGEST = 2**62
"""Greater amounts count as this one: what fits on an empty node is computed from the amounts themselves."""

WIDEST = 50_000_000
"""The most numbers from the least to the largest of jobs that are not over: the state has an entry for
each."""


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
        """The numbers of requests, by their text."""
        self._on_nodes = self._of_nodes() if nodes else None
        self._facts = self._on_nodes or CleanOnMachines(n_machines)
        self._time_s = -np.inf
        self._pending: FactColumns | None = None
        """The last facts, whose instant may continue in the next ones."""
        self._clean, self._faulted = True, False

    def add(self, facts: FactColumns) -> None:
        """Add the next facts, with at least the columns ROW, and each time with the same."""
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
        unfinished = self._facts.n_waiting + self._facts.n_running
        return self._clean and (self._faulted or not unfinished)

    def _follow_pending(self) -> None:
        if self._clean and self._pending is not None and len(self._pending):
            self._clean = self._follow(self._pending)
        self._pending = None

    def _follow(self, facts: FactColumns) -> bool:
        if not self._has_places(facts.job[facts.job != NONE]):
            return False
        held_by_starts = self._held_by(facts, facts.places(Fact.RUN_STARTED))
        if held_by_starts is None:
            return False
        ends, held = held_by_starts
        requests = self._requests_of(facts, facts.places(Fact.JOB_ARRIVED))
        ends = ends + self._facts.add_held(held)
        kinds = facts.event.astype(np.uint8)
        return self._facts.follow(facts.time_s, kinds, facts.job, facts.run, facts.resource, requests, ends)

    def _has_places(self, jobs: Ints) -> bool:
        """Make places for jobs of these numbers; False if they are too far apart."""
        places = np.asarray(self._facts.place_of)
        begin, end = self._facts.least, self._facts.least + len(places)
        if not len(jobs) or (begin <= jobs.min() and jobs.max() < end):
            return True
        there = np.flatnonzero(places) + begin
        least, most = (int(reached(np.concatenate([jobs, there]))) for reached in (np.min, np.max))
        if most - least > WIDEST:
            return False
        self._facts.make_places(least, 2 * (most - least + 1))
        return True

    def _requests_of(self, facts: FactColumns, arrivals: Places) -> Ints:
        """The number of the request of each job that arrives."""
        if self._on_nodes is None or not len(arrivals):
            return np.zeros(len(arrivals), np.int64)
        details = facts.frame(["detail"], arrivals)["detail"].fill_null("{}")
        texts = details.unique().to_list()
        if new := sorted(set(texts) - self._number_of.keys()):
            self._number_of |= {text: len(self._number_of) + x for x, text in enumerate(new)}
            self._on_nodes.add_requests([self._request(request_of(text)) for text in new])
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

    def _of_nodes(self) -> CleanOnNodes:
        number_of = {specification: x for x, specification in enumerate(self._specifications)}
        gpu_types = np.zeros((len(self._nodes), max(len(node.gpus) for node in self._nodes)), np.int64)
        for x, node in enumerate(self._nodes):
            gpu_types[x, : len(node.gpus)] = [self._bit_of[gpu] for gpu in node.gpus]
        return CleanOnNodes(
            np.array([number_of[node.specification] for node in self._nodes]),
            np.array(list(map(self._amounts, self._nodes))),
            gpu_types,
            np.array(_counted(self._site_resources.values()), np.int64),
        )

    def _request(self, request: Request) -> list[int]:
        """A row of `CleanOnNodes.requests`."""
        gpus = Gpus() if request.gpus is None else request.gpus
        wanted = 0 if request.gpus is None else request.gpus.count
        types = sum(self._bit_of.get(gpu, 0) for gpu in gpus.types or self._bit_of)
        of_site, fits = self._site_resources, not request.beyond(self._site_resources)
        return [
            *_counted([request.chunks, request.exclusive, wanted, thousandths(gpus.share), types]),
            *self._amounts(request),
            *_counted(request.site_resources.get(name, 0) for name in of_site),
            *_counted(request.chunks_on(node) if fits else 0 for node in self._specifications.values()),
        ]

    def _amounts(self, of: Node | Request) -> list[int]:
        others = (of.others.get(name, 0) for name in self._others)
        return _counted([thousandths(of.cores), of.memory_mib, *others])


def _counted(amounts: Iterable[int]) -> list[int]:
    return [min(amount, LARGEST) for amount in amounts]
