"""Which jobs of a log an episode has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scheduler import UserError
from sil.api.settings import given_log
from sil.workload.job_log import JobLog

HELD_OUT, BEGIN = "held_out", "begin"
"""Options of a reset."""


@dataclass(frozen=True)
class Episodes:
    """Each has `jobs` consecutive jobs of a log of rigid jobs on identical processors. Those of the log from
    `n_training` on are held out. Raises UserError for a log or numbers that do not fit."""

    log: JobLog
    jobs: int
    n_training: int

    @classmethod
    def of(cls, log: object, jobs: int, held_out: float) -> Episodes:
        """`held_out` is a share of the log, its last jobs."""
        log = given_log(log)
        if log.cluster is not None:
            raise UserError(
                f"{log.name}: its jobs request parts of nodes, but the environment has identical processors; "
                "give a log without nodes"
            )
        if not 0 <= held_out < 1:
            raise UserError(f"held_out is {held_out!r}; expected a share of the log from 0 to less than 1")
        sizes = log.jobs["processors"].to_numpy()
        unfit = np.flatnonzero((sizes < 1) | (sizes > log.processors))
        if len(unfit):
            number, size = log.jobs["job"][int(unfit[0])], sizes[unfit[0]]
            raise UserError(
                f"{log.name}: job {number} requests {size:,} processors, but the machine has "
                f"{log.processors:,}; leave such jobs out"
            )
        n = len(log)
        n_training = n - round(held_out * n)
        for part, size in (("training", n_training), ("held-out", n - n_training)):
            if size < jobs and (part == "training" or size):
                raise UserError(
                    f"{log.name}: its {part} part has {size:,} jobs, and an episode {jobs:,}; expected "
                    "fewer jobs in an episode, a longer log, or another held_out"
                )
        return cls(log, jobs, n_training)

    def drawn(self, rng: np.random.Generator, options: Mapping[str, Any]) -> int:
        """The place of the first job of an episode. Raises UserError for unknown options, and for a part of
        the log that there is not."""
        n, last = len(self.log), self.n_training - self.jobs
        if unknown := options.keys() - {HELD_OUT, BEGIN}:
            raise UserError(f"option {min(unknown)!r} of reset is unknown; expected {HELD_OUT} or {BEGIN}")
        if BEGIN in options:
            if not 0 <= options[BEGIN] <= n - self.jobs:
                raise UserError(
                    f"an episode of {self.jobs:,} jobs cannot begin at job {options[BEGIN]} of {n:,}; "
                    f"expected a place from 0 to {n - self.jobs:,}"
                )
            return int(options[BEGIN])
        if not options.get(HELD_OUT):
            return int(rng.integers(last + 1))
        if self.n_training == n:
            raise UserError("no job is held out; make the environment with held_out=0.2, for example")
        return int(rng.integers(self.n_training, n - self.jobs + 1))
