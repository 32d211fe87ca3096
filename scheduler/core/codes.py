"""Codes of policies, for compiled code."""

FCFS, SJF = range(2)
NO_BACKFILLING, IN_ORDER, SHORTEST_FIRST, CONSERVATIVE = range(4)
"""The codes of `Ordering` and `Backfilling`; and a reservation for each job."""

AFTER_ALL = 2**62
"""In place of a run: it is the last of those that end at the same time. In place of a node: after all bounds."""

NONE = -1
