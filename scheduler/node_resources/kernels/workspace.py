"""What waits for nodes of which jobs use parts, and what a pass over it needs."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from scheduler.compiled import Flags, Floats, Floats2, Initially, Ints, Ints2
from scheduler.node_resources.kernels.tables import NONE, ByKind, ByNode, Held, NodeTable, RequestTable

BySlot = Annotated[Ints, "slots"]

MOST_DELAYING = 256
"""So many different requests are remembered, in one pass, to delay the first job."""

NOT_ASKED = -2
"""In place of a GPU. NONE is an answer: the GPU with the least left."""

DONE, WHICH_SCORES, WHICH_GPU = range(3)
"""Why a pass returns: all is decided; or Python has to bring the scores for the job `taking` up to date, or
to choose a GPU for that job on the node in the row `row`. It goes on when called again."""


class Shadow(NamedTuple):
    """The state at the reserved time of the first job, of which the rows of `copied` nodes are valid."""

    then: NodeTable
    is_copied: Annotated[Flags, "nodes"]
    n_copied: Ints
    copied: ByNode
    fit: ByNode
    """Chunks of the first job that fit then, where copied."""
    total: Ints
    """How many fit then."""
    kind: Ints
    """Of the first job, with its number of chunks."""
    chunks: Ints


class Ranking(NamedTuple):
    """The scores of nodes by kind of request, as of the time when they were last needed."""

    selection: Ints
    """One of the codes in `scores`."""
    weights: Annotated[Floats, "weights"]
    """Of resources, and of GPUs."""
    scores: Annotated[Floats2, "kinds", "nodes"]
    seen: ByKind
    """The time of `scores`, in changes."""
    heap: ByNode


class Pass(NamedTuple):
    """Which jobs start, and what each uses."""

    at: Ints
    """In the order of the queue."""
    first: Annotated[Ints, Initially(NONE)]
    """The first job that does not fit, or NONE."""
    reserved_s: Annotated[Floats, Initially(np.inf)]
    """When it fits; infinite if never, or if nothing is reserved."""
    taking: Annotated[Ints, Initially(NONE)]
    """The job of which rows are chosen or taken, or NONE."""
    n_rows: Ints
    row: Ints
    """The next one to be taken."""
    gpu: Ints
    """The answer to WHICH_GPU."""
    n_placed: Ints
    placed: BySlot
    after: BySlot
    """The row after the last one of each job that is placed."""
    rows: Annotated[Ints2, "rows", 3]
    """NODE, CHUNKS, GPUS, job by job."""
    by_end: BySlot
    """Places in `placed`, by expected end."""
    is_out: Annotated[Flags, "slots"]
    """Whether a job starts, or is the first that does not fit."""
    n_delaying: Ints
    delaying: Annotated[Ints2, MOST_DELAYING, 2]
    """Kind and chunks of requests that would delay the first job."""


class OnNodes(NamedTuple):
    """The state of nodes, what jobs in their slots request, and the jobs that wait. All kinds of requests are
    known."""

    nodes: NodeTable
    requests: RequestTable
    held: Held
    kind: BySlot
    """Of the job's request, with its number of chunks."""
    chunks: BySlot
    estimate_s: Annotated[Floats, "slots"]
    first_row: BySlot
    """Of a run, in `held`."""
    ticket: BySlot
    """A number that no other job has had in this slot."""
    n_tickets: Ints
    next_rank: Ints
    """That of the next job which arrives."""
    rank: BySlot
    """Of the job's queue: 0 for the one served first."""
    in_order: BySlot
    """The slots of waiting jobs, by queue, then arrival, then number."""
    by_estimate: BySlot
    """The same by queue, then estimate, then arrival, then number."""
    rows_waiting: Ints
    """How many rows at most state what the waiting jobs would use."""
    decided: Pass
