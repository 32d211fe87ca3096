"""The three policies of which LoRaS is composed, and the methods of estimation.

The kernels have a constant for each, in the same order.
"""

from __future__ import annotations

from scheduler.naming import Choice


class Ordering(Choice):
    """Job ordering: the order of the queue; ties go to the earlier arrival, then the lower id."""

    FCFS = "fcfs"  # first come, first served
    SJF = "sjf"  # shortest job first, by execution time in isolation
    SNPF = "snpf"  # smallest number of processors first


class Selection(Choice):
    """Job selection: which of the waiting jobs may start."""

    JUST_FIRST = "just_first"  # only the first of the queue
    FIRST_FIT = "first_fit"  # the first that fits
    BEST_FIT = "best_fit"  # of those that fit, the one with most tasks
    EASY = "easy"  # backfilling that does not delay the first, according to the estimates


class NodeSelection(Choice):
    """Node selection: on which nodes a job starts."""

    NORMAL = "normal"  # the least loaded ones
    UNIFORM = "uniform"  # idle nodes, or a set shared by jobs of the same size; else it waits
    UNIFORM_ELSE_NORMAL = "uniform_else_normal"  # as uniform, then as normal instead of waiting


class Method(Choice):
    """Method of estimation: of the remaining time of a running job, or of its CPU time."""

    PROPORTIONAL = "proportional"
    MPL = "mpl"
    CPU = "cpu"
