"""Expected times to compute (ETC), and ready times of resources."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray


def read_only(values: ArrayLike) -> NDArray[np.float64]:
    """`values` as a read-only float array."""
    array = np.array(values, dtype=np.float64)
    array.flags.writeable = False
    return array


@dataclass(frozen=True)
class EtcMatrix:
    """The ETC matrix `etc_s[i, j]`, stored by class and read as (job, resource).

    A site has few job classes and few resource classes, so n x m cells are never stored:

    * `by_class_s` (C, K): seconds per (job class, resource class); infinite = may not run there.
    * `job_class_of` (n,): row of each job.
    * `resource_class_of` (m + clusters,): column of each resource, machines first, then clusters.
    * `resource_class_names` (K,): names of the columns; may be empty.

    A matrix without structure is the case C = n, K = m. Raises ValueError for NaN or negative cells and for
    indices outside the table.
    """

    by_class_s: NDArray[np.float64]
    job_class_of: NDArray[np.int64]
    resource_class_of: NDArray[np.int64]
    resource_class_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        by_class_s = read_only(self.by_class_s)
        if by_class_s.ndim != 2:
            raise ValueError(f"an ETC table has two dimensions, this one has {by_class_s.ndim}")
        valid = by_class_s >= 0.0  # not so for NaN
        if not valid.all():
            i, j = np.argwhere(~valid)[0]
            raise ValueError(
                f"ETC cell ({i}, {j}) is {by_class_s[i, j]}: expected a number of seconds >= 0, or infinite "
                "where the job may not run"
            )
        object.__setattr__(self, "by_class_s", by_class_s)
        object.__setattr__(self, "job_class_of", _checked(self.job_class_of, by_class_s.shape[0], "job"))
        resource_class_of = _checked(self.resource_class_of, by_class_s.shape[1], "resource")
        object.__setattr__(self, "resource_class_of", resource_class_of)

    @classmethod
    def from_dense(cls, etc_s: ArrayLike) -> EtcMatrix:
        """A matrix without structure: `etc_s` (n, m)."""
        by_class_s = np.asarray(etc_s, dtype=np.float64)
        if by_class_s.ndim != 2:
            raise ValueError(f"an ETC matrix has two dimensions, this one has {by_class_s.ndim}")
        n, m = by_class_s.shape
        return cls(by_class_s, np.arange(n), np.arange(m))

    @property
    def n_jobs(self) -> int:
        return len(self.job_class_of)

    @property
    def n_resources(self) -> int:
        return len(self.resource_class_of)

    def __getitem__(self, cell: tuple[int, int]) -> float:
        i, j = cell
        return float(self.by_class_s[self.job_class_of[i], self.resource_class_of[j]])

    def row(self, i: int) -> NDArray[np.float64]:
        """Expected seconds of job i on every resource, (m + clusters,)."""
        row: NDArray[np.float64] = self.by_class_s[self.job_class_of[i]][self.resource_class_of]
        return row

    def dense(self) -> NDArray[np.float64]:
        """Expected seconds of every job on every resource, (n, m + clusters): a new array."""
        return self.by_class_s[np.ix_(self.job_class_of, self.resource_class_of)]


def _checked(indices: ArrayLike, limit: int, what: str) -> NDArray[np.int64]:
    array = np.array(indices, dtype=np.int64)
    if array.ndim != 1 or (len(array) and not (array.min() >= 0 and array.max() < limit)):
        raise ValueError(f"{what} classes must be indices from 0 to {limit - 1}")
    array.flags.writeable = False
    return array


@dataclass(frozen=True)
class ReadyTimes:
    """Estimated time at which each resource becomes ready; never before now, infinite = not available.

    `machine_s` (m,) per machine; `members` the available machines of each cluster. A cluster is ready when
    all of these are; it has no members while its policy rejects parallel execution.
    """

    machine_s: NDArray[np.float64]
    members: tuple[tuple[int, ...], ...] = ()

    @property
    def n_machines(self) -> int:
        return len(self.machine_s)

    @cached_property
    def cluster_s(self) -> NDArray[np.float64]:
        """(clusters,) the ready time of each cluster."""
        return read_only([self.machine_s[list(m)].max() if m else np.inf for m in self.members])

    def machines_of(self, j: int) -> tuple[int, ...]:
        """The machines of resource j."""
        return (j,) if j < self.n_machines else self.members[j - self.n_machines]
