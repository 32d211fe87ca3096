"""Named streams of random numbers: the draws of one consumer do not shift another's."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class RandomStreams:
    """The streams of one replication, equal for all schedulers (common random numbers) and computers."""

    seed: int
    replication: int = 0

    def of(self, name: str) -> np.random.Generator:
        return np.random.default_rng([self.seed, self.replication, zlib.crc32(name.encode())])

    @property
    def scheduler_seed(self) -> int:
        """The seed for random schedulers."""
        return int(self.of("scheduler").integers(2**31))
