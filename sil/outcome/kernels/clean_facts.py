"""Whether facts break no invariant: machines are bits of words, what a run holds is read from its text."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from scheduler.compiled import Floats, Ints, compiled, inlined, part

FixedBytes = Annotated[NDArray[np.uint8], types.Array(types.uint8, 1, "C", readonly=True)]
Bytes = Annotated[NDArray[np.uint8], types.Array(types.uint8, 1, "C")]

OTHER, ARRIVED, STARTED, ENDED, INTERRUPTED, REFUSED, DOWN, UP = range(8)
"""Kinds of facts. A job whose run was interrupted waits again."""

UNKNOWN, WAITING, RUNNING = 0, 1, 2
"""Places of a job that did not arrive or is over, or waits; RUNNING + row if it has that row of the runs."""

N_WAITING, N_RUNNING, LAST_RUN = 0, 1, 2
"""Places in `counts`."""

_SPACE, _MINUS, _ZERO, _NINE = 32, 45, 48, 57


class Chunk(NamedTuple):
    """Facts in order; of the k-th start, the machines are `texts[text_at[k]:text_at[k + 1]]`."""

    times_s: Floats
    kinds: Bytes
    jobs: Ints
    runs: Ints
    machines: Ints
    """That of a fact on a machine."""
    text_at: Ints
    texts: FixedBytes


class Running(NamedTuple):
    """Rows of runs; those from N_RUNNING on are free."""

    job: Ints
    run: Ints
    text_at: Ints
    text_end: Ints


@inlined
def _number(texts: FixedBytes, at: int, end: int, most: int) -> tuple[int, int]:
    """The number that begins there, and where it ends; -1 if there is none from 0 to `most`."""
    number, begins = 0, at
    while at < end and _ZERO <= texts[at] <= _NINE and number <= most:
        number = number * 10 + (int(texts[at]) - _ZERO)
        at += 1
    if at == begins or number > most:
        number = -1
    return number, at


@inlined
def _interval(texts: FixedBytes, at: int, end: int, most: int) -> tuple[int, int, int]:
    """The machines `first` to `last` of the interval that begins there, and where the next one begins;
    `first` is -1 if it is none."""
    first, at = _number(texts, at, end, most)
    last = first
    if first >= 0 and at < end and texts[at] == _MINUS:
        last, at = _number(texts, at + 1, end, most)
    if last < first or (at < end and texts[at] != _SPACE):
        first = -1
    return first, last, at + 1


@inlined
def _bits(word: int, first: int, last: int) -> int:
    """Of 64 machines, those from `first` to `last`."""
    low = first - 64 * word if first > 64 * word else 0
    high = last - 64 * word if last < 64 * word + 63 else 63
    return (-1 << low) & ~(-2 << high)


@part
def _take(texts: FixedBytes, at: int, end: int, most: int, held: Ints, down: Ints) -> bool:
    """Hold machines; false if one of them is held, is down, is named twice or does not exist."""
    if at >= end:
        return False
    while at < end:
        first, last, at = _interval(texts, at, end, most)
        if first < 0:
            return False
        for word in range(first // 64, last // 64 + 1):
            bits = _bits(word, first, last)
            if (held[word] | down[word]) & bits:
                return False
            held[word] |= bits
    return True


@part
def _give_back(texts: FixedBytes, at: int, end: int, most: int, held: Ints) -> None:
    while at < end:
        first, last, at = _interval(texts, at, end, most)
        for word in range(first // 64, last // 64 + 1):
            held[word] &= ~_bits(word, first, last)


@inlined
def _row_of(job: int, run: int, place_of: Ints, running: Running) -> int:
    """The row of a run of a job; -1 if it is not running."""
    row: int = place_of[job] - RUNNING
    if row >= 0 and running.run[row] != run:
        row = -1
    return row


@part
def _over(
    row: int, kind: int, chunk: Chunk, most: int, held: Ints, running: Running, place_of: Ints, counts: Ints
) -> None:
    _give_back(chunk.texts, running.text_at[row], running.text_end[row], most, held)
    place_of[running.job[row]] = WAITING if kind == INTERRUPTED else UNKNOWN
    if kind == INTERRUPTED:
        counts[N_WAITING] += 1
    counts[N_RUNNING] -= 1
    last = counts[N_RUNNING]
    if row != last:  # the last row takes its place
        running.job[row], running.run[row] = running.job[last], running.run[last]
        running.text_at[row], running.text_end[row] = running.text_at[last], running.text_end[last]
        place_of[running.job[row]] = RUNNING + row


@compiled
def are_clean(
    chunk: Chunk, n_machines: int, held: Ints, down: Ints, running: Running, place_of: Ints, counts: Ints
) -> bool:
    """Follow facts of whole instants in order of time; false at the first that may break an invariant.

    `place_of` has a place for every number of a job, and `running` a row for every run. What a run frees at
    an instant may be used at that instant, whichever fact comes first. Facts are noted in `chunk` as done.
    """
    most, n = n_machines - 1, len(chunk.kinds)
    begins, n_starts = 0, 0
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
                        _over(row, kind, chunk, most, held, running, place_of, counts)
                        chunk.kinds[k] = OTHER
        for k in range(begins, ends):
            kind = chunk.kinds[k]
            if kind == OTHER:
                continue
            if kind in (DOWN, UP):
                machine = chunk.machines[k]
                if machine < 0 or machine > most:
                    return False
                if kind == DOWN:
                    down[machine // 64] |= 1 << (machine % 64)
                else:
                    down[machine // 64] &= ~(1 << (machine % 64))
                continue
            job = chunk.jobs[k]
            if job < 0:
                return False
            place = place_of[job]
            if kind == STARTED:
                row, at, end = counts[N_RUNNING], chunk.text_at[n_starts], chunk.text_at[n_starts + 1]
                n_starts += 1
                # Runs that are not numbered in order of start might have a number twice.
                if place != WAITING or chunk.runs[k] <= counts[LAST_RUN]:
                    return False
                if not _take(chunk.texts, at, end, most, held, down):
                    return False
                running.job[row], running.run[row] = job, chunk.runs[k]
                running.text_at[row], running.text_end[row] = at, end
                place_of[job] = RUNNING + row
                counts[LAST_RUN] = chunk.runs[k]
                counts[N_RUNNING] += 1
                counts[N_WAITING] -= 1
            elif kind in (ARRIVED, REFUSED):
                if place >= RUNNING:
                    return False
                counts[N_WAITING] += (kind == ARRIVED) - (place == WAITING)
                place_of[job] = WAITING if kind == ARRIVED else UNKNOWN
            else:
                row = _row_of(job, chunk.runs[k], place_of, running)
                if row < 0:
                    return False
                _over(row, kind, chunk, most, held, running, place_of, counts)
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
