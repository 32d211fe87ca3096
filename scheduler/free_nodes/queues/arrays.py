"""The arrays that compiled queues have in common: new ones, and larger ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.compiled import allocate
from scheduler.free_nodes.kernels.estimates import EstimateTable
from scheduler.free_nodes.kernels.queues import N_FREE_SLOTS, Queue
from scheduler.free_nodes.kernels.releases import N_COLUMNS

FEWEST = 256


class QueuePolicy(NamedTuple):
    """Codes of an ordering, a backfilling and the estimates, and whether to decide though no job fits."""

    ordering: int
    backfilling: int
    estimates_by: int
    always_called: bool


def columns_of_all(policy: QueuePolicy, n_users: int) -> dict[str, Any]:
    """Of an empty queue; users are known by number, below `n_users`."""
    n = FEWEST
    counts = np.zeros(16, dtype=np.int64)
    counts[N_FREE_SLOTS] = n
    return {
        "policy": np.array(policy, dtype=np.int64),
        "counts": counts,
        "times_s": np.full(1, np.inf),
        "releases": np.zeros((n, N_COLUMNS)),
        "started": np.zeros((n, 5)),
        "estimates": allocate(EstimateTable, n, n, n, (n_users, 2), n_users),
        "job": np.zeros(n, dtype=np.int64),
        "run": np.zeros(n, dtype=np.int64),
        "began_s": np.zeros(n),
        "end_s": np.zeros(n),
        "holds": np.zeros(n, dtype=np.bool_),
        "free_slots": np.arange(n)[::-1].copy(),
    }


def doubled(array: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([array, np.zeros_like(array)])


def all_doubled(record: object, names: Iterable[str]) -> dict[str, Any]:
    return {name: doubled(getattr(record, name)) for name in names}


def more_slots(q: Queue, own: Iterable[str]) -> dict[str, Any]:
    """The columns by slot with twice as many, of which the first half is in use; `own` names those that other
    queues do not have."""
    n, e = len(q.run), q.estimates
    free_slots = np.zeros(2 * n, dtype=np.int64)
    free_slots[:n] = np.arange(2 * n - 1, n - 1, -1)
    q.counts[N_FREE_SLOTS] = n
    of_estimates = ("limit_s", "user", "n_corrections")
    return {
        "free_slots": free_slots,
        "estimates": e._replace(**{name: doubled(getattr(e, name)) for name in of_estimates}),
        **all_doubled(q, ("releases", "started", "job", "run", "began_s", "end_s", "holds", *own)),
    }
