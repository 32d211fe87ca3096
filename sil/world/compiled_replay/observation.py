"""What a policy sees of a queue of identical nodes, and the pass in which it chooses job by job.

A pass starts jobs one after the other: each is removed from the tree of those that wait, and its release is
expected. After the pass the queue is as it was before, and the jobs are in `started`, as those of
`backfilling.one_pass`. Views are of many queues, so that these can be observed together.
"""

from __future__ import annotations

from math import log1p
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.compiled import Flags2, Ints2, Singles2, Singles3, allocate, inlined, part
from scheduler.free_nodes.kernels.backfilling import (
    first_in_queue,
    forget_ends,
    put_back,
    reservation,
    start,
)
from scheduler.free_nodes.kernels.identical import RigidQueue
from scheduler.free_nodes.kernels.ledger import FCFS
from scheduler.free_nodes.kernels.queue_tree import ESTIMATE_S, N_JOBS, NONE, SIZE, after
from scheduler.node_resources.kernels.releases import AFTER_ALL, insert

OF_SIZE, OF_ESTIMATE, OF_WAIT, FITS, IS_IN_TIME = range(5)
"""Columns of `Views.jobs`: nodes, as a share of all; estimated run time and time waited, scaled; 1 if the job
fits now; 1 if it also does not delay the first waiting job, by the reservation of EASY."""

OF_FREE, OF_WAITING, OF_RESERVATION, OF_SPARE, OF_HORIZONS = range(5)
"""Columns of `Views.machine`: free nodes, as a share of all; n / (n + window) for n waiting jobs; the time to
the reservation of the first one, scaled; the nodes that are spare then, as a share of all; and from
OF_HORIZONS on the nodes that are expected to be free at each of HORIZONS_S from now, as a share of all."""

HORIZONS_S = (600.0, 3_600.0, 14_400.0, 86_400.0)
N_OF_JOB, N_OF_MACHINE = 5, OF_HORIZONS + len(HORIZONS_S)

_LARGEST = log1p(365.0 * 86_400.0)
"""A year."""

N_ROWS, N_LEFT, N_NODES = range(3)
"""Columns of `Views.counts`: rows in use, free nodes that are left, all nodes."""


class Views(NamedTuple):
    """What is seen of so many queues."""

    jobs: Singles3  # (queues, window, N_OF_JOB) the first waiting jobs; 0 in other rows
    machine: Singles2  # (queues, N_OF_MACHINE)
    mask: Flags2  # (queues, window + 1) which job can be chosen, and whether the rest can wait
    places: Ints2  # (queues, window) of the jobs, in the queue's tree
    counts: Ints2  # (queues, 3)


@inlined
def scaled(time_s: float) -> float:
    """0 for no time, 1 for a year and more; each doubling adds as much."""
    return min(log1p(max(time_s, 0.0)) / _LARGEST, 1.0)


@part
def begin_pass(q: RigidQueue, v: Views, at: int) -> None:
    q.starting.n[0], v.counts[at, N_LEFT] = 0, q.n_free[0]


