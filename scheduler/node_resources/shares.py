"""What a job uses of nodes: as values, and as rows for kernels."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scheduler.compiled import Ints2
from scheduler.model import Share


def rows_of(shares: Iterable[Share]) -> Ints2:
    """Rows of NODE, CHUNKS and GPUS (bits)."""
    rows = [(node, chunks, sum([1 << d for d in gpus])) for node, chunks, gpus in shares]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def gpus_of(bits: int) -> tuple[int, ...]:
    """The GPUs of a row."""
    return tuple([d for d in range(bits.bit_length()) if bits >> d & 1]) if bits else ()


def shares_of(rows: Ints2) -> tuple[Share, ...]:
    return tuple([Share(node, chunks, gpus_of(bits)) for node, chunks, bits in rows.tolist()])
