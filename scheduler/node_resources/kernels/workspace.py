"""What a pass over the queue needs beside the state of nodes."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.compiled import Flags, Floats, Floats2, Ints, Ints2
from scheduler.node_resources.kernels.tables import NodeTable

COPIED, KIND, NEEDED, TOTAL = range(4)
"""Places in `Shadow.found`: number of copied rows; kind and chunks of the first job; how many fit then."""


class Shadow(NamedTuple):
    """The state at the reserved time."""

    then: NodeTable
    is_copied: Flags  # (N,)
    copied: Ints  # (N,): the nodes of which rows are copied
    fit: Ints  # (N,): chunks of the first job that fit then, where copied
    found: Ints  # (4,): COPIED, KIND, NEEDED, TOTAL


class Ranking(NamedTuple):
    """The scores of nodes by kind of request, as of the time when they were last needed."""

    selection: Ints  # (1,): one of the codes in `scores`
    weights: Floats  # (R + 1,): of resources, and of GPUs
    scores: Floats2  # (K, N)
    seen: Ints  # (K,): time of `scores`, in changes
    heap: Ints  # (N,): work space


class Jobs(NamedTuple):
    """Of each job: the kind of its request, how many chunks, and its estimated run time."""

    kinds: Ints
    chunks: Ints
    estimates_s: Floats


JOB, AFTER = 0, 1
"""Columns of `Pass.placed`: the job, and the row after its last one."""

AT, FIRST, TAKING, N_PLACED, N_ROWS, ROW, N_DELAYING, GPU = range(8)
"""Places in `Pass.counts`: in the order of the queue; the first job that does not fit, or NONE; the job whose
rows are being taken, or NONE; numbers of rows; the next row to be taken; the answer to `WHICH_GPU`."""

NOT_ASKED = -2
"""In the place GPU. NONE is an answer: the GPU with the least left."""

RESERVED_S = 0
"""Place in `Pass.times_s`: when the first job fits; infinite if never, or if nothing is reserved."""


DONE, WHICH_SCORES, WHICH_GPU, MORE_ROWS = range(4)
"""Why a pass returns: all is decided; Python has to bring the scores for a job up to date, or to choose a GPU
on the node in the row ROW for the job that is TAKING; or there are too few rows. It goes on when called
again."""


class Pass(NamedTuple):
    """Which jobs start, and what each uses."""

    counts: Ints
    times_s: Floats
    placed: Ints2  # (J, 2): JOB, AFTER
    rows: Ints2  # (M, 3): NODE, CHUNKS, GPUS, job by job
    by_end: Ints  # (J,): rows of `placed`, by expected end
    is_out: Flags  # (J,), by job: started, or the first that does not fit
    delaying: Ints2  # (D, 2): kind and chunks of requests that would delay the first job