@part
def observe(q: RigidQueue, v: Views, at: int, now_s: float) -> int:
    """Write what a policy sees now. Returns how many of the jobs in its window fit.

    It may wait unless all nodes are idle, so that a job starts or the time passes.
    """
    n_left, window = v.counts[at, N_LEFT], v.mask.shape[1] - 1
    n_nodes = float(v.counts[at, N_NODES])
    tree, capacity = q.tree, len(q.tree) // 2
    head, reserved_s, spare = first_in_queue(tree, FCFS), now_s, 0
    if head != NONE:
        needed = int(tree[capacity + head, SIZE])
        reserved_s, spare = reservation(q.ledger.releases, n_left, needed, now_s)
    k, row, n_fitting = 1, 0, 0
    while k > 0 and row < window:
        if tree[k, N_JOBS] == 0.0:
            k = after(k)
        elif k < capacity:
            k *= 2
        else:
            place, size, takes_s = k - capacity, tree[k, SIZE], tree[k, ESTIMATE_S]
            fits = size <= n_left
            is_in_time = place == head or size <= spare or now_s + takes_s <= reserved_s
            v.jobs[at, row, OF_SIZE], v.jobs[at, row, OF_ESTIMATE] = size / n_nodes, scaled(takes_s)
            v.jobs[at, row, OF_WAIT] = scaled(now_s - q.ledger.began_s[q.slot[place]])
            v.jobs[at, row, FITS] = 1.0 if fits else 0.0
            v.jobs[at, row, IS_IN_TIME] = 1.0 if fits and is_in_time else 0.0
            v.places[at, row], v.mask[at, row] = place, fits
            n_fitting += fits
            row += 1
            k = after(k)
    clear_rows(v, at, row)
    v.mask[at, window] = q.ledger.releases.n[0] > 0 or n_fitting == 0
    n_waiting, machine = tree[1, N_JOBS], v.machine
    machine[at, OF_FREE], machine[at, OF_WAITING] = n_left / n_nodes, n_waiting / (n_waiting + window)
    machine[at, OF_RESERVATION], machine[at, OF_SPARE] = scaled(reserved_s - now_s), spare / n_nodes
    write_horizons(q, v, at, now_s)
    return n_fitting


@inlined
def clear_rows(v: Views, at: int, n_rows: int) -> None:
    """Behind the rows in use."""
    for row in range(n_rows, v.counts[at, N_ROWS]):
        for column in range(N_OF_JOB):
            v.jobs[at, row, column] = 0.0
        v.mask[at, row] = False
    v.counts[at, N_ROWS] = n_rows


@inlined
def write_horizons(q: RigidQueue, v: Views, at: int, now_s: float) -> None:
    n_free, x, releases = float(v.counts[at, N_LEFT]), 0, q.ledger.releases
    for h in range(len(HORIZONS_S)):
        while x < releases.n[0] and releases.end_s[x] <= now_s + HORIZONS_S[h]:
            n_free += releases.released[x]
            x += 1
        v.machine[at, OF_HORIZONS + h] = n_free / v.counts[at, N_NODES]


@inlined
def chosen_row(v: Views, at: int, action: int) -> int:
    """The row of the job that an action starts, or `window` for none: an action that the mask excludes is to
    wait, and where that is excluded, too, to start the first job that fits."""
    window = v.mask.shape[1] - 1
    row = action if 0 <= action <= window and v.mask[at, action] else window
    if not v.mask[at, row]:
        row = 0
        while not v.mask[at, row]:
            row += 1
    return row


@part
def choose(q: RigidQueue, v: Views, at: int, row: int, now_s: float) -> None:
    """The job in a row starts."""
    x, size = q.starting.n[0], start(q.tree, q.starting, v.places[at, row])
    insert(q.ledger.releases, now_s + q.starting.takes_s[x], size, AFTER_ALL, 0)
    v.counts[at, N_LEFT] -= size


@part
def end_pass(q: RigidQueue, now_s: float) -> int:
    """The queue is as before the pass. Returns how many jobs start; see `backfilling.one_pass`."""
    forget_ends(q.ledger.releases, q.starting, q.starting.n[0], now_s)
    put_back(q.tree, q.starting)
    return int(q.starting.n[0])


@part
def write_nothing(v: Views, at: int) -> None:
    """There is nothing to see, and only to wait."""
    clear_rows(v, at, 0)
    v.machine[at, :] = 0.0
    v.mask[at, v.mask.shape[1] - 1] = True


def new_views(queues: int, window: int, n_nodes: int) -> Views:
    """Of so many queues for `n_nodes` each, through a window of so many jobs."""
    views = allocate(
        Views,
        (queues, window, N_OF_JOB),
        (queues, N_OF_MACHINE),
        (queues, window + 1),
        (queues, window),
        (queues, 3),
    )
    views.counts[:, N_NODES] = n_nodes
    return views


def observation_of(views: Views) -> dict[str, NDArray[Any]]:
    """By name, with a row for each queue; the arrays are those of the views."""
    return {"jobs": views.jobs, "machine": views.machine, "action_mask": views.mask.view(np.int8)}
