"""Detailed time-shared nodes as an execution model: jobs advance as their processes are scheduled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from scheduler.coscheduling.daemon import Daemon
from scheduler.coscheduling.ports import DaemonPorts, ParallelProcess, PeerEvent, ReservedShare
from scheduler.model import DispatchOrder, JobId, RunId
from scheduler.time_shared.social_contract import OS_MEMORY_MB, sum_in_order
from sil.world.actual_runtimes import RandomStreams
from sil.world.events import AdvanceDue, EndDue, EventQueue, LocalChanged
from sil.world.failures import Hindrances
from sil.world.machines.time_shared import LocalResponse, Periods, TimeSharedMachines, Work
from sil.world.processes.core.codes import NO_PROCESS, SECOND
from sil.world.processes.core.programs import Programs
from sil.world.processes.model import DAEMON_NICE, GOLDEN, Lowered
from sil.world.time_shared_cluster import TimeSharedCluster

LOOK_AHEAD_S = 0.1
"""Nodes run ahead to the next event outside, at most for this long. While a scheduler takes time to decide,
which is no event, what it starts may thus be late by as much."""
N_DRAWS = 64


@dataclass(eq=False, slots=True)
class ProcessesOfRun:
    """A run, and its processes in the order of its nodes. `number` orders runs by their starts. It is stopped
    while all of its processes are."""

    order: DispatchOrder
    memory_mb: float
    number: int
    job: int
    processes: list[int]
    reserved: ReservedShare | None
    n_stopped: int = 0
    has_ended: bool = False


@dataclass(slots=True)
class UserOfNode:
    process: int = NO_PROCESS
    cpu: float = 0.0
    memory_mb: float = 0.0
    idle_since_s: float = -inf


class ProcessMachines(TimeSharedMachines):
    """Nodes on which CCS runs unmodified, if there is a coscheduler; see `Programs` for what is simulated.

    A job ends when the last of its processes does. The cost of an event does not depend on the number of
    nodes, apart from the logarithm of the number of pending events.
    """

    def __init__(
        self,
        cluster: TimeSharedCluster,
        works: Mapping[JobId, Work],
        events: EventQueue,
        note_stopped: Callable[[DispatchOrder, bool], None],
        hindrances: Hindrances | None,
        streams: RandomStreams,
        lowered: Lowered,
    ) -> None:
        super().__init__(cluster, hindrances)
        assert cluster.in_detail is not None
        self._model, self._works, self._events = cluster.in_detail, works, events
        self._note_stopped, self.lowered = note_stopped, lowered
        model, n, where = self._model, cluster.n_nodes, self._model.coscheduler
        self._active: dict[RunId, ProcessesOfRun] = {}
        self._run_of: dict[int, ProcessesOfRun] = {}
        self.runs_on: list[dict[int, ProcessesOfRun]] = [{} for _ in range(n)]
        """The runs on each node, by their process there."""
        self.users = [UserOfNode() for _ in range(n)]
        self.memory_mb = cluster.memory_mb
        self._user_rngs = streams.of("interactions").spawn(n)
        costs = round(model.switch_s * SECOND), round(model.reload_s * SECOND)
        self.programs = Programs(n, model.cpu_scheduler.code, costs, where.in_kernel(), self, model.paging)
        self.programs.period = round(model.period_s * SECOND)
        self.programs.base_cost = round(model.sample_s * SECOND)
        self.programs.cost_of_each = round(model.sample_each_s * SECOND)
        self._messages = Messages(self.programs, model.event_s, streams.of("daemons"))
        ports = [NodePorts(i, self, self._messages) for i in range(n)]
        made = [where.daemon(i, DaemonPorts(*[port] * 6), cluster.contract) for i, port in enumerate(ports)]
        self._daemons: list[Daemon] = [daemon for daemon in made if daemon is not None]
        self._rows = (
            [self.programs.add_daemon(i, DAEMON_NICE) for i in range(n)] if where.in_user_space else []
        )
        self._started, self._advance_s = 0, inf
        self._unnoted: list[tuple[DispatchOrder, bool]] = []
        self.periods: list[Periods] = []
        """Of periodic runs that are over."""

    @property
    def now_s(self) -> float:
        """The time on the nodes, which may be ahead of that outside."""
        return self.programs.now / SECOND

    # -- runs ----------------------------------------------------------------------------------------------

    def has_ended(self, run: RunId, now_s: float) -> bool:
        return run in self._active and self._active[run].has_ended

    def start(self, order: DispatchOrder, now_s: float) -> None:
        self._catch_up(now_s)
        work, model = self._works[order.job.id], self._model
        traffic = model.traffic_of(order.job.job_class, order.job.n_tasks, work.exe_s)
        periodic = model.periodic.get(order.job.job_class)
        program = model.program(self._hindered_s(order, work.exe_s, now_s), work.cpu, traffic, periodic)
        idle = [n for n in order.machines if not self.runs_on[n]]
        job = self.programs.begin(program, list(order.machines))
        reserved = None if periodic is None else periodic.reservation
        members = self.programs.members[job]
        run = ProcessesOfRun(order, work.memory_mb, self._started, job, members, reserved)
        self._started += 1
        self._active[order.run] = self._run_of[job] = run
        for n, process in zip(order.machines, run.processes, strict=True):
            self.runs_on[n][process] = run
        for n in idle if self._rows else ():
            phase = (n * GOLDEN) % 1.0  # daemons are not synchronised
            self.programs.sleep(self._rows[n], round(phase * self.programs.period))
        self._changed(order.machines, now_s)

    def stop(self, run: RunId, now_s: float) -> DispatchOrder:
        self._catch_up(now_s)
        over = self._active.pop(run)
        for n, process in zip(over.order.machines, over.processes, strict=True):
            del self.runs_on[n][process]
        if late := self.programs.lateness[over.job]:
            self.periods.append(Periods.of(over.order, late))
        self.programs.end(over.job)
        del self._run_of[over.job]
        self._changed(over.order.machines, now_s)
        return over.order

    def runs_hit_by(self, subject: int | str) -> list[RunId]:
        return [run.order.run for run in self.runs_on[subject].values()] if isinstance(subject, int) else []

    def used_s(self, run: RunId, now_s: float) -> float:
        """The CPU time that a run has computed for, without spinning, the mean of its tasks."""
        active = self._active.get(run)
        if active is None:
            return 0.0
        self._catch_up(now_s)
        return self.programs.used_in(active.job) / (SECOND * len(active.processes))

    def nodes_of(self, run: RunId) -> Sequence[int]:
        """The nodes of a run, while it is there."""
        return self._active[run].order.machines if run in self._active else ()

    def halt(self, process: int, node: int, is_stopped: bool) -> None:
        """A daemon stops a process, or lets it continue."""
        run = self.runs_on[node][process]
        if is_stopped:
            self.programs.stop(process)
        else:
            self.programs.resume(process)
        run.n_stopped += 1 if is_stopped else -1
        if len(run.processes) - run.n_stopped == (0 if is_stopped else 1):
            self._unnoted.append((run.order, is_stopped))
            self.programs.has_news = True
        self._set_overcommitment(node)

    # -- users ---------------------------------------------------------------------------------------------

    def local_changed(self, change: LocalChanged, now_s: float) -> None:
        self._catch_up(now_s)
        user = self.users[change.node]
        if user.process == NO_PROCESS:
            user.process = self.programs.add_user(change.node, round(self._model.interaction_s * SECOND))
        if change.cpu != user.cpu:
            self.programs.set_demand(user.process, change.cpu)
            user.idle_since_s = now_s
        user.cpu, user.memory_mb = change.cpu, change.memory_mb
        if not change.user_is_there:
            user.idle_since_s = -inf
        self._changed((change.node,), now_s)

    def local_responses(self, now_s: float) -> list[LocalResponse]:
        """The response times of nodes whose users have had an answer."""
        self._catch_up(now_s)
        found: dict[int, list[tuple[int, int]]] = {}
        for node, response, alone in self.programs.responses:
            found.setdefault(node, []).append((response, alone))
        responses = []
        for node, times in sorted(found.items()):
            took_s, alone_s = np.array(times, dtype=np.float64).T / SECOND
            slowdown, is_late = float(took_s.sum() / alone_s.sum()), took_s > self._model.response_deadline_s
            p95_s = float(np.quantile(took_s, 0.95))
            responses.append(
                LocalResponse(node, slowdown, None, float(took_s.mean()), p95_s, float(is_late.mean()))
            )
        return responses

    def draws(self, node: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return self._user_rngs[node].exponential(size=N_DRAWS)

    # -- daemons -------------------------------------------------------------------------------------------

    def sampled(self, node: int) -> None:
        self._daemons[node].sample()

    def delivered(self, message: int) -> None:
        node, event = self._messages.take(message)
        self._daemons[node].receive(event)

    def _changed(self, nodes: Sequence[int], now_s: float) -> None:
        """Processes, users or memory of nodes have changed."""
        for n in nodes:
            self._set_overcommitment(n)
            if self._daemons and not self._rows:
                self.sampled(n)
        self._note()
        self._advance_at(now_s)

    def _set_overcommitment(self, n: int) -> None:
        """The share of the memory in use that is not there."""
        stopped = self.programs.stopped
        active = (run.memory_mb for p, run in self.runs_on[n].items() if not stopped[p])
        used_mb = OS_MEMORY_MB + self.users[n].memory_mb + sum_in_order(active)
        self.programs.over[n] = max(0.0, 1.0 - self.memory_mb[n] / used_mb)

    # -- time ----------------------------------------------------------------------------------------------

    def advance(self, now_s: float) -> None:
        """Let nodes run until the next event outside, or until something happens that is seen there."""
        if now_s != self._advance_s:
            return  # it has been set to another time
        self._advance_s = inf
        self._catch_up(now_s)
        self._note()
        until_s = min(self._events.next_s, now_s + LOOK_AHEAD_S)
        until = int(until_s * SECOND)
        reached = self._run_until(until, now_s)
        self._advance_at(until_s if reached >= until else max(now_s, self.now_s))

    def _catch_up(self, now_s: float) -> None:
        time = round(now_s * SECOND)
        while self._run_until(time, now_s) < time:
            pass

    def _run_until(self, time: int, now_s: float) -> int:
        """Returns the time at which nodes are."""
        programs = self.programs
        if time > programs.now:
            programs.run(time)
        programs.has_news = False
        for job in programs.ended:
            self._run_of[job].has_ended = True
            self._events.push(max(now_s, self.now_s), EndDue(self._run_of[job].order.run))
        programs.ended.clear()
        return programs.now

    def _note(self) -> None:
        """Note now which runs were stopped and continued."""
        unnoted, self._unnoted = self._unnoted, []
        for order, is_stopped in unnoted:
            self._note_stopped(order, is_stopped)

    def _advance_at(self, time_s: float) -> None:
        if time_s < self._advance_s and not self.is_idle:
            self._advance_s = time_s
            self._events.push(time_s, AdvanceDue())


class Messages:
    """Events on their way to daemons; each takes an exponential time, so they may overtake one another."""

    def __init__(self, programs: Programs, mean_s: float, rng: np.random.Generator) -> None:
        self._programs, self._mean_s, self._rng = programs, mean_s, rng
        self._on_their_way: dict[int, tuple[int, PeerEvent]] = {}
        self._sent = 0

    def send(self, node: int, event: PeerEvent) -> None:
        self._sent += 1
        self._on_their_way[self._sent] = node, event
        self._programs.deliver(self._sent, round(self._rng.exponential(self._mean_s) * SECOND))

    def take(self, message: int) -> tuple[int, PeerEvent]:
        return self._on_their_way.pop(message)


class NodePorts:
    """The ports of the daemon of one node."""

    def __init__(self, node: int, machines: ProcessMachines, messages: Messages) -> None:
        self._node, self._machines, self._messages = node, machines, messages
        self.set_quantum_share = machines.programs.set_quantum_share
        self.reserve = machines.programs.reserve

    @property
    def now_s(self) -> float:
        return self._machines.now_s

    def processes(self) -> Sequence[ParallelProcess]:
        used, packets = self._machines.programs.used_by, self._machines.programs.packets
        return [
            ParallelProcess(
                p, run.order.run, run.number, used(p) / SECOND, run.memory_mb, packets(p), run.reserved
            )
            for p, run in self._machines.runs_on[self._node].items()
        ]

    def idle_s(self) -> float:
        user = self._machines.users[self._node]
        if user.cpu > 0.0:
            return 0.0
        return inf if user.idle_since_s == -inf else self.now_s - user.idle_since_s

    def memory_mb(self) -> tuple[float, float]:
        return self._machines.memory_mb[self._node], self._machines.users[self._node].memory_mb

    def set_nice(self, process: int, nice: int) -> None:
        self._machines.programs.set_nice(process, nice)
        if nice > 0:
            job = self._machines.runs_on[self._node][process].order.job.id
            self._machines.lowered.setdefault((self._node, job))

    def stop(self, process: int) -> None:
        self._machines.halt(process, self._node, True)

    def resume(self, process: int) -> None:
        self._machines.halt(process, self._node, False)

    def nodes_of(self, run: RunId) -> Sequence[int]:
        return self._machines.nodes_of(run)

    def send(self, node: int, event: PeerEvent) -> None:
        self._messages.send(node, event)
