"""What a job uses of nodes: as values, and as rows for kernels."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral

import numpy as np

from scheduler.compiled import Ints2
from scheduler.model import Share
from scheduler.node_request import MOST_GPUS


def mistake_in(shares: Iterable[Share], n_nodes: int) -> str | None:
    """Why shares name no nodes, chunks or GPUs; None if they do. Whether these are free is not examined."""
    for share in shares:
        node, chunks, gpus = share
        if not all(isinstance(number, Integral) for number in (node, chunks, *gpus)):
            return f"{share} has numbers that are not whole"
        if not 0 <= node < n_nodes or chunks < 1:
            return f"{share} is not 1 or more chunks on one of {n_nodes} nodes"
        if gpus and (len({*gpus}) < len(gpus) or not 0 <= min(gpus) <= max(gpus) < MOST_GPUS):
            return f"{share} does not name different GPUs of a node"
    return None


def rows_of(shares: Iterable[Share]) -> Ints2:
    """Rows of NODE, CHUNKS and GPUS (bits)."""
    rows = [(node, chunks, sum([1 << d for d in gpus])) for node, chunks, gpus in shares]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def gpus_of(bits: int) -> tuple[int, ...]:
    """The GPUs of a row."""
    return tuple([d for d in range(bits.bit_length()) if bits >> d & 1]) if bits else ()


def shares_of(rows: Ints2) -> tuple[Share, ...]:
    return tuple([Share(node, chunks, gpus_of(bits)) for node, chunks, bits in rows.tolist()])
