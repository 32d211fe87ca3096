"""The jobs of a log as columns, for the compiled loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scheduler.core.arrays import Flags, Floats, Ints
from scheduler.free_nodes.runtime_estimates import LONGEST_S


class RigidJobs(NamedTuple):
    """Rigid jobs in order of arrival, then number."""

    submit_s: Floats
    run_s: Floats
    size: Ints
    """The nodes or chunks that a job requests."""
    kind: Ints
    """Of request, on nodes of which jobs use parts."""
    limit_s: Floats
    user: Ints
    """The number of the user, from 0 on; -1 = unknown."""
    refused: Flags
    """Whether the manager refuses the job when it arrives."""
    claim: Ints
    """What it claims under a policy (`scheduler.priority.claims`)."""
    due_in_s: Floats
    """The seconds from its arrival to its deadline; infinite without one."""

    @property
    def n_users(self) -> int:
        return int(self.user.max(initial=-1)) + 1

    @classmethod
    def of(cls, log: pl.DataFrame) -> RigidJobs:
        """The jobs in columns submit_s, run_s, processors, estimate_s and user of a job log. Others may be
        there: chunks instead of processors, kind, refused, claim and due_in_s. Arrays are those of the log
        where these can be."""
        # Without threads of Polars, which an environment in a forked process does not have.
        n, names, user, estimate_s = (
            len(log),
            log.columns,
            log["user"].to_numpy(),
            log["estimate_s"].to_numpy(),
        )
        if user.max(initial=-1) >= n:
            ranks = np.unique(user, return_inverse=True)[1].astype(np.int64)
            user = np.where(user >= 0, ranks, -1)
        if log["estimate_s"].null_count():
            estimate_s = np.where(np.isnan(estimate_s), LONGEST_S, estimate_s)
        columns = (
            log["submit_s"],
            log["run_s"],
            log["chunks" if "chunks" in names else "processors"],
            log["kind"] if "kind" in names else np.zeros(n, np.int64),
            estimate_s,
            user,
            log["refused"] if "refused" in names else np.zeros(n, np.bool_),
            log["claim"] if "claim" in names else np.zeros(n, np.int64),
            log["due_in_s"] if "due_in_s" in names else np.full(n, inf),
        )
        return cls(*map(_fixed, columns))

    def between(self, begin: int, end: int) -> RigidJobs:
        """The jobs in places from `begin` on, before `end`: views of the same arrays."""
        columns: Iterable[Any] = (column[begin:end] for column in self)
        return RigidJobs(*columns)

    def refusing(self, places: Sequence[int]) -> RigidJobs:
        """The same jobs, those in some places refused, too."""
        refused = self.refused.copy()
        refused[places] = True
        return self._replace(refused=_fixed(refused))


def _fixed(column: pl.Series | NDArray[Any]) -> NDArray[Any]:
    array = column.to_numpy() if isinstance(column, pl.Series) else column
    array.flags.writeable = False
    return array
