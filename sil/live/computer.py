"""This computer in place of a simulated cluster: nodes are processes with a core each, and time is real.

A node starts the processes of jobs and of its user, and shares its core among them by CCS. It is pinned to
one core, and so is all that it starts. All are in its session, the unit among which Linux first divides a
core (sched_autogroup), so that nice values count between them, and other programs little.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, NamedTuple

import psutil

from scheduler import UserError
from scheduler.coscheduling.daemon import Coscheduler
from scheduler.coscheduling.ports import DaemonPorts
from scheduler.model import DispatchOrder, RunId
from scheduler.time_shared.social_contract import SocialContract
from sil.live.network import IN_NAMESPACE, PORT, joined, loopback, may_have_namespaces
from sil.live.programs import PARTNER_LOST, Address, Parallel, RealProcesses, Task, carry_out, interact
from sil.workers.descendants import KILL_WITHIN_S, be_prompt, kill_descendants
from sil.workers.nursery import end_with_parent, new_interpreter
from sil.world.processes.model import DAEMON_NICE, GOLDEN, Lowered


class NodeSettings(NamedTuple):
    """What a live node is like. `thinks` are those of its user. By default nothing is shared."""

    name: str
    memory_mb: float = 0.0
    contract: SocialContract = SocialContract()
    coscheduler: Coscheduler = Coscheduler.NONE
    period_s: float = 1.0
    interaction_s: float = 1.0
    thinks: Sequence[float] = ()


class LiveNode:
    """Obeys the commands that come from `head`: a task to start, a run to end, or what the user demands. It
    tells of each process that has begun or ended, and of what CCS does."""

    def __init__(
        self, settings: NodeSettings, node: int, head: Connection, addresses: Sequence[Address]
    ) -> None:
        self._settings, self._node, self._head, self._addresses = settings, node, head, addresses
        self._lan = lan = socket.socket(type=socket.SOCK_DGRAM)
        lan.bind(addresses[node])
        self.ports = RealProcesses(settings.memory_mb, lan, addresses, lambda *told: head.send(told))
        ports = DaemonPorts(*[self.ports] * 6)
        self._daemon = settings.coscheduler.daemon(self._node, ports, settings.contract)
        self._exits: dict[int, int] = {}
        """The processes of tasks, by descriptors that are readable when they have ended."""
        self._user: Connection | None = None

    def serve(self) -> None:
        """Until the head has gone."""
        period_s = self._settings.period_s
        samples_s = self.ports.began_s + (self._node * GOLDEN) % 1.0 * period_s
        while True:
            there: list[Any] = [self._head, self._lan, *self._exits, *filter(None, [self._user])]
            wait_s = max(0.0, samples_s - time.monotonic()) if self.ports.tasks else None
            for ready in wait(there, wait_s):
                if ready is self._head:
                    self._obey(*self._head.recv())
                elif ready is self._lan:
                    if (event := self.ports.received()) is not None and self._daemon is not None:
                        self._daemon.receive(event)
                elif ready is self._user:
                    self._user.recv()
                    self.ports.last_input_s = self.ports.now_s
                elif isinstance(ready, int):
                    self._ended(ready)
            if (late_s := time.monotonic() - samples_s) >= 0.0:
                samples_s += period_s * (1 + late_s // period_s)
                if self.ports.tasks and self._daemon is not None:
                    self._daemon.sample()

    def _obey(self, word: str, *values: Any) -> None:
        match word:
            case "start":
                self._start(*values)
            case "user":
                self._demand(*values)
            case "end":
                for pid in [pid for pid, task in self.ports.tasks.items() if task.run == values[0]]:
                    os.kill(pid, signal.SIGKILL)

    def _start(self, task: Task) -> None:
        with socket.create_server(task.addresses[task.rank]) as listener:
            pid = self._forked(lambda: carry_out(task, listener), listener.fileno())
        self.ports.tasks[pid] = task
        self._exits[os.pidfd_open(pid)] = pid
        self._head.send(("began", task.run, pid))

    def _ended(self, descriptor: int) -> None:
        os.close(descriptor)
        pid = self._exits.pop(descriptor)
        _, status, used = os.wait4(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        self._head.send(("exited", self.ports.tasks.pop(pid).run, code, used.ru_utime + used.ru_stime))

    def _demand(self, cpu: float, memory_mb: float) -> None:
        if self._user is None:
            self._user, theirs = Pipe()
            settings, (next_node, _) = self._settings, self._addresses[self._node - 1]
            how = theirs, settings.interaction_s, settings.thinks, next_node
            with theirs:
                pid = self._forked(lambda: interact(*how), theirs.fileno())
            self.ports.user = psutil.Process(pid)
        self._user.send((cpu, memory_mb))

    def _forked(self, does: Callable[[], None], keeps: int) -> int:
        """A process that has the descriptor of this number, and ends with this one."""
        parent, pid = os.getpid(), os.fork()
        if pid:
            return pid
        try:
            end_with_parent(parent)
            os.setpriority(os.PRIO_PROCESS, 0, max(0, os.getpriority(os.PRIO_PROCESS, 0)))
            os.closerange(3, keeps)
            os.closerange(keeps + 1, os.sysconf("SC_OPEN_MAX"))
            does()
            os._exit(0)
        except ConnectionError:
            os._exit(PARTNER_LOST)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)


def serve(head: int) -> None:
    """Be a node, with this descriptor, until its head has gone."""
    connection = Connection(head)
    with suppress(EOFError, ConnectionError):
        connection.send(("ready",))
        n, settings, core, addresses, began_s, parent = connection.recv()
        end_with_parent(parent)
        os.sched_setaffinity(0, {core})
        # Before other programs, if this user may, and unless the command was started with `nice`.
        is_nice = os.getpriority(os.PRIO_PROCESS, 0) > 0
        with suppress(OSError), open("/proc/self/autogroup", "w", encoding="ascii") as file:
            file.write(str(os.getpriority(os.PRIO_PROCESS, 0)) if is_nice else "-20")
        try:
            os.setpriority(os.PRIO_PROCESS, 0, DAEMON_NICE)
        except PermissionError:
            connection.send(("unprivileged",))
        node = LiveNode(settings, n, connection, addresses)
        node.ports.began_s = began_s
        node.serve()
    kill_descendants()


LOOK_EVERY_S = 0.5
"""Interval at which the usable cores are read."""
Change = tuple[str, int, bool]
"""The number of a "core" or a "run", and whether the core is usable, or CCS has stopped the run."""


def usable_cores() -> list[int]:
    """The cores that this process may run on."""
    return sorted(os.sched_getaffinity(0))


@dataclass
class _Running:
    """A run with its processes, by node: their numbers, and the CPU time of those that have ended."""

    order: DispatchOrder
    pids: dict[int, int] = field(default_factory=dict)
    used_s: dict[int, float] = field(default_factory=dict)
    n_stopped: int = 0


class Computer:
    """Starts its nodes when a run begins, and ends them with all that they have started. A parallel run has a
    process on each of its nodes. A copy in another process has no nodes."""

    def __init__(
        self, settings: Sequence[NodeSettings], on_ended: Callable[[int], None] = lambda n: None
    ) -> None:
        """`on_ended` gets the number of complete runs."""
        self._settings, self._on_ended = settings, on_ended
        self._cores = usable_cores()[: len(settings)]
        self.most_s = inf
        """The time after which the run is given up."""
        self.cpu_s: dict[int, float] = {}
        """The CPU time of the last run of each job."""
        self.lowered: Lowered = {}
        self.may_raise = True
        """Whether this user may raise priorities."""
        self._nodes: list[Connection] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._running: dict[RunId, _Running] = {}
        self._ended, self._changes = list[RunId](), list[Change]()
        self._up = [True] * len(settings)
        """A core is up while this process may run on it, which an administrator can change."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Computer, (self._settings,)

    def begin(self) -> None:
        """Start the nodes; time begins when all are ready. Then this process comes before them."""
        has_namespaces, one_thread = may_have_namespaces(), {"OPENBLAS_NUM_THREADS": "1"}
        for _ in self._settings:
            ours, theirs = Pipe()
            with theirs:
                self._nodes.append(ours)
                of_node = f"serve({theirs.fileno()})", [theirs.fileno()]
                within = IN_NAMESPACE if has_namespaces else ()
                self._processes.append(new_interpreter("sil.live.computer", *of_node, one_thread, within))
        for n in range(len(self._nodes)):
            self._hear(n)
        pids = [process.pid for process in self._processes]
        self._addresses = joined(pids) if has_namespaces else loopback(len(pids))
        be_prompt()
        self._began_s = time.monotonic()
        for n, (settings, core) in enumerate(zip(self._settings, self._cores, strict=True)):
            self._nodes[n].send((n, settings, core, self._addresses, self._began_s, os.getpid()))

    def start(self, order: DispatchOrder, does: Parallel | float) -> None:
        """Start the processes of a run."""
        run, nodes = order.run, tuple(order.machines)
        self._running[run] = _Running(order)
        addresses = [(self._addresses[n][0], PORT + run) for n in nodes]
        for rank, n in enumerate(nodes):
            self._nodes[n].send(("start", Task(run, does, rank, nodes, addresses)))

    def demand(self, node: int, cpu: float, memory_mb: float) -> None:
        """The user of a node demands a share of its core, and memory."""
        self._nodes[node].send(("user", cpu, memory_mb))

    def has_exited(self, run: RunId) -> bool:
        """Whether all its processes have."""
        return len(self._running[run].used_s) == len(self._running[run].order.machines)

    def end(self, run: RunId) -> None:
        """End a run, whose processes may have exited."""
        has_exited, over = self.has_exited(run), self._running.pop(run)
        self.cpu_s[over.order.job.id] = sum(over.used_s.values())
        if has_exited:
            self._on_ended(len(self.cpu_s))
        for n in () if has_exited else over.order.machines:
            self._nodes[n].send(("end", run))

    def used_s(self, run: RunId) -> float:
        """The CPU time of a run, the mean of its processes."""
        of_run = self._running[run]
        used_s = dict(of_run.used_s)
        for n in of_run.pids.keys() - used_s.keys():
            with suppress(psutil.NoSuchProcess):  # it has just ended
                used_s[n] = sum(psutil.Process(of_run.pids[n]).cpu_times()[:2])
        return sum(used_s.values()) / len(of_run.order.machines)

    def happened(self, until_s: float) -> tuple[float, list[int], list[Change]] | None:
        """The time, the runs whose processes have all exited, and other changes; waits for one of these, or
        until a time. None if nothing can happen any more. Raises UserError if a process fails, or if it takes
        too long."""
        if not self._nodes:
            self.begin()
        while self._running or until_s < inf:
            now_s, usable = time.monotonic() - self._began_s, set(usable_cores())
            for j, core in enumerate(self._cores):
                if self._up[j] != (core in usable):
                    self._up[j] = not self._up[j]
                    self._changes.append(("core", j, self._up[j]))
            if self._ended or self._changes or now_s >= until_s:
                ended, changes, self._ended, self._changes = self._ended, self._changes, [], []
                return now_s, [*ended], changes
            if now_s > self.most_s:
                sentence = f"the live run was given up after {now_s:.0f} s, much longer than its simulation"
                raise UserError(f"{sentence}; are the cores busy with something else?")
            for ready in wait(self._nodes, min(until_s - now_s, LOOK_EVERY_S)):
                self._hear(next(n for n, node in enumerate(self._nodes) if node is ready))
        return None

    def close(self) -> None:
        """End the nodes, with all that they have started."""
        for node in self._nodes:
            node.close()
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):  # something has stopped it
                process.wait(KILL_WITHIN_S)
            process.kill()
            process.wait()
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))

    def _hear(self, n: int) -> None:
        try:
            word, *values = self._nodes[n].recv()
        except (EOFError, ConnectionError):
            name = self._settings[n].name
            raise UserError(f"the process of node '{name}' has ended; start the run again") from None
        if word == "unprivileged":
            self.may_raise = False
        elif word != "ready" and (of_run := self._running.get(values[0])) is not None:
            self._hear_of(of_run, n, word, *values[1:])

    def _hear_of(self, of_run: _Running, n: int, word: str, value: Any = None, more: Any = None) -> None:
        """What has become of a run on a node, unless it was ended before."""
        job, before = of_run.order.job.id, of_run.n_stopped > 0
        match word:
            case "began":
                of_run.pids[n] = value
            case "nice" if value > 0:
                self.lowered.setdefault((n, job))
            case "exited" if value == 0:
                of_run.used_s[n] = more
                self._ended += [of_run.order.run] if self.has_exited(of_run.order.run) else []
            case "exited" if value != PARTNER_LOST:  # else another one says why
                how = f"exit code {value}" if value > 0 else f"signal {-value}"
                raise UserError(f"job {job} ended with {how} on node '{self._settings[n].name}'")
            case "stop" | "continue":
                of_run.n_stopped += 1 if word == "stop" else -1
                if before != (of_run.n_stopped > 0):
                    self._changes.append(("run", of_run.order.run, not before))
