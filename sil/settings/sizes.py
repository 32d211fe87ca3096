"""What experiments take of memory, by estimate, before anything of them is made."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from site_db.files.readers import Memory

BYTES_OF_A_JOB = 3_000
"""Of a run: its facts, and its rows of the results."""
BYTES_OF_A_RUN = 2_000
"""Of an experiment: its place among the tasks, and its rows of the results."""


def check_sizes(n_jobs: int | None, replications: int, values: Iterable[int], n_schedulers: int) -> None:
    """Raises InvalidFile for more jobs, or more runs of these jobs, than there may be memory for. `values`
    are the numbers of values of each axis of the grid."""
    if n_jobs is not None:
        Memory(f"{n_jobs:,} jobs in a run").take(BYTES_OF_A_JOB * n_jobs)
    n_points = prod(values)
    n_runs = n_points * replications * n_schedulers
    what = f"{n_runs:,} runs (points x replications x schedulers)"
    Memory(what).take(BYTES_OF_A_RUN * n_runs)
