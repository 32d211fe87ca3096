"""The check of facts where runs use cores, memory and GPUs of nodes."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.compiled import FixedBytes, Flags, Ints, Ints2, compiled, implements, part
from scheduler.node_request import MOST_GPUS
from sil.outcome.invariants.kernels import clean_facts
from sil.outcome.invariants.kernels.clean_facts import (
    AT_SIGN,
    COLON,
    COMMA,
    SPACE,
    TAB,
    S,
    interval_at,
    number_at,
)

N_OF_REQUEST = 5
CHUNKS, EXCLUSIVE, GPUS, GPU_SHARE, GPU_TYPES = range(N_OF_REQUEST)
"""Columns of `NodeShares.requests`: chunks of the job; whether it takes whole nodes; of each chunk, GPUs,
thousandths of each GPU, and their types as bits."""


class NodeShares(NamedTuple):
    """What is free of nodes and of the site's resources, and what is requested of them; cores and GPUs in
    thousandths. What a run holds is the text of its nodes, a tab, and its shares of them."""

    # by node
    specification: Ints
    down: Flags
    whole: Flags  # one job has it for itself
    n_chunks: Ints
    room: Ints2  # by resource
    gpus: Ints2  # what is left of each
    gpu_types: Ints2  # a bit
    marks: Flags  # scratch, false
    of_site: Ints
    # by request
    requests: Ints2
    amounts: Ints2  # of a chunk, by resource
    site_amounts: Ints2
    most: Ints2  # chunks that fit on an empty node, by specification


@implements(clean_facts.take)
def take(s: NodeShares, texts: FixedBytes, at: int, end: int, most: int, request: int) -> bool:
    tab, n_marked, chunks = at, 0, 0
    while tab < end and texts[tab] != TAB:
        tab += 1
    while at < tab:
        first, last, at = interval_at(texts, at, tab, most)
        if first < 0:
            return False
        for node in range(first, last + 1):
            if s.marks[node] or s.down[node]:
                return False
            s.marks[node] = True
            n_marked += 1
    at = tab + 1
    while at < end:
        node, at = number_at(texts, at, end, most)
        if node < 0 or at >= end or texts[at] != COLON or not s.marks[node]:
            return False
        here, at = number_at(texts, at + 1, end, s.most[request, s.specification[node]])
        if here < 1 or not _take_on(s, node, here, request):
            return False
        at = _take_gpus(s, texts, at, end, node, here, request)
        if at < 0:
            return False
        s.marks[node] = False
        n_marked -= 1
        chunks += here
    for x in range(len(s.of_site)):
        s.of_site[x] -= s.site_amounts[request, x]
        if s.of_site[x] < 0:
            return False
    return n_marked == 0 and chunks == s.requests[request, CHUNKS]


@part
def _take_on(s: NodeShares, node: int, chunks: int, request: int) -> bool:
    """All but GPUs. An exclusive job leaves the amounts as they are, since no other may take any."""
    if s.whole[node]:
        return False
    if s.requests[request, EXCLUSIVE]:
        if s.n_chunks[node]:
            return False
        s.whole[node] = True
    else:
        for x in range(s.room.shape[1]):
            s.room[node, x] -= chunks * s.amounts[request, x]
            if s.room[node, x] < 0:
                return False
    s.n_chunks[node] += chunks
    return True


@part
def _take_gpus(
    s: NodeShares, texts: FixedBytes, at: int, end: int, node: int, chunks: int, request: int
) -> int:
    """Where the next share begins; -1 if it may not have those GPUs. An exclusive job has all, whatever it
    names."""
    if s.requests[request, EXCLUSIVE]:
        while at < end and texts[at] != SPACE:
            at += 1
        return at + 1
    share, seen, n, separator = s.requests[request, GPU_SHARE], 0, 0, AT_SIGN
    while at < end and texts[at] == separator:
        gpu, at = number_at(texts, at + 1, end, s.gpus.shape[1] - 1)
        if gpu < 0 or seen & (1 << gpu) or not s.gpu_types[node, gpu] & s.requests[request, GPU_TYPES]:
            return -1
        s.gpus[node, gpu] -= share
        if s.gpus[node, gpu] < 0:
            return -1
        seen |= 1 << gpu
        n, separator = n + 1, COMMA
    if n != chunks * s.requests[request, GPUS] or (at < end and texts[at] != SPACE):
        return -1
    return at + 1


@implements(clean_facts.give_back)
def give_back(s: NodeShares, texts: FixedBytes, at: int, end: int, most: int, request: int) -> None:
    while texts[at] != TAB:
        at += 1
    at += 1
    while at < end:
        node, at = number_at(texts, at, end, most)
        chunks, at = number_at(texts, at + 1, end, s.requests[request, CHUNKS])
        s.n_chunks[node] -= chunks
        if not s.whole[node]:
            for x in range(s.room.shape[1]):
                s.room[node, x] += chunks * s.amounts[request, x]
        while at < end and texts[at] != SPACE:
            gpu, at = number_at(texts, at + 1, end, MOST_GPUS)
            if not s.whole[node]:
                s.gpus[node, gpu] += s.requests[request, GPU_SHARE]
        s.whole[node] = False
        at += 1
    for x in range(len(s.of_site)):
        s.of_site[x] += s.site_amounts[request, x]


@implements(clean_facts.set_down)
def set_down(s: NodeShares, machine: int, is_down: bool) -> None:
    s.down[machine] = is_down


are_clean = compiled(clean_facts.are_clean, {S: NodeShares})
