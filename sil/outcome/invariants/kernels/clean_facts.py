"""Whether facts break no invariant. What a run holds is read from its text, again when it is over."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from scheduler.compiled import Bytes, FixedBytes, Floats, Ints, compiled, generic, inlined, part

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


S = TypeVar("S", bound=tuple[Any, ...])
"""What runs hold of the machines, and which machines are down."""


@generic
def take(state: S, texts: FixedBytes, at: int, end: int, most: int, request: int) -> bool:
    """Hold what a text says, of machines 0 to `most`; false if the run cannot hold it, after which the state
    is of no more use."""
    raise NotImplementedError  # never runs: each kind of state has its implementation


@generic
def give_back(state: S, texts: FixedBytes, at: int, end: int, most: int, request: int) -> None:
    raise NotImplementedError  # never runs: each kind of state has its implementation


@generic
def set_down(state: S, machine: int, is_down: bool) -> None:
    raise NotImplementedError  # never runs: each kind of state has its implementation


@inlined
def _row_of(job: int, run: int, place_of: Ints, running: Running) -> int:
    """The row of a run of a job; -1 if it is not running."""
    row: int = place_of[job] - RUNNING
    if row >= 0 and running.run[row] != run:
        row = -1
    return row


@part
def _over(
    state: S, row: int, kind: int, chunk: Chunk, most: int, running: Running, place_of: Ints, counts: Ints
) -> None:
    request = running.request[row]
    give_back(state, chunk.texts, running.text_at[row], running.text_end[row], most, request)
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


def are_clean(
    state: S, chunk: Chunk, n_machines: int, running: Running, place_of: Ints, counts: Ints
) -> bool:
    """Follow facts of whole instants in order of time; false at the first that may break an invariant.

    `place_of` has a place for every number of a job, and `running` a row for every run. What a run frees at
    an instant may be used at that instant, whichever fact comes first. Facts are noted in `chunk` as done.
    """
    most, n = n_machines - 1, len(chunk.kinds)
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
                        _over(state, row, kind, chunk, most, running, place_of, counts)
                        chunk.kinds[k] = OTHER
        for k in range(begins, ends):
            kind = chunk.kinds[k]
            if kind == OTHER:
                continue
            if kind in (DOWN, UP):
                machine = chunk.machines[k]
                if machine < 0 or machine > most:
                    return False
                set_down(state, machine, kind == DOWN)
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
                if not take(state, chunk.texts, at, end, most, request):
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
                _over(state, row, kind, chunk, most, running, place_of, counts)
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


SPACE, COMMA, MINUS, COLON, AT_SIGN, TAB = map(ord, " ,-:@\t")
_ZERO, _NINE = map(ord, "09")


@inlined
def number_at(texts: FixedBytes, at: int, end: int, most: int) -> tuple[int, int]:
    """The number that begins there, and where it ends; -1 if there is none from 0 to `most`."""
    number, begins = 0, at
    while at < end and _ZERO <= texts[at] <= _NINE and number <= most:
        number = number * 10 + (int(texts[at]) - _ZERO)
        at += 1
    if at == begins or number > most:
        number = -1
    return number, at


@inlined
def interval_at(texts: FixedBytes, at: int, end: int, most: int) -> tuple[int, int, int]:
    """The numbers `first` to `last` of the interval that begins there, and where the next one begins;
    `first` is -1 if it is none."""
    first, at = number_at(texts, at, end, most)
    last = first
    if first >= 0 and at < end and texts[at] == MINUS:
        last, at = number_at(texts, at + 1, end, most)
    if last < first or (at < end and texts[at] != SPACE):
        first = -1
    return first, last, at + 1
