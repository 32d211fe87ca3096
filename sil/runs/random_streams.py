"""Named streams of random numbers, so that no consumer's draws shift another's."""

from __future__ import annotations

import zlib

import numpy as np


def stream(seed: int, replication: int, name: str) -> np.random.Generator:
    """The stream `name` of one replication: the same on every machine and with any number of workers."""
    return np.random.default_rng([seed, replication, zlib.crc32(name.encode())])
