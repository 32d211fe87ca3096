"""A live node: a process that starts those of jobs and of its user, and shares its core among them by CCS.

It is pinned to one core, and so is all that it starts. All are in its session, the unit among which Linux
first divides a core (sched_autogroup), so that nice values count between them, and other programs little.
"""

from __future__ import annotations

import os
import signal
import socket
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, NamedTuple

import psutil

from scheduler.coscheduling.daemon import Coscheduler
from scheduler.coscheduling.ports import DaemonPorts
from scheduler.time_shared.social_contract import SocialContract
from sil.live.programs import PARTNER_LOST, Address, RealProcesses, Task, carry_out, interact
from sil.workers.descendants import kill_descendants
from sil.workers.nursery import end_with_parent
from sil.world.processes.model import DAEMON_NICE, GOLDEN

PORT = 20_000
"""That of the daemon, and of the first run; later ones have the next."""


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
        self, settings: NodeSettings, head: Connection, lan: socket.socket, addresses: Sequence[Address]
    ) -> None:
        self._settings, self._head, self._lan, self._addresses = settings, head, lan, addresses
        self._node = addresses.index(lan.getsockname())
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


def serve(head: int, lan: int) -> None:
    """Be a node, with these descriptors, until its head has gone."""
    connection = Connection(head)
    with suppress(EOFError, ConnectionError):
        connection.send(("ready",))
        settings, core, addresses, began_s, parent = connection.recv()
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
        node = LiveNode(settings, connection, socket.socket(fileno=lan), addresses)
        node.ports.began_s = began_s
        node.serve()
    kill_descendants()
