"""One case of a swarm, carried out and checked: also whether manager and machines agree in the end, and which
machines the manager has given up meanwhile."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from math import inf

from scheduler import UserError
from scheduler.durability.journal import Journal
from scheduler.durability.journalled_manager import dependable
from scheduler.durability.reliable_delivery import DEFAULT, LONGEST_RETRY, lead_of
from scheduler.model import JobId
from scheduler.resource_manager import Manager, Ports
from scheduler.rules import Violation
from sil.isolation.host import HERE, Host
from sil.outcome.invariants.checker import first_violation_of
from sil.runs.simulation import Disturbances, SiteRun
from sil.runs.under_test import InProcess
from sil.swarm.account import NodesAccount
from sil.swarm.case import Case, CaseJob, SiteKind
from sil.swarm.faults import FaultyWorld
from sil.swarm.mapping_account import MappingAccount
from sil.swarm.sites import MAX_BATCH_REQUEUE, SITES, CaseScheduler, Mistakes, RetryOnViolation, SiteOfCase
from sil.trace.facts import Fact
from sil.trace.recorder import Row
from sil.world.actual_runtimes import RandomStreams
from sil.world.events import MessageDue, SimClock
from sil.world.guard.faults import SchedulerFault, fault_of
from sil.world.remote.agents import Ordered
from sil.world.remote.network import (
    CrashingJournal,
    ManagerClock,
    MemoryJournal,
    Network,
    NetworkPartition,
    Unreliable,
)
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


ENDS_IN_TIME = "ends-in-time"
STARTS_IN_TIME = "starts-in-time"

SETTLES_S = 2_000.0
"""The seconds after the last fault until all is settled: the longest retries, and the pings after which a
silent machine is given up."""


@dataclass(frozen=True)
class CaseVerdict:
    """The verdict on one case; `facts` are the rows of its trace (`sil.trace.recorder.ROW`)."""

    violation: Violation | None
    facts: Sequence[Row] = ()


def verdict_on(
    case: Case, under_test: InProcess | None = None, host: Host = HERE, journal: Journal | None = None
) -> CaseVerdict:
    """Carry out a case, with its scheduler or with another one or a whole resource manager that is not built
    in. A fault of it is a violation, too. Without a `journal`, a manager that crashes has one in memory."""
    simulation = _Simulation(case, under_test, host, MemoryJournal() if journal is None else journal)
    violation = simulation.violation()
    return CaseVerdict(violation, simulation.facts())


class _Simulation:
    def __init__(self, case: Case, under_test: InProcess | None, host: Host, journal: Journal) -> None:
        self._case, self._host = case, host
        self._clock = SimClock()
        self._tested = tested = CaseScheduler(case, self._clock, under_test, host)
        self._site: SiteOfCase = SITES[case.machines](case, tested)
        self._faulty = faulty = FaultyWorld(
            self._clock, case.n_machines, case.until_s, self._site.n_interconnects
        )
        self._violation: Violation | None = None
        """The first violation in the account of a manager that is built in."""
        streams = RandomStreams(case.seed)
        for fault in case.faults:
            faulty.add(fault, streams)
        for job in self._site.last_jobs:
            faulty.failing.pop(JobId(job.id), None)
        manager: Callable[[Ports], Manager] = partial(tested.manager, tested.under_test)
        if not tested.under_test.has_own_queue:
            built_in = partial(self._site.manager, scheduler=tested.under_test, asking=tested)
            manager = partial(self._followed, built_in)
        if faulty.wrong_share:
            mistakes = Mistakes(faulty.wrong_share, case.until_s, case.seed)
            manager, tested.mistakes = RetryOnViolation.around(manager, mistakes), mistakes
        disturbances = Disturbances(
            changes=sorted(faulty.changes, key=lambda change: change[0]),
            distortions=faulty.distortions,
            hindrances=faulty.hindrances,
        )
        simulation = SiteRun(self._site, disturbances, clock=self._clock)
        self._world, self._ports = simulation.world, simulation.ports
        tested.world, tested.decision_s = self._world, faulty.decision_s
        crashing = None if faulty.crashes is None else CrashingJournal(journal, faulty.crashes)
        self._make = dependable(manager, max_batch_requeue=MAX_BATCH_REQUEUE, journal=crashing)

    def _followed(self, make: Callable[[Ports], Manager], ports: Ports) -> Manager:
        account = MappingAccount if self._case.machines is SiteKind.DIFFERENT else NodesAccount
        self._tested.account = account(self._case, ports, self._broken)
        self._tested.account.follow(make)
        return self._tested.account

    def _broken(self, rule: str, job: JobId | None, message: str) -> None:
        self._violation = self._violation or Violation(rule, job, message)

    def violation(self) -> Violation | None:
        network = Network(self._clock, self._world.events, self._faulty.messages)
        try:
            remote = RemoteManager(
                self._world,
                self._ports,
                self._make,
                network,
                self._faulty.crashes,
                ManagerClock(self._clock, self._faulty.clock_jumps),
            )
            endless = self._carry_out(self._case.jobs, remote)
            if endless is None:
                last_jobs = self._last_jobs()
                # Long after: by then, all answers have been given, and only the manager may know them.
                again = partial(remote.submit_again, [*map(self._site.job, self._case.jobs)])
                self._world.events.push(last_jobs[0].arrival_s, MessageDue(again))
                endless = self._carry_out(last_jobs, remote)
        except SchedulerFault as fault:
            self._host.faulted(fault)
            return Violation(fault.rule, fault.job, fault.message, fault.time_s)
        except UserError:
            raise
        except Exception as error:  # of a manager that is built in: others are guarded
            raised = fault_of(error, "the resource manager", "scheduler", self._clock.now_s)
            return Violation(raised.rule, None, raised.message, raised.time_s)
        if endless is not None:
            return endless
        self._host.over()
        facts = self.facts()
        return (
            first_violation_of(facts, self._site.capacity)
            or first_disagreement(remote, facts, self._faulty)
            or self._site.mismatch(facts)
            or self._violation
            or self._late_start(facts)
        )

    def facts(self) -> Sequence[Row]:
        return self._world.trace.rows()

    def _carry_out(self, jobs: Sequence[CaseJob], remote: RemoteManager) -> Violation | None:
        """Run until these jobs, and those before, have ended. Returns a violation if they do not end in
        time."""
        by_s = self._end_by_s(jobs)
        for _ in self._world.steps(map(self._site.job, jobs), remote):
            if self._clock.now_s > by_s:
                return self._endless(remote)
        return None

    def _late_start(self, facts: Sequence[Row]) -> Violation | None:
        longest_s = self._case.longest_wait_s
        if longest_s is None:
            return None
        arrived_s = {row[2]: row[0] for row in facts if row[1] == Fact.JOB_ARRIVED}
        for time_s, event, job, *_ in facts:
            if event == Fact.RUN_STARTED and (waited_s := time_s - arrived_s[job]) > longest_s:
                message = f"job {job} waited for {waited_s:.0f} s; {longest_s:g} s are allowed"
                return Violation(STARTS_IN_TIME, JobId(job), message)
        return None

    def _last_jobs(self) -> Sequence[CaseJob]:
        """The last jobs, which arrive when the others have ended: a new job would wake up one that was
        forgotten."""
        arrival_s = max(self._clock.now_s, self._faulty.settled_s) + SETTLES_S
        return [replace(job, arrival_s=arrival_s) for job in self._site.last_jobs]

    def _end_by_s(self, jobs: Sequence[CaseJob]) -> float:
        """The time at which all jobs have ended, one after the other, each as often as it may fail, after the
        last arrival and fault. If planned starts are kept, a job that fails early leaves its machine idle for
        the time expected."""
        from_s = max([self._faulty.settled_s, *(job.arrival_s for job in jobs)])
        slowest = max([1.0, *(slow.factor for slow in self._faulty.slow)])
        keeps_starts = self._case.keeps_starts
        times_s = ((job, max(job.run_s, job.estimate_s) if keeps_starts else job.run_s) for job in jobs)
        work_s = sum(time_s * self._site.longest(job) for job, time_s in times_s)
        return from_s + SETTLES_S + (MAX_BATCH_REQUEUE + 2) * slowest * work_s + 200.0 * len(jobs)

    def _endless(self, remote: RemoteManager) -> Violation:
        waiting = remote.why_waiting()
        job = min(waiting, default=None)
        why = "" if job is None else f"; job {job} waits: {waiting[job]}"
        message = (
            f"jobs or runs remain {self._clock.now_s - self._case.until_s:.0f} s after the last fault{why}"
        )
        return Violation(ENDS_IN_TIME, job, message, self._clock.now_s)
