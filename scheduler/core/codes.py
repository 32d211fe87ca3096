"""Codes of policies, for compiled code."""

from __future__ import annotations

from typing import NamedTuple

FCFS, SJF = range(2)
NO_BACKFILLING, IN_ORDER, SHORTEST_FIRST, CONSERVATIVE = range(4)
"""The codes of `Ordering` and `Backfilling`; and a reservation for each job."""

AFTER_ALL = 2**62
"""In place of a run: it is the last of those that end at the same time. As a bound of nodes: after all."""

NONE = -1

SHORTEST_S = 1e-3
"""Shorter estimates count as this one: a run is expected to end after it starts."""

LAST_INDEX = 2**63 - 1
"""A job or machine index that comes after every other."""


class QueueCodes(NamedTuple):
    """Codes of an ordering and a backfilling, and whether to decide though no job fits."""

    ordering: int = FCFS
    backfilling: int = NO_BACKFILLING
    always_called: bool = False
