"""Whether facts break no invariant. What a run holds is read from its rows, again when it is over."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.compiled import Bytes, Flags, Floats, Ints, Ints2, compiled, inlined, part

OTHER, ARRIVED, STARTED, ENDED, INTERRUPTED, REFUSED, DOWN, UP = range(8)
"""Kinds of facts. A job whose run was interrupted waits again."""

UNKNOWN, RUNNING = 0, 1
"""Places of a job that did not arrive or is over, and RUNNING + row if it has that row of the runs. That of a
job that waits is negative: -1 - the number of its request."""

N_WAITING, N_RUNNING, LAST_RUN = 0, 1, 2
"""Places in `counts`."""


class Chunk(NamedTuple):
    """Facts in order. The k-th run that starts holds `held[held_at[k]:held_at[k + 1]]`: intervals of
    machines or shares of nodes."""

    times_s: Floats
    kinds: Bytes
    jobs: Ints
    runs: Ints
    machines: Ints
    """That of a fact on a machine."""
    requests: Ints
    """The number of the request of each job that arrives."""
    held_at: Ints
    held: Ints2


class Running(NamedTuple):
    """Rows of runs; those from N_RUNNING on are free."""

    job: Ints
    run: Ints
    request: Ints
    held_at: Ints
    held_end: Ints


class Held(NamedTuple):
    """What is held of machines, each by one run; or what is free of nodes and of the site's resources, and
    what is requested of them, cores and GPUs in thousandths."""

    # by machine
    down: Flags
    busy: Flags  # none on nodes
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


FIRST, LAST = range(2)
"""Columns of an interval of machines."""
NODE, ITS_CHUNKS, ITS_GPUS = range(3)
"""Columns of a share of a node; GPUs are bits."""


@part
def _take(s: Held, held: Ints2, at: int, end: int, request: int) -> bool:
    """Hold some rows; false if the run cannot hold them, after which the state is of no more use."""
    if len(s.n_chunks) == 0:
        return _take_machines(s, held, at, end)
    chunks = 0
    for row in range(at, end):
        node, here = held[row, NODE], held[row, ITS_CHUNKS]
        if node < 0 or node >= len(s.down) or s.down[node]:
            return False
        if here < 1 or here > s.most[request, s.specification[node]] or not _take_on(s, node, here, request):
            return False
        has_all_gpus = s.requests[request, EXCLUSIVE]  # whatever it names
        if not has_all_gpus and not _take_gpus(s, node, here, held[row, ITS_GPUS], request):
            return False
        chunks += here
    for x in range(len(s.of_site)):
        s.of_site[x] -= s.site_amounts[request, x]
        if s.of_site[x] < 0:
            return False
    return bool(chunks == s.requests[request, CHUNKS])


@part
def _take_machines(s: Held, held: Ints2, at: int, end: int) -> bool:
    for row in range(at, end):
        first, last = held[row, FIRST], held[row, LAST]
        if first < 0 or last < first or last >= len(s.down):
            return False
        for machine in range(first, last + 1):
            if s.busy[machine] or s.down[machine]:
                return False
            s.busy[machine] = True
    return at < end


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
def _take_gpus(s: Held, node: int, chunks: int, gpus: int, request: int) -> bool:
    n, n_taken = s.gpus.shape[1], 0
    if gpus < 0 or gpus >> n:
        return False
    for gpu in range(n):
        if gpus >> gpu & 1:
            s.gpus[node, gpu] -= s.requests[request, GPU_SHARE]
            if s.gpus[node, gpu] < 0 or not s.gpu_types[node, gpu] & s.requests[request, GPU_TYPES]:
                return False
            n_taken += 1
    return bool(n_taken == chunks * s.requests[request, GPUS])


@part
def _give_back(s: Held, held: Ints2, at: int, end: int, request: int) -> None:
    for row in range(at, end):
        if len(s.n_chunks) == 0:
            s.busy[held[row, FIRST] : held[row, LAST] + 1] = False
            continue
        node, chunks = held[row, NODE], held[row, ITS_CHUNKS]
        s.n_chunks[node] -= chunks
        if not s.whole[node]:
            for x in range(s.room.shape[1]):
                s.room[node, x] += chunks * s.amounts[request, x]
            for gpu in range(s.gpus.shape[1]):
                if held[row, ITS_GPUS] >> gpu & 1:
                    s.gpus[node, gpu] += s.requests[request, GPU_SHARE]
        s.whole[node] = False
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
    _give_back(s, chunk.held, running.held_at[row], running.held_end[row], request)
    place_of[running.job[row]] = -1 - request if kind == INTERRUPTED else UNKNOWN
    if kind == INTERRUPTED:
        counts[N_WAITING] += 1
    counts[N_RUNNING] -= 1
    last = counts[N_RUNNING]
    if row != last:  # the last row takes its place
        running.job[row], running.run[row] = running.job[last], running.run[last]
        running.request[row] = running.request[last]
        running.held_at[row], running.held_end[row] = running.held_at[last], running.held_end[last]
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
                row, at, end = counts[N_RUNNING], chunk.held_at[n_starts], chunk.held_at[n_starts + 1]
                n_starts += 1
                # Runs that are not numbered in order of start might have a number twice.
                if place >= 0 or chunk.runs[k] <= counts[LAST_RUN]:
                    return False
                request = -1 - place
                if not _take(s, chunk.held, at, end, request):
                    return False
                running.job[row], running.run[row], running.request[row] = job, chunk.runs[k], request
                running.held_at[row], running.held_end[row] = at, end
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
