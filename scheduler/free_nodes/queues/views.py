"""What policies see of queues: empty views, and their columns by name."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler.compiled import allocate
from scheduler.free_nodes.kernels.observation import N_NODES, N_OF_JOB, N_OF_MACHINE, Views


def new_views(queues: int, window: int, n_nodes: int) -> Views:
    """Of so many queues for `n_nodes` each, through a window of so many jobs."""
    views = allocate(
        Views,
        (queues, window, N_OF_JOB),
        (queues, N_OF_MACHINE),
        (queues, window + 1),
        (queues, window),
        (queues, 4),
    )
    views.counts[:, N_NODES] = n_nodes
    return views


def observation_of(views: Views) -> dict[str, NDArray[Any]]:
    """By name, with a row for each queue; the arrays are those of the views."""
    return {"jobs": views.jobs, "machine": views.machine, "action_mask": views.mask.view(np.int8)}
