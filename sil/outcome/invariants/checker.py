"""Invariants of a trace: one checker for dedicated machines, free nodes and time-shared nodes.

The checker uses the facts of one run and the capacities of its machines, and is independent of any manager.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING

import polars as pl

from scheduler.model import JobId, Share
from scheduler.node_request import Node, Request
from scheduler.rules import Violation
from sil.outcome.jobs import ENDINGS
from sil.trace.facts import Fact, FactColumns
from sil.trace.held import Intervals, request_of
from sil.trace.recorder import ROW, Row, rows_of
from sil.world.node_usage import NodeUsage

if TYPE_CHECKING:
    from sil.outcome.invariants.clean_trace import CleanTrace


NO_RESOURCE_ABOVE_CAPACITY = "no-resource-above-capacity"


@dataclass(frozen=True, slots=True)
class Capacity:
    """Machines 0 to n_machines - 1, each of which holds at most `runs` runs at a time.

    `names` are those of machines, then clusters; machines without a name are nodes with a number. Of `nodes`
    with cores, memory and GPUs, any number of runs may use parts, and of `site_resources`, by name. A job is
    requeued `max_batch_requeue` times after failed runs, and then given up; None: no run fails.
    """

    n_machines: int
    runs: int = 1
    names: Sequence[str] = ()
    nodes: Sequence[Node] = ()
    site_resources: Mapping[str, int] = field(default_factory=dict)
    max_batch_requeue: int | None = None

    def name(self, machine: int) -> str:
        return self.names[machine] if machine < len(self.names) else f"node {machine}"


NO_JOB_LOST = "no-job-lost"
NO_JOB_RUN_TWICE = "no-job-run-twice"
NO_MACHINE_DOUBLE_BOOKED = "no-machine-double-booked"
NO_CLUSTER_WHILE_MEMBER_BUSY = "no-cluster-while-member-busy"
NOTHING_ON_A_MACHINE_THAT_IS_DOWN = "nothing-on-a-machine-that-is-down"
NO_MORE_NODES_THAN_THERE_ARE = "no-more-nodes-than-there-are"
MPL_WITHIN_LIMIT = "mpl-within-limit"
STARTS_AFTER_ARRIVAL = "starts-after-arrival"
WHAT_IS_OVER_IS_OVER = "what-is-over-is-over"
REQUEUED_WITHIN_LIMIT = "requeued-within-limit"
TIME_NEVER_GOES_BACK = "time-never-goes-back"


LONG = 65_536
"""The fewest facts with which a trace is first given to the fast check, which finds most of them clean;
loading it takes longer than following a shorter one."""
OVER = -1
"""Stands for a run: the job has ended, or was refused."""


def first_violation(facts: pl.DataFrame, capacity: Capacity) -> Violation | None:
    """The first invariant that the facts of one run of the harness break, or None."""
    is_long = len(facts) >= LONG
    invariants = Invariants(capacity, is_long)
    if is_long:
        invariants.add(FactColumns(facts.select(ROW)))
    return invariants.first_violation(lambda: facts)


class Invariants:
    """Follows the facts of one run of the harness. If it `is_long`, the fast check is worth loading.

    A run that ended in a fault may leave jobs unfinished; all other invariants hold up to the fault.
    """

    def __init__(self, capacity: Capacity, is_long: bool) -> None:
        self._capacity = capacity
        self._clean: CleanTrace | None = None
        if is_long and capacity.runs == 1 and capacity.max_batch_requeue is None:
            from sil.outcome.invariants.clean_trace import CleanTrace

            self._clean = CleanTrace(capacity.n_machines, capacity.nodes, capacity.site_resources)

    def add(self, facts: FactColumns) -> None:
        """Add the next facts, with at least the columns ROW, and each time with the same."""
        if self._clean is not None:
            self._clean.add(facts)

    def first_violation(self, all_facts: Callable[[], pl.DataFrame]) -> Violation | None:
        """The first invariant that is broken, or None. All facts are needed again if one may be broken, and
        where the fast check follows none."""
        if self._clean is not None and self._clean.is_clean():
            return None
        return first_violation_of(rows_of(all_facts()), self._capacity)


def first_violation_of(rows: Sequence[Row], capacity: Capacity) -> Violation | None:
    """As `first_violation`, of rows (`TraceRecorder.rows`). What a run frees at its end may be used at that
    instant, whichever fact comes first: in the order `archive`, nodes are released before the end."""
    fault, begins = Fact.FAULT.value, (Fact.RUN_STARTED.value, Fact.RUN_CONTINUED.value)
    before_fault = [row for row in rows if row[1] != fault]
    for earlier, later in pairwise(before_fault):
        if later[0] < earlier[0]:
            message = f"{later[1]} at {later[0]:.12g} s, after {earlier[0]:.12g} s"
            return Violation(TIME_NEVER_GOES_BACK, None, message)
    began_s = {row[3]: row[0] for row in before_fault if row[1] in begins}
    in_order = sorted(
        before_fault, key=lambda row: (row[0], row[1] not in ENDINGS or began_s.get(row[3], inf) >= row[0])
    )
    return _Checker(capacity).first_violation(in_order, len(before_fault) < len(rows))


class _Checker:
    """Follows the facts of one run of the harness.

    Sets of machines are bit masks: Python's integers of any size, so that a run on 10,000 nodes costs about
    as much as a run on one.
    """

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._levels = range(capacity.runs)
        self._held = [0] * capacity.runs
        """`_held[k]`: the machines that hold more than k runs."""
        self._running: dict[int, tuple[int, int]] = {}
        """The job and the machines of each run."""
        self._suspended: dict[int, int] = {}
        """The machines of each run that is stopped on machines for one at a time."""
        self._abandoned: set[int] = set()
        """Abandoned runs, which do not count."""
        self._failed: set[int] = set()
        self._down = 0
        self._usage = NodeUsage(capacity.nodes, capacity.site_resources) if capacity.nodes else None
        self._requests: dict[int, str | None] = {}
        """The request of each job, as it is written in the trace."""
        self._used: dict[int, tuple[Request, Sequence[Share]]] = {}
        """What each run uses of nodes."""
        self._run_of: dict[int, int | None] = {}
        """The current run of each job that arrived; None while it waits, OVER once it has ended."""
        self._n_failed: Counter[int] = Counter()
        """The failed runs of each job."""

    def first_violation(self, rows: Iterable[Row], faulted: bool) -> Violation | None:
        """The first violation of the facts; what runs free at an instant comes first then."""
        arrived, started, ended = Fact.JOB_ARRIVED.value, Fact.RUN_STARTED.value, Fact.RUN_ENDED.value
        n = self._capacity.n_machines
        for time_s, event, job, run, resource, machines, shares, detail in rows:
            violation = None
            if event == started:
                violation = self._started(time_s, job, run, resource, _mask(machines, n))
                if violation is None and self._usage is not None:
                    violation = self._takes(self._usage, time_s, job, run, shares or ())
            elif event == arrived:
                self._run_of[job] = None
                self._requests[job] = detail
            elif event == ended or event in ENDINGS:
                violation = self._over(time_s, event == ended, job, run)
                if event == Fact.RUN_LOST and detail is not None and run not in self._abandoned:
                    self._n_failed[job] += 1
                    self._failed.add(run)
            elif event == Fact.RUN_ABANDONED:
                self._abandoned.add(run)
                self._n_failed[job] -= run in self._failed
                if self._run_of[job] == run:
                    self._run_of[job] = None
            elif event == Fact.JOB_MOVED:
                self._run_of[job] = OVER  # here
            elif event == Fact.JOB_REFUSED:
                violation = self._refused(time_s, job)
            elif event == Fact.RUN_STOPPED and self._capacity.runs == 1:
                violation = self._stopped(time_s, job, run)
            elif event == Fact.RUN_CONTINUED and self._capacity.runs == 1:
                violation = self._continued(time_s, job, run)
            elif event == Fact.MACHINE_DOWN:
                self._down |= 1 << resource
            elif event == Fact.MACHINE_UP:
                self._down &= ~(1 << resource)
            if violation is not None:
                return violation
        unfinished = [] if faulted else [job for job, run in self._run_of.items() if run != OVER]
        if unfinished:
            job = min(unfinished)
            return Violation(NO_JOB_LOST, JobId(job), f"job {job} arrived, was not refused and never ended")
        return None

    def _started(self, time_s: float, job: int, run: int, resource: int, machines: int) -> Violation | None:
        full = machines if self._usage is None else 0
        for k in self._levels:
            held = self._held[k]
            self._held[k] = held | full
            full &= held
        down = machines & self._down
        if job not in self._run_of:
            rule, why = STARTS_AFTER_ARRIVAL, ", before it arrived"
        elif self._run_of[job] is not None and run not in self._abandoned:
            rule, why = NO_JOB_RUN_TWICE, ", but runs or has ended"
        elif (n := self._n_failed[job]) > (most := self._capacity.max_batch_requeue or 0):
            rule, why = REQUEUED_WITHIN_LIMIT, f" after {n} failed runs; {most} are allowed"
        elif machines >> (n := self._capacity.n_machines):
            rule, why = NO_MORE_NODES_THAN_THERE_ARE, f" on more than the {n} nodes"
        elif down:
            name = self._capacity.name(_lowest(down))
            rule, why = NOTHING_ON_A_MACHINE_THAT_IS_DOWN, f" on {name}, which is down"
        elif full:
            rule, why = self._over_capacity(resource, _lowest(full))
        else:
            self._running[run] = job, machines
            if run not in self._abandoned:
                self._run_of[job] = run
            return None
        return Violation(rule, JobId(job), f"job {job} starts at {time_s:.12g} s{why}")

    def _takes(
        self, usage: NodeUsage, time_s: float, job: int, run: int, shares: Sequence[Share]
    ) -> Violation | None:
        """Record that a run that has started uses parts of nodes, and of the site's resources."""
        request = request_of(self._requests[job] or "{}")
        _, machines = self._running[run]
        why = usage.why_not(request, shares)
        if why is None and sum(1 << node for node in {share.node for share in shares}) != machines:
            why = "its shares are on other nodes"
        if why is not None:
            message = f"job {job} starts at {time_s:.12g} s, but {why}"
            return Violation(NO_RESOURCE_ABOVE_CAPACITY, JobId(job), message)
        usage.take(request, shares)
        self._used[run] = request, shares
        return None

    def _refused(self, time_s: float, job: int) -> Violation | None:
        """Record that a job is not accepted, or given up: after failed runs, one run after the last
        requeue."""
        self._run_of[job] = OVER
        n, most = self._n_failed[job], self._capacity.max_batch_requeue or 0
        if 0 < n <= most:
            message = f"job {job} is given up at {time_s:.12g} s, after {n} failed runs; {most} are allowed"
            return Violation(REQUEUED_WITHIN_LIMIT, JobId(job), message)
        return None

    def _stopped(self, time_s: float, job: int, run: int) -> Violation | None:
        """Record that a run is suspended: others may use its processors."""
        if run not in self._running or run in self._suspended:
            message = f"run {run} of job {job} is stopped at {time_s:.12g} s, but was not running"
            return Violation(WHAT_IS_OVER_IS_OVER, JobId(job), message)
        job, machines = self._running[run]
        self._suspended[run] = machines
        self._running[run] = job, 0
        if self._usage is not None:
            self._usage.suspend(*self._used[run])
        else:
            self._held[0] &= ~machines
        return None

    def _continued(self, time_s: float, job: int, run: int) -> Violation | None:
        if run not in self._suspended:
            message = f"run {run} of job {job} continues at {time_s:.12g} s, but was not stopped"
            return Violation(WHAT_IS_OVER_IS_OVER, JobId(job), message)
        machines = self._suspended.pop(run)
        busy = machines & self._held[0] if self._usage is None else 0
        why = None
        if busy:
            _, why = self._over_capacity(0, _lowest(busy))
        elif self._usage is not None:
            reason = self._usage.why_not_resumed(*self._used[run])
            why = None if reason is None else f", but {reason}"
        if why is not None:
            message = f"job {job} continues at {time_s:.12g} s{why}"
            return Violation(NO_RESOURCE_ABOVE_CAPACITY, JobId(job), message)
        if self._usage is not None:
            self._usage.resume(*self._used[run])
        else:
            self._held[0] |= machines
        self._running[run] = job, machines
        return None

    def _over_capacity(self, resource: int, machine: int) -> tuple[str, str]:
        most, name = self._capacity.runs, self._capacity.name(machine)
        if most > 1:
            return (
                MPL_WITHIN_LIMIT,
                f" on {name}, which then has {most + 1} parallel tasks; {most} are allowed",
            )
        on_cluster = resource >= self._capacity.n_machines
        holder = next(other for other, held in self._running.values() if held >> machine & 1)
        rule = NO_CLUSTER_WHILE_MEMBER_BUSY if on_cluster else NO_MACHINE_DOUBLE_BOOKED
        return rule, f" on {name}, where job {holder} is"

    def _over(self, time_s: float, has_ended: bool, job: int, run: int) -> Violation | None:
        if run not in self._running:
            message = f"run {run} of job {job} is over at {time_s:.12g} s, but was not running"
            return Violation(WHAT_IS_OVER_IS_OVER, JobId(job), message)
        of_job, freed = self._running.pop(run)
        if of_job != job:
            message = f"run {run} is over at {time_s:.12g} s as one of job {job}, but is one of job {of_job}"
            return Violation(WHAT_IS_OVER_IS_OVER, JobId(job), message)
        was_suspended = self._suspended.pop(run, None) is not None
        if self._usage is not None:
            used = self._used.pop(run)
            if was_suspended:
                self._usage.resume(*used)
            self._usage.give_back(*used)
        for k in self._levels[::-1]:
            held = self._held[k]
            self._held[k] = held & ~freed
            freed &= ~held
        if self._run_of[job] == run:
            self._run_of[job] = OVER if has_ended else None
        return None


@lru_cache(10_000)
def _mask(machines: Intervals | None, n_machines: int) -> int:
    """The bit mask of intervals. All machines that do not exist are one, behind the last."""
    mask = 0
    for low, high in machines or ():
        if not low <= high < n_machines:
            low = high = n_machines
        mask |= ((1 << (high - low + 1)) - 1) << low
    return mask


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1
