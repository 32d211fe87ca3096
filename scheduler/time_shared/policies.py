"""The three choices of which LoRaS is composed, by name, and the methods of estimation."""

from __future__ import annotations

from scheduler.naming import Choice
from scheduler.time_shared.kernels import estimates, job_selection, node_selection


class Ordering(Choice):
    """Job ordering: in which order jobs wait; ties go to the earlier arrival, then the lower id."""

    FCFS = "fcfs"  # first come, first served
    SJF = "sjf"  # shortest job first, by execution time in isolation
    SNPF = "snpf"  # smallest number of processors first


class Selection(Choice):
    """Job selection: which of the waiting jobs may start."""

    JUST_FIRST = "just_first"  # none before the first of the queue
    FIRST_FIT = "first_fit"  # the first that fits
    BEST_FIT = "best_fit"  # of those that fit, the one with most tasks
    EASY = "easy"  # backfilling that does not delay the first, as far as is estimated

    @property
    def code(self) -> int:
        return _SELECTIONS[self]


class NodeSelection(Choice):
    """Node selection: on which nodes a job starts."""

    NORMAL = "normal"  # the least loaded ones
    UNIFORM = "uniform"  # idle ones, or a set of nodes that jobs of the same size share; else it waits
    UNIFORM_ELSE_NORMAL = "uniform_else_normal"  # as uniform, but rather mix sets than wait

    @property
    def code(self) -> int:
        return _NODE_SELECTIONS[self]


class Method(Choice):
    """Method of estimation: how long a running job still takes, or what CPU time it uses."""

    PROPORTIONAL = "proportional"
    MPL = "mpl"
    CPU = "cpu"

    @property
    def code(self) -> int:
        return _METHODS[self]


_SELECTIONS = {
    Selection.JUST_FIRST: job_selection.JUST_FIRST,
    Selection.FIRST_FIT: job_selection.FIRST_FIT,
    Selection.BEST_FIT: job_selection.BEST_FIT,
    Selection.EASY: job_selection.EASY,
}
_NODE_SELECTIONS = {
    NodeSelection.NORMAL: node_selection.NORMAL,
    NodeSelection.UNIFORM: node_selection.UNIFORM,
    NodeSelection.UNIFORM_ELSE_NORMAL: node_selection.UNIFORM_ELSE_NORMAL,
}
_METHODS = {
    Method.PROPORTIONAL: estimates.PROPORTIONAL,
    Method.MPL: estimates.BY_MPL,
    Method.CPU: estimates.BY_CPU,
}
