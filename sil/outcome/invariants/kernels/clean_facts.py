"""Whether facts break no invariant. What a run holds is read from its text, again when it is over."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.compiled import Bytes, FixedBytes, Flags, Floats, Ints, Ints2, compiled, inlined, part
from scheduler.node_request import MOST_GPUS

OTHER, ARRIVED, STARTED, ENDED, INTERRUPTED, REFUSED, DOWN, UP = range(8)
"""Kinds of facts. A job whose run was interrupted waits again."""

UNKNOWN, RUNNING = 0, 1
"""Places of a job that did not arrive or is over, and RUNNING + row if it has that row of the runs. That of a
job that waits is negative: -1 - the number of its request."""

N_WAITING, N_RUNNING, LAST_RUN = 0, 1, 2
"""Places in `counts`."""


class Chunk(NamedTuple):
    """Facts in order; what the k-th run that starts holds is `texts[text_at[k]:text_at[k + 1]]`."""

    times_s: Floats
    kinds: Bytes
    jobs: Ints
    runs: Ints
    machines: Ints
    """That of a fact on a machine."""
    requests: Ints
    """The number of the request of each job that arrives."""
    text_at: Ints
    texts: FixedBytes


class Running(NamedTuple):
    """Rows of runs; those from N_RUNNING on are free."""

    job: Ints
    run: Ints
    request: Ints
    text_at: Ints
    text_end: Ints


class Held(NamedTuple):
    """What is held of machines, each by one run, whose text names them; or what is free of nodes and of the
    site's resources, and what is requested of them, cores and GPUs in thousandths: the text of a run is then
    that of its nodes, a tab, and its shares of them."""

    # by machine
    down: Flags
    named: Flags  # a run holds it; of nodes, scratch: named by the run that starts
    # by node; none on machines
    specification: Ints
    whole: Flags  # one job has it to itself
    n_chunks: Ints
    room: Ints2  # by resource
    gpus: Ints2  # what is left of each
    gpu_types: Ints2  # a bit
    of_site: Ints
    # by request
    requests: Ints2
    amounts: Ints2  # of a chunk, by resource
    site_amounts: Ints2
    most: Ints2  # chunks that fit on an empty node, by specification


N_OF_REQUEST = 5
CHUNKS, EXCLUSIVE, GPUS, GPU_SHARE, GPU_TYPES = range(N_OF_REQUEST)
"""Columns of `Held.requests`: chunks of the job; whether it takes whole nodes; of each chunk, GPUs,
thousandths of each GPU, and their types as bits."""


SPACE, COMMA, MINUS, COLON, AT_SIGN, TAB = map(ord, " ,-:@\t")
_ZERO, _NINE = map(ord, "09")


@inlined
def _number_at(texts: FixedBytes, at: int, end: int, most: int) -> tuple[int, int]:
    """The number that begins there, and where it ends; -1 if there is none from 0 to `most`."""
    number, begins = 0, at
    while at < end and _ZERO <= texts[at] <= _NINE and number <= most:
        number = number * 10 + (int(texts[at]) - _ZERO)
        at += 1
    if at == begins or number > most:
        number = -1
    return number, at


@inlined
def _interval_at(texts: FixedBytes, at: int, end: int, most: int) -> tuple[int, int, int]:
    """The numbers `first` to `last` of the interval that begins there, and where the next one begins;
    `first` is -1 if it is none."""
    first, at = _number_at(texts, at, end, most)
    last = first
    if first >= 0 and at < end and texts[at] == MINUS:
        last, at = _number_at(texts, at + 1, end, most)
    if last < first or (at < end and texts[at] != SPACE):
        first = -1
    return first, last, at + 1


@part
def _take(s: Held, texts: FixedBytes, at: int, end: int, request: int) -> bool:
    """Hold what a text says; false if the run cannot hold it, after which the state is of no more use."""
    most, n_named, chunks = len(s.down) - 1, 0, 0
    tab = at
    while tab < end and texts[tab] != TAB:
        tab += 1
    while at < tab:
        first, last, at = _interval_at(texts, at, tab, most)
        if first < 0:
            return False
        is_taken = False
        for machine in range(first, last + 1):
            is_taken |= s.named[machine] | s.down[machine]
            s.named[machine] = True
        if is_taken:
            return False
        n_named += last + 1 - first
    if len(s.n_chunks) == 0:
        return n_named > 0
    at = tab + 1
    while at < end:
        node, at = _number_at(texts, at, end, most)
        if node < 0 or at >= end or texts[at] != COLON or not s.named[node]:
            return False
        here, at = _number_at(texts, at + 1, end, s.most[request, s.specification[node]])
        if here < 1 or not _take_on(s, node, here, request):
            return False
        at = _take_gpus(s, texts, at, end, node, here, request)
        if at < 0:
            return False
        s.named[node] = False
        n_named -= 1
        chunks += here
    for x in range(len(s.of_site)):
        s.of_site[x] -= s.site_amounts[request, x]
        if s.of_site[x] < 0:
            return False
    return n_named == 0 and chunks == s.requests[request, CHUNKS]


@part
def _take_on(s: Held, node: int, chunks: int, request: int) -> bool:
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
def _take_gpus(s: Held, texts: FixedBytes, at: int, end: int, node: int, chunks: int, request: int) -> int:
    """Where the next share begins; -1 if it may not have those GPUs. An exclusive job has all, whatever it
    names."""
    if s.requests[request, EXCLUSIVE]:
        while at < end and texts[at] != SPACE:
            at += 1
        return at + 1
    share, seen, n, separator = s.requests[request, GPU_SHARE], 0, 0, AT_SIGN
    while at < end and texts[at] == separator:
        gpu, at = _number_at(texts, at + 1, end, s.gpus.shape[1] - 1)
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


@part
def _give_back(s: Held, texts: FixedBytes, at: int, end: int, request: int) -> None:
    most = len(s.down) - 1
    if len(s.n_chunks) == 0:
        while at < end:
            first, last, at = _interval_at(texts, at, end, most)
            for machine in range(first, last + 1):
                s.named[machine] = False
        return
    while texts[at] != TAB:
        at += 1
    at += 1
    while at < end:
        node, at = _number_at(texts, at, end, most)
        chunks, at = _number_at(texts, at + 1, end, s.requests[request, CHUNKS])
        s.n_chunks[node] -= chunks
        if not s.whole[node]:
            for x in range(s.room.shape[1]):
                s.room[node, x] += chunks * s.amounts[request, x]
        while at < end and texts[at] != SPACE:
            gpu, at = _number_at(texts, at + 1, end, MOST_GPUS)
            if not s.whole[node]:
                s.gpus[node, gpu] += s.requests[request, GPU_SHARE]
        s.whole[node] = False
        at += 1
    for x in range(len(s.of_site)):
        s.of_site[x] += s.site_amounts[request, x]


@inlined
def _row_of(job: int, run: int, place_of: Ints, running: Running) -> int:
    """The row of a run of a job; -1 if it is not running."""
    row: int = place_of[job] - RUNNING
    if row >= 0 and running.run[row] != run:
        row = -1
    return row


@part
def _over(s: Held, row: int, kind: int, chunk: Chunk, running: Running, place_of: Ints, counts: Ints) -> None:
    request = running.request[row]
    _give_back(s, chunk.texts, running.text_at[row], running.text_end[row], request)
    place_of[running.job[row]] = -1 - request if kind == INTERRUPTED else UNKNOWN
    if kind == INTERRUPTED:
        counts[N_WAITING] += 1
    counts[N_RUNNING] -= 1
    last = counts[N_RUNNING]
    if row != last:  # the last row takes its place
        running.job[row], running.run[row] = running.job[last], running.run[last]
        running.request[row] = running.request[last]
        running.text_at[row], running.text_end[row] = running.text_at[last], running.text_end[last]
        place_of[running.job[row]] = RUNNING + row


@compiled
def are_clean(s: Held, chunk: Chunk, running: Running, place_of: Ints, counts: Ints) -> bool:
    """Follow facts of whole instants in order of time; false at the first that may break an invariant.

    `place_of` has a place for every number of a job, and `running` a row for every run. What a run frees at
    an instant may be used at that instant, whichever fact comes first. Facts are noted in `chunk` as done.
    """
    n = len(chunk.kinds)
    begins, n_starts, n_arrivals = 0, 0, 0
    while begins < n:
        time_s, ends = chunk.times_s[begins], begins + 1
        while ends < n and chunk.times_s[ends] == time_s:
            ends += 1
        if ends > begins + 1:
            for k in range(begins, ends):
                kind = chunk.kinds[k]
                if kind in (ENDED, INTERRUPTED) and chunk.jobs[k] >= 0:
                    row = _row_of(chunk.jobs[k], chunk.runs[k], place_of, running)
                    if row >= 0:  # it runs since before this instant
                        _over(s, row, kind, chunk, running, place_of, counts)
                        chunk.kinds[k] = OTHER
        for k in range(begins, ends):
            kind = chunk.kinds[k]
            if kind == OTHER:
                continue
            if kind in (DOWN, UP):
                machine = chunk.machines[k]
                if machine < 0 or machine >= len(s.down):
                    return False
                s.down[machine] = kind == DOWN
                continue
            job = chunk.jobs[k]
            if job < 0:
                return False
            place = place_of[job]
            if kind == STARTED:
                row, at, end = counts[N_RUNNING], chunk.text_at[n_starts], chunk.text_at[n_starts + 1]
                n_starts += 1
                # Runs that are not numbered in order of start might have a number twice.
                if place >= 0 or chunk.runs[k] <= counts[LAST_RUN]:
                    return False
                request = -1 - place
                if not _take(s, chunk.texts, at, end, request):
                    return False
                running.job[row], running.run[row], running.request[row] = job, chunk.runs[k], request
                running.text_at[row], running.text_end[row] = at, end
                place_of[job] = RUNNING + row
                counts[LAST_RUN] = chunk.runs[k]
                counts[N_RUNNING] += 1
                counts[N_WAITING] -= 1
            elif kind in (ARRIVED, REFUSED):
                if place >= RUNNING:
                    return False
                counts[N_WAITING] += int(kind == ARRIVED) - int(place < 0)
                if kind == ARRIVED:
                    place_of[job] = -1 - chunk.requests[n_arrivals]
                    n_arrivals += 1
                else:
                    place_of[job] = UNKNOWN
            else:
                row = _row_of(job, chunk.runs[k], place_of, running)
                if row < 0:
                    return False
                _over(s, row, kind, chunk, running, place_of, counts)
        begins = ends
    return True


@compiled
def keep_texts(running: Running, counts: Ints, texts: FixedBytes, kept: Bytes) -> int:
    """Copy the texts of the runs to `kept`, and say how many bytes they have."""
    n = 0
    for row in range(counts[N_RUNNING]):
        begins = n
        for at in range(running.text_at[row], running.text_end[row]):
            kept[n] = texts[at]
            n += 1
        running.text_at[row], running.text_end[row] = begins, n
    return n
