"""Fakes of the manager's ports: those that record orders for a test, and a small simulated site."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, cycle, pairwise
from typing import Any

import numpy as np

from scheduler.free_nodes.consumable_problem import ConsumableNodesProblem, Placer
from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.managers.mapping_manager import MappingManager
from scheduler.managers.queues import (
    Admission,
    MappingPolicy,
    PlannedStarts,
    PreemptionPolicy,
    QueuePolicy,
    UserPolicy,
)
from scheduler.mapping.etc import EtcMatrix
from scheduler.mapping.immediate import Mct
from scheduler.mapping.problem import MappingProblem
from scheduler.model import (
    Assignment,
    Cluster,
    DispatchOrder,
    ExecutionRecord,
    Interconnect,
    InterconnectReading,
    Job,
    JobId,
    Machine,
    MachineReading,
    NodeSchedule,
    RunId,
    Schedule,
    Site,
    Start,
)
from scheduler.ports import AnyScheduler, MonitorNews, Notice, RunEnded, RunLost, RunPreempted, TimePassed
from scheduler.resource_manager import OnMachines, ResourceManager

Reading = MachineReading | InterconnectReading
NO_TARGET = "the test assigned it no resource"


@dataclass(frozen=True, slots=True)
class ClusterOf:
    """A cluster in few words: machines by index."""

    machines: tuple[int, ...]
    interconnects: tuple[str, ...] = ()
    least_share: float = 1.0


def make_site(n_machines: int, clusters: Sequence[ClusterOf] = ()) -> Site:
    """Machines m0, m1, ... and clusters c0, c1, ... of them."""
    interconnects = sorted({name for cluster in clusters for name in cluster.interconnects})
    return Site(
        "test",
        tuple(Machine(f"m{j}", f"class of m{j}") for j in range(n_machines)),
        tuple(
            Cluster(f"c{c}", tuple(f"m{j}" for j in k.machines), k.interconnects, k.least_share)
            for c, k in enumerate(clusters)
        ),
        tuple(Interconnect(name, 100.0, 1.0) for name in interconnects),
    )


@dataclass(slots=True)
class HandClock:
    now_s: float = 0.0


@dataclass(frozen=True)
class RecordingDispatcher:
    """Records orders with their times; nothing happens by itself."""

    clock: HandClock
    orders: list[tuple[float, DispatchOrder]] = field(default_factory=list)
    preemptions: list[tuple[float, RunId]] = field(default_factory=list)

    def dispatch(self, order: DispatchOrder) -> None:
        self.orders.append((self.clock.now_s, order))

    def preempt(self, run: RunId) -> None:
        self.preemptions.append((self.clock.now_s, run))


@dataclass(frozen=True)
class ScriptedMonitor:
    """Tells once what was put into `unread`."""

    unread: list[Any] = field(default_factory=list)

    def news(self) -> Sequence[Any]:
        told = self.unread.copy()
        self.unread.clear()
        return told


@dataclass(frozen=True)
class TableExperience:
    """Expected seconds by job class, on machines and then clusters; what is recorded changes nothing.

    On clusters with fewer members than all, times grow by size / available.
    """

    site: Site
    seconds: Mapping[str, Sequence[float]]
    records: list[ExecutionRecord] = field(default_factory=list)

    def estimate(self, jobs: Sequence[Job], members: Sequence[int]) -> EtcMatrix:
        rows = list(self.seconds)
        table = np.array([self.seconds[name] for name in rows], dtype=np.float64)
        for c, (everyone, available) in enumerate(zip(self.site.members, members, strict=True)):
            table[:, self.site.n_machines + c] *= len(everyone) / (available or len(everyone))
        return EtcMatrix(
            table, np.array([rows.index(job.job_class) for job in jobs]), np.arange(table.shape[1])
        )

    def record(self, record: ExecutionRecord) -> None:
        self.records.append(record)


@dataclass(frozen=True)
class TargetScheduler:
    """Puts each job where the test targets it, as soon as that is ready, and keeps the problems it was given.

    `targets`: job -> resource; a job without a wish is left waiting. `not_before_s`: job -> earliest start.
    `victims` are preempted in the next schedule, and only there.
    """

    targets: dict[int, int] = field(default_factory=dict)
    not_before_s: dict[int, float] = field(default_factory=dict)
    victims: list[RunId] = field(default_factory=list)
    problems: list[MappingProblem] = field(default_factory=list)
    running: list[dict[int, float]] = field(default_factory=list)
    """job -> believed completion of the runs that each problem showed"""
    offered: list[list[int]] = field(default_factory=list)
    ready_s: list[list[float]] = field(default_factory=list)

    def schedule(self, problem: MappingProblem) -> Schedule:
        self.problems.append(problem)
        self.running.append({run.job.id: run.completion_s for run in problem.running.values()})
        self.offered.append([job.id for job in problem.jobs])
        victims = tuple(self.victims)
        self.victims.clear()
        ready = problem.ready_times_without(victims) if victims else problem.ready_times
        machine_s = ready.machine_s.copy()
        self.ready_s.append(machine_s.tolist())
        placed: list[Assignment] = []
        for i, job in enumerate(problem.jobs):
            if job.id in self.targets:
                j = self.targets[job.id]
                machines = list(ready.machines_of(j))
                start_s = max(machine_s[machines].max(), self.not_before_s.get(job.id, 0.0))
                machine_s[machines] = start_s + problem.etc[i, j]
                placed.append(Assignment(i, j, start_s, start_s + problem.etc[i, j]))
        named = {assignment.job for assignment in placed}
        waiting = {i: NO_TARGET for i in range(problem.n_jobs) if i not in named}
        return Schedule.of(placed, waiting, victims)


@dataclass(frozen=True)
class FixedScheduler:
    """Gives one answer, whatever it is asked."""

    answer: Any

    def schedule(self, problem: Any) -> Any:
        return self.answer


def placing(*rows: tuple[int, Any], waiting: tuple[int, ...] = ()) -> NodeSchedule:
    """(job, nodes) of those that start."""
    return NodeSchedule([Start(i, nodes, 100.0) for i, nodes in rows], dict.fromkeys(waiting, "so"))


@dataclass
class WhileTheyFit:
    """Each job that fits on the nodes, as a guest would write it: in the order of its own `key`, a function
    of the place in the queue and the job, and except those that it is `refused`."""

    key: Callable[[int, Job], float] = lambda i, job: i
    refused: set[int] = field(default_factory=set)

    def schedule(self, problem: FreeNodesProblem | ConsumableNodesProblem) -> NodeSchedule:
        placer, jobs = Placer(problem), list(enumerate(problem.jobs))
        for i, job in sorted(jobs, key=lambda each: self.key(*each)):
            if job.id not in self.refused and placer.fits(i):
                placer.start(i)
        return placer.schedule("too little is free")


class Ruthless:
    """MCT that, a few times, first preempts the oldest run that goes on, whosever it is."""

    def __init__(self) -> None:
        self._victims_left = 5

    def schedule(self, problem: MappingProblem) -> Schedule:
        victims = tuple(sorted(problem.running)[: min(1, self._victims_left)])
        self._victims_left -= len(victims)
        freed = MappingProblem(
            problem.now_s,
            problem.jobs,
            problem.etc,
            lambda more: problem.ready_times_without(more.union(victims)),
            problem.running,
        )
        return Mct().schedule(freed)._replace(preemptions=victims)


class ByHand:
    """A manager among recording fakes, driven by hand. Jobs are numbers; the run of a job is its last one."""

    manager: ResourceManager

    def __init__(self) -> None:
        self.clock = HandClock()
        self.dispatcher = RecordingDispatcher(self.clock)
        self.monitor = ScriptedMonitor()

    def follow(self) -> None:
        """After each notice: a round, if it is wanted."""
        if self.manager.wants_round:
            self.manager.run_round()

    def run_of(self, job: int) -> RunId:
        return next(order.run for _, order in reversed(self.dispatcher.orders) if order.job.id == job)

    def notify(self, notice: Notice, at_s: float | None = None) -> None:
        self.clock.now_s = self.clock.now_s if at_s is None else at_s
        self.manager.handle(notice)
        self.follow()

    def end(self, job: int, at_s: float | None = None) -> None:
        """The run of `job` came to its end."""
        self.notify(RunEnded(self.run_of(job), self.clock.now_s if at_s is None else at_s), at_s)

    def stop(self, job: int, at_s: float | None = None) -> None:
        """The preemption of the run of `job` was carried out."""
        self.notify(RunPreempted(self.run_of(job)), at_s)

    def lose(self, job: int, found_down: Iterable[int | str] = (), at_s: float | None = None) -> None:
        """The run of `job`, or the order for it, came to nothing."""
        lost_s = self.clock.now_s if at_s is None else at_s
        self.notify(RunLost(self.run_of(job), lost_s, tuple(found_down)), at_s)

    def observe(self, subject: int | str, up: bool, measured_s: float | None = None) -> None:
        """The monitor has a reading."""
        time_s = self.clock.now_s if measured_s is None else measured_s
        reading = MachineReading if isinstance(subject, int) else InterconnectReading
        self.monitor.unread.append(reading(subject, up, time_s))  # type: ignore[arg-type]
        self.notify(MonitorNews())

    def wake(self, at_s: float | None = None) -> float:
        """Time has passed: without `at_s`, until the manager wanted to be woken. Returns the time."""
        at_s = self.manager.wakes_at_s if at_s is None else at_s
        self.notify(TimePassed(), at_s)
        return self.clock.now_s

    @property
    def started(self) -> list[tuple[int, str]]:
        """(job, nodes) of each order to start."""
        return [(int(order.job.id), str(order.machines)) for _, order in self.dispatcher.orders]

    @property
    def preempted(self) -> list[tuple[float, int]]:
        """(time, job) of each order to preempt."""
        job_of = {order.run: order.job.id for _, order in self.dispatcher.orders}
        return [(time_s, job_of[run]) for time_s, run in self.dispatcher.preemptions]


class Desk(ByHand):
    """A mapping manager, whose books are checked after each notice."""

    manager: MappingManager

    def __init__(
        self,
        site: Site,
        seconds: Sequence[float] | Mapping[str, Sequence[float]],
        queues: Sequence[QueuePolicy] = (QueuePolicy(),),
        schedulers: Mapping[str, AnyScheduler] | None = None,
        users: Sequence[UserPolicy] = (),
        planned_starts: PlannedStarts = PlannedStarts.EARLIEST,
        preemption: PreemptionPolicy | None = None,
    ) -> None:
        super().__init__()
        self.experience = TableExperience(
            site, seconds if isinstance(seconds, Mapping) else {"work": list(seconds)}
        )
        self.scheduler = TargetScheduler()
        self.schedulers: dict[str, AnyScheduler] = {queue.name: self.scheduler for queue in queues}
        self.schedulers.update(schedulers or {})
        self.manager = MappingManager(
            OnMachines(self.clock, self.dispatcher, site, self.monitor, self.experience),
            queues,
            self.schedulers,
            Admission(queues, users),
            planned_starts,
            preemption,
        )

    def submit(
        self,
        job: int,
        resource: int | None = None,
        queue: str = "default",
        job_class: str = "work",
        user: str = "ann",
        not_before_s: float = 0.0,
    ) -> str | None:
        """A job arrives now, and the scheduler is to put it on `resource`."""
        if resource is not None:
            self.scheduler.targets[job] = resource
        self.scheduler.not_before_s[job] = not_before_s
        return self.manager.on_job_arrived(Job(JobId(job), job_class, self.clock.now_s, user, queue))

    def round(self, at_s: float | None = None) -> None:
        self.clock.now_s = self.clock.now_s if at_s is None else at_s
        self.manager.run_round()
        check_books(self.manager)
        check_plan(self.manager, self.clock.now_s)

    def serve(self, *jobs: tuple[Any, ...], at_s: float | None = None) -> None:
        """Jobs arrive (`submit`), and a round follows."""
        for job in jobs:
            self.submit(*job)
        self.round(at_s)

    def follow(self) -> None:
        check_books(self.manager)

    @property
    def dispatched(self) -> list[tuple[float, int, int]]:
        """(time, job, resource) of each order to start."""
        return [(time_s, order.job.id, order.resource) for time_s, order in self.dispatcher.orders]

    @property
    def planned(self) -> dict[int, tuple[float, float]]:
        """job -> believed (start, completion) of the runs that wait in line."""
        runs = self.manager._planned.values()
        return {int(run.job.id): (run.start_s, run.completion_s) for run in runs}

    @property
    def waiting(self) -> set[int]:
        return set(self.manager.why_waiting())


def check_books(manager: MappingManager) -> None:
    """The manager's dictionaries and timelines agree, and nothing that could start is still in line."""
    commitments = manager._commitments
    planned = {run.id: run for run in manager._planned.values()}
    started = manager._started
    ending = {run.job.id: run for run in started.values() if run.ending}
    waiting = {job for jobs in manager._waiting.values() for job in jobs}
    assert all(run.job.id == job for job, run in manager._planned.items())
    remapping = {name for name, queue in manager._policy.items() if queue.mapping is MappingPolicy.REMAP}
    to_remap = [run for run in manager._planned.values() if run.queue in remapping]
    assert list(manager._to_remap.values()) == to_remap
    assert manager._ending_run_of == ending
    assert set(manager._running) == {run.id for run in started.values() if not run.ending}
    at_work = [run.job.id for run in started.values() if not run.ending]
    places = [*waiting, *manager._planned, *at_work]
    assert len(places) == len(set(places)), "a job is in two places"
    assert set(ending) <= waiting | set(manager._planned), "a job whose run ends waits nowhere"
    on_timelines: dict[RunId, list[int]] = {}
    for j in range(len(manager._commitments.ready_s())):
        line = commitments.on(j)
        for run in line:
            on_timelines.setdefault(run.id, []).append(j)
        assert [run.place_in_line for run in line] == sorted(run.place_in_line for run in line)
        assert not any(run.started for run in line[1:]), f"machine {j} has two runs"
        for ignored, ready_s in commitments._ready_s.items():
            expected_s = max((run.completion_s for run in line if run.queue not in ignored), default=0.0)
            assert ready_s[j] == expected_s, f"machine {j} is ready at {expected_s}, not {ready_s[j]}"
    assert on_timelines == {run.id: sorted(run.machines) for run in [*planned.values(), *started.values()]}
    for run in planned.values():
        assert not run.started
        assert manager._availability.has(run.machines, run.resource), "planned where it cannot start"
        if run.job.id not in ending:
            too_early = run.not_before_s > manager._clock.now_s
            could_start = commitments.is_first_everywhere(run) and not too_early
            assert not could_start, f"job {run.job.id} could start and does not"
            if commitments.is_first_everywhere(run):
                assert manager.wakes_at_s is not None
                assert manager.wakes_at_s <= run.not_before_s, f"no wake-up is due for job {run.job.id}"


