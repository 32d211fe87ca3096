"""Arrays of whole numbers as text on a page, which its browser decodes by itself (`schedule.js`).

The lowest bytes of all numbers come first, then the second ones, and so on, which compresses well.
"""

from __future__ import annotations

import gzip
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sil.report.schedule.runs import Numbers


@dataclass(frozen=True)
class Packed:
    """`columns` describes the arrays that `text` holds one after the other."""

    columns: Sequence[Mapping[str, Any]]
    text: str


def packed(arrays: Mapping[str, Numbers]) -> Packed:
    """Arrays by name."""
    columns, parts = [], []
    for name, numbers in arrays.items():
        steps = np.diff(numbers, prepend=0)
        are_steps = np.ptp(steps[1:]) < np.ptp(numbers) / 64 if len(numbers) > 1 else False  # they rise
        stored = np.concatenate([[0], steps[1:]]) if are_steps else numbers
        base = int(stored.min(initial=0))
        width = max(1, (int(stored.max(initial=0)) - base).bit_length() + 7 >> 3)
        first = int(numbers[0]) if are_steps else None
        columns.append({"name": name, "n": len(numbers), "width": width, "base": base, "first": first})
        parts.append((stored - base).astype("<u8").view(np.uint8).reshape(-1, 8).T[:width].tobytes())
    return Packed(columns, compressed(b"".join(parts)))


def compressed(content: bytes) -> str:
    return b64encode(gzip.compress(content, compresslevel=6, mtime=0)).decode()
