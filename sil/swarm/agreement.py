"""Whether manager and machines agree in the end, and which machines the manager has given up meanwhile."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from math import inf

from scheduler.durability.reliable_delivery import DEFAULT, LONGEST_RETRY, lead_of
from scheduler.rules import Violation
from sil.swarm.faults import FaultyWorld
from sil.trace.facts import Fact
from sil.trace.recorder import Row
from sil.world.remote.agents import Ordered
from sil.world.remote.network import NetworkPartition, Unreliable
from sil.world.remote.remote_manager import RemoteManager

AGREE_IN_THE_END = "agree-in-the-end"
REPEATS_ORDERS = "repeats-orders-until-answered"
HOLDS_MACHINES = "holds-machines-of-abandoned-runs"
GIVES_UP_THE_SILENT = "gives-up-silent-machines-only"

ROUNDING_S = 1e-3

Silences = defaultdict[int, list[tuple[float, float]]]
"""The times from and to which each machine was down or separated."""


def first_disagreement(remote: RemoteManager, facts: Sequence[Row], faulty: FaultyWorld) -> Violation | None:
    """The first of these invariants that is broken, or None; to be called when the last job has ended.

    * The manager knows of each run that was ordered before the faults were over that it is over, and its
      machine knows that.
    * An order to start or to stop a run is repeated until it is answered.
    * Machines of an abandoned run are not used until it is over.
    * A machine that answers is not given up. One that does not is, in time: its runs are abandoned.

    The second and the fourth ask for a manager that does everything when it is due; the fourth for messages
    that arrive at once or never.
    """
    runs = list(remote.orders.ordered.values())
    before = [ordered for ordered in runs if ordered.ordered_s < faulty.settled_s]
    is_punctual = faulty.crashes is None and not faulty.clock_jumps and not faulty.decision_s
    messages = faulty.messages
    is_in_order = all(not isinstance(fault, Unreliable) or fault.how == "lost" for fault in messages)
    silences = _silences(facts, (fault for fault in messages if isinstance(fault, NetworkPartition)))
    violations = chain(
        _disagreed(remote, before),
        _not_repeated(runs) if is_punctual else (),
        _not_held(runs),
        _given_up(before) if is_punctual else (),
        _not_given_up(before, silences) if is_punctual and is_in_order else (),
    )
    return next(iter(violations), None)


def _disagreed(remote: RemoteManager, runs: Iterable[Ordered]) -> Iterator[Violation]:
    unacknowledged = set(remote.agents.notices)
    for ordered in runs:
        run, job = ordered.order.run, ordered.order.job.id
        if ordered.over_s == inf:
            yield Violation(
                AGREE_IN_THE_END, job, f"the manager still waits for run {run} of job {job} to end"
            )
        elif run in unacknowledged:
            message = f"the machine of job {job} still reports run {run}, which the manager knows to be over"
            yield Violation(AGREE_IN_THE_END, job, message)


def _not_repeated(runs: Iterable[Ordered]) -> Iterator[Violation]:
    within_s = LONGEST_RETRY * DEFAULT.retry_s
    for ordered in runs:
        if ordered.waited_s > within_s + ROUNDING_S:
            run, job = ordered.order.run, ordered.order.job.id
            what = "stop" if ordered.is_stopped else "start"
            message = (
                f"an order to {what} run {run} of job {job} was neither answered nor repeated for "
                f"{ordered.waited_s:.12g} s; {within_s:g} s are the longest retry"
            )
            yield Violation(REPEATS_ORDERS, job, message)


def _not_held(runs: Collection[Ordered]) -> Iterator[Violation]:
    for abandoned in [ordered for ordered in runs if ordered.abandoned_s < inf]:
        for other in runs:
            is_held = abandoned.abandoned_s < other.ordered_s < abandoned.over_s
            if is_held and not set(abandoned.order.machines).isdisjoint(other.order.machines):
                run, job = abandoned.order.run, other.order.job.id
                message = (
                    f"job {job} was ordered at {other.ordered_s:.12g} s to a machine of run {run}, which was "
                    f"abandoned at {abandoned.abandoned_s:.12g} s and may still be there"
                )
                yield Violation(HOLDS_MACHINES, job, message)


def _given_up(runs: Iterable[Ordered]) -> Iterator[Violation]:
    """The ping that a machine answered last may have been sent just before the first one that it did not."""
    least_s = (DEFAULT.pings - 1) * DEFAULT.ping_s
    for ordered in runs:
        if ordered.silent_s < least_s:
            job = ordered.order.job.id
            message = (
                f"the run of job {job} was abandoned at {ordered.abandoned_s:.12g} s, but its machine had "
                f"answered {ordered.silent_s:.12g} s before"
            )
            yield Violation(GIVES_UP_THE_SILENT, job, message)


def _not_given_up(runs: Iterable[Ordered], silences: Silences) -> Iterator[Violation]:
    within_s = (DEFAULT.pings + 2) * DEFAULT.ping_s
    for ordered in runs:
        for from_s, to_s in silences[lead_of(ordered.order)]:
            by_s = max(from_s, ordered.ordered_s) + within_s
            if by_s < to_s and min(ordered.over_s, ordered.abandoned_s) > by_s:
                job = ordered.order.job.id
                message = (
                    f"the machine of job {job} was silent from {from_s:.12g} s to {to_s:.12g} s, and the "
                    f"run, ordered at {ordered.ordered_s:.12g} s, was not abandoned by {by_s:.12g} s"
                )
                yield Violation(GIVES_UP_THE_SILENT, job, message)


def _silences(facts: Sequence[Row], partitions: Iterable[NetworkPartition]) -> Silences:
    silences: Silences = defaultdict(list)
    for partition in partitions:
        for machine in partition.machines:
            silences[machine].append((partition.from_s, partition.to_s))
    down_s: dict[int, float] = {}
    for time_s, event, _, _, machine, *_ in facts:
        if event == Fact.MACHINE_DOWN:
            down_s[machine] = time_s
        elif event == Fact.MACHINE_UP:
            silences[machine].append((down_s.pop(machine), time_s))
    return silences