def check_plan(manager: MappingManager, now_s: float) -> None:
    """Right after a round: nothing is planned in the past, or while something else is there."""
    slack_s = 1e-9 * max(1.0, now_s)
    for j in range(len(manager._commitments.ready_s())):
        line = manager._commitments.on(j)
        for run in line:
            assert run.started or run.start_s >= now_s - slack_s, f"job {run.job.id} is planned in the past"
            assert run.completion_s >= now_s - slack_s, f"job {run.job.id} is believed to have ended"
        for before, run in pairwise(line):
            assert run.start_s >= before.completion_s - slack_s, (
                f"machine {j}: job {run.job.id} is planned at {run.start_s}, job {before.job.id} is there "
                f"until {before.completion_s}"
            )


class TinyWorld:
    """Machines, interconnects and runs as they really are: clock, dispatcher and monitor in one.

    A run takes its expected time on the resource, longer on a degraded cluster, times the job's factor.
    Preemptions, notices of ends and readings of the monitor come late; `delays_s` says how late, in turn. An
    order that needs what is down comes back at the same instant, as a run that is hit by an outage does.
    """

    def __init__(self, site: Site, seconds: Mapping[str, Sequence[float]], delays_s: Sequence[float]) -> None:
        self.now_s = 0.0
        self.manager: MappingManager | None = None
        self.unfinished: dict[JobId, Job] = {}
        self.ended: dict[RunId, tuple[DispatchOrder, float]] = {}
        """Runs that came to their end, and how long they took."""
        self.preempted: list[DispatchOrder] = []
        """Runs that were ordered to stop, whether they did or not."""
        self.active: dict[RunId, DispatchOrder] = {}
        self.down: set[int | str] = set()
        self._site = site
        self._seconds = seconds
        self._delays_s = cycle(delays_s)
        self._run_time_factors: dict[JobId, float] = {}
        self._started_s: dict[RunId, float] = {}
        self._orders: dict[RunId, DispatchOrder] = {}
        self._reported_down: set[int | str] = set()
        self._pending: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = count()
        self._unreported: list[Reading] = []

    # -- what the manager sees ------------------------------------------------------------------------------

    def dispatch(self, order: DispatchOrder) -> None:
        assert order.run not in self._orders, f"run {order.run} is dispatched twice"
        assert order.job.id in self.unfinished, f"job {order.job.id} has ended, or never came"
        busy = {j: run.job.id for run in self.active.values() for j in run.machines}
        for j in order.machines:
            assert j not in busy, f"job {order.job.id} is sent to machine {j}, where job {busy[j]} runs"
        assert order.job.id not in busy.values(), f"job {order.job.id} runs already"
        belonging = self._belonging(order)
        assert order.machines
        assert set(order.machines) <= set(belonging)
        assert self._manager._availability.has(order.machines, order.resource), "known to be down"
        self._orders[order.run] = order
        found_down = self._missing(order)
        if found_down:
            links_only = isinstance(found_down[0], str)
            quantifier = all if links_only else any
            assert not quantifier(subject in self._reported_down for subject in found_down), (
                "the manager knew that it was down"
            )
            self._later(0.0, lambda: self._lose(order.run, found_down))
            return
        self.active[order.run] = order
        self._started_s[order.run] = self.now_s
        share = len(order.machines) / len(belonging)
        expected_s = self._seconds[order.job.job_class][order.resource] / share
        self._later(expected_s * self._run_time_factors[order.job.id], lambda: self._end(order.run))

    def preempt(self, run: RunId) -> None:
        assert run in self._orders, f"run {run} was never dispatched"
        self.preempted.append(self._orders[run])
        self._later(next(self._delays_s), lambda: self._halt(run))

    def news(self) -> Sequence[Reading]:
        told, self._unreported = self._unreported, []
        return told

    # -- what happens ---------------------------------------------------------------------------------------

    def submit(self, job: Job, run_time_factor: float) -> str | None:
        self._run_time_factors[job.id] = run_time_factor
        self.unfinished[job.id] = job
        refusal = self._manager.on_job_arrived(job)
        if refusal is not None:
            del self.unfinished[job.id]
        return refusal

    def change(self, subject: int | str, up: bool) -> None:
        """A machine or an interconnect goes down or comes back; the monitor tells of it later."""
        if (subject not in self.down) is up:
            return
        (self.down.discard if up else self.down.add)(subject)
        self._reported_down.discard(subject)
        kind = MachineReading if isinstance(subject, int) else InterconnectReading
        reading: Reading = kind(subject, up, self.now_s)  # type: ignore[arg-type]
        self._later(next(self._delays_s), lambda: self._report(reading))
        for run, order in [] if up else list(self.active.items()):
            if subject in self._missing(order):
                del self.active[run]
                self._lose(run, (subject,))

    def run_next_event(self) -> bool:
        """The next thing happens. False if there is nothing to come."""
        if not self._pending:
            return False
        time_s, _, callback = heapq.heappop(self._pending)
        self.now_s = max(self.now_s, time_s)
        callback()
        return True

    def pass_time(self, seconds: float) -> None:
        until_s = self.now_s + seconds
        while self._pending and self._pending[0][0] <= until_s:
            self.run_next_event()
        self.now_s = until_s

    def lessons(self) -> Iterator[tuple[int, int, int, float, float]]:
        """(job, resource, number of machines, start, seconds) of the whole runs."""
        for run, (order, took_s) in self.ended.items():
            yield order.job.id, order.resource, len(order.machines), self._started_s[run], took_s

    def _belonging(self, order: DispatchOrder) -> tuple[int, ...]:
        """All machines of the resource that an order names."""
        c = order.resource - self._site.n_machines
        return (order.resource,) if c < 0 else self._site.members[c]

    @property
    def _manager(self) -> MappingManager:
        assert self.manager is not None
        return self.manager

    def _later(self, delay_s: float, callback: Callable[[], None]) -> None:
        heapq.heappush(self._pending, (self.now_s + delay_s, next(self._sequence), callback))

    def _missing(self, order: DispatchOrder) -> tuple[int | str, ...]:
        """What of its machines is down, or else all the interconnects of its cluster where all are."""
        c = order.resource - self._site.n_machines
        links = self._site.clusters[c].interconnects if c >= 0 else ()
        machines = tuple(j for j in order.machines if j in self.down)
        return machines or (links if self.down.issuperset(links) else ())

    def _end(self, run: RunId) -> None:
        if run not in self.active:
            return
        order = self.active.pop(run)
        self.ended[run] = (order, self.now_s - self._started_s[run])
        del self.unfinished[order.job.id]
        completion = RunEnded(run, self.now_s)
        self._later(next(self._delays_s), lambda: self._manager.on_run_ended(completion))

    def _lose(self, run: RunId, found_down: tuple[int | str, ...]) -> None:
        self._reported_down.update(found_down)
        self._manager.on_run_lost(RunLost(run, self.now_s, found_down))

    def _halt(self, run: RunId) -> None:
        if run in self.active:
            del self.active[run]
            self._manager.on_run_preempted(run)

    def _report(self, reading: Reading) -> None:
        self._unreported.append(reading)
        self._manager.on_monitor_news()
