"""The waiting jobs as leaves of a binary tree, in the order of the queue.

Row k of `tree` is a node with children in rows 2k and 2k + 1; the root is row 1. It has the number of jobs
below it, their least size and their least estimate: the next job that may start is found without a scan.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from scheduler.compiled import Floats2, Ints, inlined, part

N_JOBS, SIZE, ESTIMATE_S, JOB = 0, 1, 2, 3
"""Columns of a tree; only leaves have the number of the job."""

NONE = -1

Tree = Annotated[Floats2, "leaves", 4]


def empty_tree(capacity: int) -> Tree:
    """A tree with room for `capacity` jobs, a power of two."""
    tree = np.full((2 * capacity, 4), np.inf)
    tree[:, N_JOBS] = 0.0
    return tree


@inlined
def summarise(tree: Tree, k: int) -> None:
    """Set a node from its children."""
    left, right = 2 * k, 2 * k + 1
    tree[k, N_JOBS] = tree[left, N_JOBS] + tree[right, N_JOBS]
    tree[k, SIZE] = min(tree[left, SIZE], tree[right, SIZE])
    tree[k, ESTIMATE_S] = min(tree[left, ESTIMATE_S], tree[right, ESTIMATE_S])


@inlined
def set_leaf(tree: Tree, place: int, n_jobs: float, size: float, estimate_s: float) -> None:
    k = len(tree) // 2 + place
    tree[k, N_JOBS], tree[k, SIZE], tree[k, ESTIMATE_S] = n_jobs, size, estimate_s
    while k > 1:
        k >>= 1
        summarise(tree, k)


@part
def close_ranks(tree: Tree, slot: Ints, place: Ints) -> int:
    """Move all jobs to the front, in their order, with what is in `slot` by place, whose inverse is `place`.
    Returns how many they are."""
    capacity, n = len(tree) // 2, 0
    for old in range(capacity):
        k = capacity + old
        if tree[k, N_JOBS] > 0:
            if old != n:
                for column in range(4):
                    tree[capacity + n, column] = tree[k, column]
                tree[k, N_JOBS], tree[k, SIZE], tree[k, ESTIMATE_S] = 0.0, np.inf, np.inf
                slot[n] = slot[old]
            place[slot[n]] = n
            n += 1
    for k in range(capacity - 1, 0, -1):
        summarise(tree, k)
    return n


@part
def place_of(tree: Tree, rank: int) -> int:
    """The place of the job with `rank` jobs before it."""
    k, capacity = 1, len(tree) // 2
    while k < capacity:
        k *= 2
        if tree[k, N_JOBS] <= rank:
            rank -= int(tree[k, N_JOBS])
            k += 1
    return k - capacity


@inlined
def rank_of(tree: Tree, place: int) -> int:
    """The number of jobs before the one in a place."""
    k, rank = len(tree) // 2 + place, 0
    while k > 1:
        if k % 2 == 1:
            rank += int(tree[k - 1, N_JOBS])
        k >>= 1
    return rank


@inlined
def after(k: int) -> int:
    """The next node of a walk from left to right after the subtree of node k; 0 = none."""
    while k % 2 == 1:
        k >>= 1
    return k + 1 if k > 0 else 0


@inlined
def first_that_fits(tree: Tree, most: float, spare: float, now_s: float, until_s: float) -> int:
    """The first job that needs at most `most` nodes, and either no more than `spare` or ends by `until_s`."""
    k, capacity = 1, len(tree) // 2
    while k > 0:
        size = tree[k, SIZE]
        if size <= most and (size <= spare or now_s + tree[k, ESTIMATE_S] <= until_s):
            if k >= capacity:
                return k - capacity
            k *= 2
        else:
            k = after(k)
    return NONE


@inlined
def shortest_that_fits(tree: Tree, most: float) -> int:
    """The job of the least estimate that needs at most `most` nodes; ties go to the first."""
    k, capacity = 1, len(tree) // 2
    best, least_s = NONE, np.inf
    while k > 0:
        if tree[k, SIZE] <= most and (tree[k, ESTIMATE_S] < least_s):
            if k < capacity:
                k *= 2
                continue
            best, least_s = k - capacity, tree[k, ESTIMATE_S]
        k = after(k)
    return best
