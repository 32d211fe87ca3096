"""Named streams of random numbers: the draws of one consumer do not shift another's."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np


def stream(seed: int, replication: int, name: str) -> np.random.Generator:
    """The stream `name` of a replication; the same on every machine and with any number of workers."""
    return np.random.default_rng([seed, replication, zlib.crc32(name.encode())])


@dataclass(frozen=True)
class RandomStreams:
    """The streams of one replication: all schedulers meet the same (common random numbers)."""

    seed: int
    replication: int = 0

    def of(self, name: str) -> np.random.Generator:
        return stream(self.seed, self.replication, name)

    @property
    def scheduler_seed(self) -> int:
        """The seed for random schedulers."""
        return int(self.of("scheduler").integers(2**31))
