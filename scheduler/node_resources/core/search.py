"""When a request fits throughout a run time, beside the uses of a timeline.

A node offers some chunks from a time on if it has them in every segment until the run time is over.
"""

from __future__ import annotations

from math import inf

import numpy as np

from scheduler.core.arrays import floats, integers
from scheduler.core.heap import Heap
from scheduler.node_resources.core.codes import NONE
from scheduler.node_resources.core.timeline import Timeline

MAX_KNOWN = 251
"""The number of (kind, run time) pairs of which searches remember when nodes offer nothing; a prime, since
run times have common factors."""

MAX_OF_NODES = 2**20
"""The approximate limit of what is remembered for all nodes and pairs, in items."""


class Search:
    """Finds when nodes will offer something. What is free throughout a run time is written to the state of
    the timeline's nodes.

    * `most`: the most chunks that fit at a time that was looked at.
    * By node: when it is looked at next (`at_s`, of those in the `heap`), when it offers something as of the
      last look, how many chunks, in which segment, and beyond which time a run may have fewer.
    * `offering`: the nodes that offer something now.
    * `own`: the reservation of the job in this search, as a bit.
    * `known`: the row of this search in what is known: for a kind and a run time, until when each node of a
      version offers nothing.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.timeline, self.segments, self.nodes = timeline, timeline.segments, timeline.nodes
        self.kinds, n = self.nodes.kinds, self.nodes.n_nodes
        self.most, self.heap, self.known, self.own = 0, Heap(n), 0, 0
        self.at_s, self.offers_s, self.beyond_s = floats(n), floats(n), floats(n)
        self.offer, self.at, self.offering = integers(n), integers(n), integers(n)
        n_known = min(MAX_KNOWN, MAX_OF_NODES // (n + 1) + 1)
        self.known_kind, self.known_takes_s = integers(n_known) + NONE, floats(n_known)
        self.known_version = np.zeros((n_known, n), np.int64)
        self.busy_until_s = np.zeros((n_known, n))

    def has_a_chunk(self, k: int, n: int, x: int) -> bool:
        """Whether a chunk may fit on node n in segment x: otherwise it does not."""
        if self.segments.reserved[x] != self.own:
            return False
        if self.kinds.exclusive[k] and self.segments.n_chunks[x] > 0:
            return False
        for r in range(self.nodes.n_resources):
            need = self.kinds.need[k, r]
            if need > 0 and self.segments.free[x, r] < need:
                return False
        wanted = self.kinds.gpus[k]
        if wanted > 0:
            for d in range(self.nodes.n_gpus):
                is_allowed = (self.nodes.gpu_type[n, d] & self.kinds.gpu_types[k]) != 0
                if is_allowed and self.segments.gpu_free[x, d] >= self.kinds.gpu_share[k]:
                    wanted -= 1
        return wanted <= 0

    def begin_window(self, n: int, x: int) -> None:
        for r in range(self.nodes.n_resources):
            self.nodes.free[n, r] = self.segments.free[x, r]
        for d in range(self.nodes.n_gpus):
            self.nodes.gpu_free[n, d] = self.segments.gpu_free[x, d]
        self.nodes.n_chunks[n] = self.segments.n_chunks[x]

    def widen_window(self, n: int, x: int) -> None:
        segments, nodes = self.segments, self.nodes
        for r in range(nodes.n_resources):
            nodes.free[n, r] = min(nodes.free[n, r], segments.free[x, r])
        for d in range(nodes.n_gpus):
            nodes.gpu_free[n, d] = min(nodes.gpu_free[n, d], segments.gpu_free[x, d])
        nodes.n_chunks[n] = max(nodes.n_chunks[n], segments.n_chunks[x])

    def look_at(self, k: int, n: int, from_s: float, takes_s: float, before_s: float) -> float:
        """Find the earliest time from `from_s` on at which node n offers a chunk; infinite if not before
        another. Returns until when none fits.

        It continues from the segment of the last look. O(segments that pass) in all looks of a search, and
        O(segments of a run time) in each.
        """
        segments, x, start_s = self.segments, self.at[n], from_s
        while segments.next[x] != NONE and segments.start_s[segments.next[x]] <= start_s:
            x = segments.next[x]
        first, begins, offer = x, True, 0
        while start_s < before_s:
            if self.has_a_chunk(k, n, x):
                if begins:
                    self.begin_window(n, x)
                    first, begins = x, False
                else:
                    self.widen_window(n, x)
                following = segments.next[x]
                ends_s = segments.start_s[following] if following != NONE else inf
                if ends_s < start_s + takes_s:
                    x = following
                    continue
                offer = self.nodes.chunks_that_fit(k, n)
                if offer > 0:
                    self.beyond_s[n] = ends_s
                    break
                x = first  # no GPU is free all the time
            x, begins = segments.next[x], True
            start_s = segments.start_s[x] if x != NONE else inf
        self.at[n], self.offer[n] = first, offer
        self.offers_s[n] = start_s if offer > 0 else inf
        return start_s

    def site_offers_s(self, k: int, from_s: float, takes_s: float) -> float:
        """The earliest time from `from_s` on from which the site has what a job requests of it.
        O(segments)."""
        segments, nodes, start_s = self.segments, self.nodes, from_s
        x = segments.at(nodes.n_nodes, from_s)
        while x != NONE and segments.start_s[x] < start_s + takes_s:
            suffices = True
            for s in range(nodes.n_site):
                need = nodes.site_need(k, s)
                if need > 0 and need > segments.free[x, s]:
                    suffices = False
            x = segments.next[x]
            if not suffices:
                start_s = segments.start_s[x] if x != NONE else inf
        return start_s

    def begin(self, k: int, takes_s: float) -> None:
        """Choose the row of what is known; clear it if it was another kind's, or for another run time."""
        row = int(takes_s)
        row = abs(k + 7 * row) % self.known_kind.shape[0]
        self.known, self.heap.n, self.own = row, 0, self.kinds.own(k)
        if self.known_kind[row] != k or self.known_takes_s[row] != takes_s:
            self.known_kind[row], self.known_takes_s[row] = k, takes_s
            for n in range(self.nodes.n_nodes):
                self.known_version[row, n] = 0

    def offers_none(self, n: int, before_s: float) -> bool:
        """Whether node n is known to offer no chunk before a time, since it has gained nothing."""
        row = self.known
        return (
            self.busy_until_s[row, n] >= before_s and self.known_version[row, n] == self.timeline.version[n]
        )

    def first_look_at(
        self, k: int, n: int, from_s: float, takes_s: float, before_s: float, now_s: float
    ) -> None:
        """As `look_at`, in a new search: begins where the node may offer something, and keeps where that
        is."""
        row, version, until_s = self.known, self.timeline.version[n], now_s
        is_known = self.known_version[row, n] == version
        if is_known:
            until_s = self.busy_until_s[row, n]
        self.segments.forget_past(n, now_s)
        self.at[n] = self.segments.first[n]
        if until_s >= from_s or not is_known:
            until_s = self.look_at(k, n, until_s, takes_s, inf)
            if version > 0:  # else it will have less, when what is lifted returns
                self.known_version[row, n], self.busy_until_s[row, n] = version, until_s
        if until_s < from_s:
            self.look_at(k, n, from_s, takes_s, before_s)
        elif until_s >= before_s:
            self.offer[n] = 0

    def look_again_at(self, n: int, at_s: float) -> None:
        self.at_s[n] = at_s
        self.heap.push(n, at_s, n)

    def offers_now(self, n: int, start_s: float) -> int:
        """How many chunks node n offers, as of the last look."""
        return self.offer[n] if self.offers_s[n] == start_s else 0

    def earliest_s(
        self, k: int, chunks: int, from_s: float, takes_s: float, before_s: float, now_s: float
    ) -> float:
        """The earliest time from `from_s` on, and before another, from which `chunks` chunks of kind k fit
        for `takes_s`; infinite if there is none.

        What is free throughout that time is in the state of the nodes, and what fits in `fit`, where any
        chunk fits. Only times are tried at which a node offers more than before. For N nodes with u segments
        each: O(N u) until nodes offer something, then O(u + log N) for each end of a use on a node that does,
        with O(all uses) for each such time if the job requests resources of the site."""
        segments, nodes, fit, heap = self.segments, self.nodes, self.nodes.fit, self.heap
        of_site = nodes.requests_of_site(k)
        total, n_offering, start_s = 0, 0, from_s
        self.begin(k, takes_s)
        self.most = 0
        for n in range(nodes.n_nodes):
            fit[k, n] = 0
            if nodes.is_open(k, n) and not self.offers_none(n, before_s):
                self.first_look_at(k, n, from_s, takes_s, before_s, now_s)
                if self.offer[n] > 0:
                    self.look_again_at(n, self.offers_s[n])
        while heap.n > 0:
            start_s = max(start_s, heap.first_key())
            if of_site:
                start_s = self.site_offers_s(k, start_s, takes_s)
            if start_s >= before_s:
                break
            n_kept = 0
            for x in range(n_offering):
                n = self.offering[x]
                if fit[k, n] > 0 and self.at_s[n] > start_s and self.beyond_s[n] < start_s + takes_s:
                    self.look_at(k, n, start_s, takes_s, before_s)
                    now_fit = self.offers_now(n, start_s)
                    total += now_fit - fit[k, n]
                    fit[k, n] = now_fit
                if fit[k, n] > 0:
                    self.offering[n_kept] = n
                    n_kept += 1
            n_offering = n_kept
            while heap.n > 0 and heap.first_key() <= start_s:
                n = heap.pop()
                if self.offers_s[n] < start_s or fit[k, n] > 0:
                    self.look_at(k, n, start_s, takes_s, before_s)
                now_fit = self.offers_now(n, start_s)
                if fit[k, n] == 0 and now_fit > 0:
                    self.offering[n_offering] = n
                    n_offering += 1
                total += now_fit - fit[k, n]
                fit[k, n] = now_fit
                if now_fit > 0:  # it may offer more from the next segment on
                    following = segments.next[self.at[n]]
                    if following != NONE:
                        self.look_again_at(n, segments.start_s[following])
                elif self.offer[n] > 0:
                    self.look_again_at(n, self.offers_s[n])
            self.most = max(self.most, total)
            if total >= chunks and self.kinds.connects(k, chunks, fit[k]):
                return start_s
        return inf
