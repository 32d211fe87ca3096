"""Codes of policies, for compiled code."""

from __future__ import annotations

from typing import NamedTuple

FCFS, SJF, EDF, LEAST_LAXITY = range(4)
NO_BACKFILLING, IN_ORDER, SHORTEST_FIRST, CONSERVATIVE = range(4)
"""Codes of `Ordering` and `Backfilling`; CONSERVATIVE reserves for each job."""

AFTER_ALL = 2**62
"""Sorts after every run that ends at the same time, and after every bound of free nodes."""

NONE = -1

SHORTEST_S = 1e-3
"""The shortest estimate, in seconds: a run is expected to end after it starts."""

LAST_INDEX = 2**63 - 1
"""A job or machine index that comes after every other."""

NODES, NOW, SUBMITTED, TO_RUN, USED, USED_SAFELY, WALL_SAFELY = range(7)
"""What a limit bounds: the nodes on which something runs; what runs now; the jobs that wait or run; the
minutes that runs have left by their time limits; the minutes used so far, which decay: until they have
reached it jobs start, or, safely, as long as what runs and the job that starts would not exceed it (of wall
time, Slurm leaves out what runs)."""


class QueueCodes(NamedTuple):
    """Codes of an ordering and a backfilling, and whether to decide though no job fits."""

    ordering: int = FCFS
    backfilling: int = NO_BACKFILLING
    always_called: bool = False
