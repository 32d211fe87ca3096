"""The jobs that wait and run, and how notices and decisions change that, given the estimates.

A job that waits or runs has a slot. What depends on the nodes is `generic`: there are identical nodes, each
for one job (`identical`), and nodes of which jobs use parts (`on_nodes`). A compiled caller gives many
notices at a time; the `python_entry_points` have the transitions for a manager in Python.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple, Protocol, TypeVar

import numpy as np

from scheduler.compiled import Flags, Floats, Initially, Ints, generic, inlined, part
from scheduler.core.codes import SHORTEST_S
from scheduler.node_resources.kernels.releases import (
    Releases,
    give_row_back,
    insert,
    n_left,
    next_row,
    remove,
)

FCFS, SJF = range(2)
NO_BACKFILLING, IN_ORDER, SHORTEST_FIRST, CONSERVATIVE = range(4)
"""The codes of `Ordering` and `Backfilling`; and a reservation for each job."""

ENOUGH, MORE_PLACES, MORE_INTERVALS, MORE_SLOTS, MORE_ROWS = range(5)
"""What must grow before the next notice or decision."""

NONE = -1


class Ledger(NamedTuple):
    """Who waits and who runs."""

    ordering: Ints
    backfilling: Ints
    always_called: Ints
    """Whether to decide though no job fits."""
    n_waiting: Ints
    next_run: Ints
    wants_round: Ints
    asks_again_s: Annotated[Floats, Initially(np.inf)]
    """When the scheduler asked to be called again; infinite = never."""
    releases: Releases
    started: Annotated[Ints, "slots"]
    """The slots of the jobs of the last decision, once they run."""
    job: Annotated[Ints, "slots"]
    """By slot, as what follows: the number of its owner."""
    run: Annotated[Ints, "slots"]
    began_s: Annotated[Floats, "slots"]
    """Of the wait, or of the run once there is one."""
    end_s: Annotated[Floats, "slots"]
    """As expected."""
    holds: Annotated[Flags, "slots"]
    spare: Annotated[Ints, "slots"]
    n_spare: Ints
    n_used: Ints


class HasLedger(Protocol):
    """A record of what waits for nodes, and of the nodes."""

    @property
    def ledger(self) -> Ledger: ...


Q = TypeVar("Q", bound=HasLedger)


class QueuePolicy(NamedTuple):
    """Codes of an ordering and a backfilling, and whether to decide though no job fits."""

    ordering: int = FCFS
    backfilling: int = NO_BACKFILLING
    always_called: bool = False

    def write(self, ledger: Ledger) -> None:
        ledger.ordering[0], ledger.backfilling[0], ledger.always_called[0] = self


@generic
def most_starts(q: Q) -> int:
    """The largest number of jobs that may start at a time."""
    raise NotImplementedError  # never runs: each kind of nodes implements it


@generic
def lack_of_nodes(q: Q) -> int:
    """Which of the arrays for waiting jobs and nodes may be too small."""
    raise NotImplementedError  # never runs: each kind of nodes implements it


@generic
def nothing_fits(q: Q) -> bool:
    """Whether no waiting job fits now."""
    raise NotImplementedError  # never runs: each kind of nodes implements it


@generic
def wait(q: Q, slot: int, size: int, kind: int, estimate_s: float) -> None:
    """The job in a slot joins the queue."""
    raise NotImplementedError  # never runs: each kind of nodes implements it


@generic
def give_nodes_back(q: Q, slot: int) -> None:
    """What a run uses of nodes is free."""
    raise NotImplementedError  # never runs: each kind of nodes implements it


@generic
def decide(q: Q, now_s: float) -> int:
    """Which of the waiting jobs start, in order. Returns their number."""
    raise NotImplementedError  # never runs: each kind of nodes implements it


@generic
def start(q: Q, n_started: int, now_s: float) -> None:
    """The jobs of the last decision start, as consecutive runs."""
    raise NotImplementedError  # never runs: each kind of nodes implements it


@inlined
def lack(q: Q) -> int:
    """Which array may be too small for the next notice, or the next decision."""
    return MORE_SLOTS if n_left(q.ledger) == 0 else lack_of_nodes(q)


@inlined
def something_changed(q: Q) -> None:
    """Ask for a round if a waiting job may start."""
    ledger = q.ledger
    if ledger.n_waiting[0] > 0 if ledger.always_called[0] else not nothing_fits(q):
        ledger.wants_round[0] = 1


@inlined
def wakes_at_s(ledger: Ledger) -> float:
    """When `time_passed` is due: a run exceeds its estimate then, or the scheduler asked for it; infinite =
    never."""
    outlived_s = ledger.releases.end_s[0] if ledger.releases.n[0] > 0 else np.inf
    return float(min(outlived_s, ledger.asks_again_s[0]))


@part
def arrived(q: Q, job: int, size: int, kind: int, estimate_s: float, since_s: float) -> int:
    """A job arrives that requests nodes, or chunks of a kind of request, and waits since then. Returns its
    slot."""
    slot = next_row(q.ledger)
    q.ledger.job[slot], q.ledger.began_s[slot] = job, since_s
    wait(q, slot, size, kind, max(estimate_s, SHORTEST_S))
    q.ledger.n_waiting[0] += 1
    something_changed(q)
    return slot


@inlined
def begin(ledger: Ledger, slot: int, released: int, now_s: float, end_s: float) -> None:
    """A job starts, of which the release is noted; it is the next run."""
    run = ledger.next_run[0]
    ledger.next_run[0] = run + 1
    insert(ledger.releases, end_s, released, run, slot)
    ledger.run[slot], ledger.began_s[slot], ledger.end_s[slot], ledger.holds[slot] = run, now_s, end_s, True


@part
def give_back(q: Q, slot: int) -> None:
    """What a run uses is free, unless it was given back before."""
    ledger = q.ledger
    if ledger.holds[slot]:
        ledger.holds[slot] = False
        remove(ledger.releases, ledger.end_s[slot], ledger.run[slot])
        give_nodes_back(q, slot)


@part
def ended(q: Q, slot: int) -> None:
    """A run has ended; its slot is free."""
    give_back(q, slot)
    give_row_back(q.ledger, slot)
    something_changed(q)


@part
def released(q: Q, slot: int, now_s: float) -> None:
    """A run is about to end; if that was expected, its nodes are free already."""
    if q.ledger.holds[slot] and q.ledger.end_s[slot] == now_s:
        give_back(q, slot)


@inlined
def overdue(ledger: Ledger, now_s: float) -> int:
    """The slot of the first run that should have ended by now, or NONE."""
    releases = ledger.releases
    return int(releases.slot[0]) if releases.n[0] > 0 and releases.end_s[0] <= now_s else NONE


@part
def extend_estimate(ledger: Ledger, takes_s: float, now_s: float) -> None:
    """The run that is overdue is now expected to take that long."""
    releases = ledger.releases
    run, released, slot = releases.run[0], releases.released[0], releases.slot[0]
    later_s = max(ledger.began_s[slot] + takes_s, now_s + 1.0)  # or time would not advance
    remove(releases, releases.end_s[0], run)
    insert(releases, later_s, released, run, slot)
    ledger.end_s[slot] = later_s


@part
def time_passed(q: Q, now_s: float) -> None:
    """No run is overdue any more; the scheduler may have asked to be called."""
    if q.ledger.asks_again_s[0] <= now_s:
        q.ledger.asks_again_s[0] = np.inf
    something_changed(q)
