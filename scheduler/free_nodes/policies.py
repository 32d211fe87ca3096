"""The policies of which a scheduler of rigid jobs is composed, by name."""

from __future__ import annotations

from scheduler.free_nodes.kernels import passing
from scheduler.naming import Choice


class Ordering(Choice):
    """Job ordering: the order of the queue; ties go to the earlier arrival, then the lower id."""

    FCFS = "fcfs"  # first come, first served
    SJF = "sjf"  # shortest job first, by estimate

    @property
    def code(self) -> int:
        return {Ordering.FCFS: passing.FCFS, Ordering.SJF: passing.SJF}[self]


class Backfilling(Choice):
    """Backfilling: which jobs may overtake the first of the queue."""

    NONE = "none"
    EASY = "easy"  # jobs that do not delay it according to the estimates, tried in order of arrival
    EASY_SJBF = "easy_sjbf"  # the same, tried shortest first

    @property
    def code(self) -> int:
        return {
            Backfilling.NONE: passing.NO_BACKFILLING,
            Backfilling.EASY: passing.IN_ORDER,
            Backfilling.EASY_SJBF: passing.SHORTEST_FIRST,
        }[self]
