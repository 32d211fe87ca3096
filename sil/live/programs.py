"""Real processes: what they do, and how CCS reads and controls them, by psutil and what /proc shows.

Those of parallel jobs compute like the NAS Parallel Benchmarks and exchange messages, that of a user is the
benchmark of CISNE-P. A process of a job computes until it has used the CPU time of its step, starting
included, sends the edge of its array to its partner, and waits for the partner's, as `Programs` simulates it.
On one computer a message takes no time, so it is read when it would have arrived from another one, by
`Program.communicates`.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from glob import glob
from itertools import cycle
from math import inf
from mmap import mmap
from multiprocessing.connection import Connection
from select import select
from typing import Any, NamedTuple

import numpy as np
import psutil

from scheduler.coscheduling.ports import ParallelProcess, PeerEvent, Topic
from scheduler.model import RunId
from sil.world.processes.core.codes import SECOND, SEGMENT_BYTES
from sil.world.processes.core.programs import Program

PARTNER_LOST = os.EX_TEMPFAIL
"""The exit code of a process whose partner has ended: that one's says why."""
BYTES_PER_S, MAX_DATAGRAM, DISCARD = 512.0, 65_507, 9
"""What a user's interactions send (CISNE-P: 0.5 KB/s), and the port of the service that takes it."""
PAGE, MB = os.sysconf("SC_PAGE_SIZE"), 2**20

Array = np.ndarray[Any, np.dtype[Any]]
_STAMP = struct.Struct("<d")


def conjugate_gradient() -> Iterator[Array]:
    """CG: a sparse matrix, of the Laplacian of a torus, times a vector."""
    x = np.random.default_rng(1).random((64, 64))
    while True:
        y = 4.0 * x - np.roll(x, 1, 0) - np.roll(x, -1, 0) - np.roll(x, 1, 1) - np.roll(x, -1, 1)
        x[:] = y / np.abs(y).max()
        yield x


def integer_sort() -> Iterator[Array]:
    """IS: keys are sorted by counting, and others drawn."""
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 2048, 8192)
    while True:
        keys[:] = np.repeat(np.arange(2048), np.bincount(keys % 2048, minlength=2048))
        yield keys
        keys[:] = rng.permutation(keys)


def multigrid() -> Iterator[Array]:
    """MG: smoothing on a grid in three dimensions, and on every other of its points."""
    x = np.random.default_rng(1).random((32, 32, 32))
    while True:
        for each in (x, x[::2, ::2, ::2]):
            inner = each[1:-1, 1:-1, 1:-1]
            inner += 0.1 * (each[2:, 1:-1, 1:-1] - inner) + 0.1 * (each[:-2, 1:-1, 1:-1] - inner)
            yield x


KERNELS: dict[str, Callable[[], Iterator[Array]]] = {
    "CG": conjugate_gradient,
    "IS": integer_sort,
    "MG": multigrid,
}
"""By the part of the name of a job class before its dot."""


class Parallel(NamedTuple):
    """What each process of a parallel job does, and the memory that it takes."""

    job_class: str
    program: Program
    memory_mb: float


class Task(NamedTuple):
    """The process of a run on the node that is the `rank`-th of its nodes, with these addresses. Or it keeps
    its core busy for some seconds."""

    run: int
    does: Parallel | float
    rank: int
    nodes: Sequence[int]
    addresses: Sequence[tuple[str, int]]


def held(memory_mb: float) -> mmap:
    """Memory in use, of which this process has so much in total."""
    with open("/proc/self/statm", encoding="ascii") as file:
        rest = int(memory_mb * MB) - int(file.read().split()[1]) * PAGE
    found = mmap(-1, max(rest, PAGE))
    np.frombuffer(found, np.uint8)[::PAGE] = 1
    return found


def compute(work: Iterator[Array], until_s: float) -> Array:
    """Go on until this process has used so much CPU time."""
    array = next(work)
    while time.thread_time() < until_s:
        array = next(work)
    return array


def carry_out(task: Task, listener: socket.socket) -> None:
    """Do what a task does, from its beginning to its end. Raises ConnectionError if a partner has gone."""
    if isinstance(task.does, float):
        until_s, work = time.monotonic() + task.does, multigrid()
        while time.monotonic() < until_s:
            next(work)
        return
    job_class, program, memory_mb = task.does
    _memory = held(memory_mb)
    size, (own, _) = len(task.nodes), task.addresses[task.rank]
    work = KERNELS[job_class.partition(".")[0]]()
    is_cube = size & (size - 1) == 0 and size > 1
    dimensions = [1 << d for d in range(size.bit_length() - 1)] if is_cube else [1]
    to = [task.rank ^ d if is_cube else (task.rank + 1) % size for d in dimensions]
    come_from = [task.rank ^ d if is_cube else (task.rank - 1) % size for d in dimensions]
    sends = [_connected(task.addresses[peer], own) for peer in to]
    accepted = {address: made for made, (address, _) in (listener.accept() for _ in come_from)}
    flight_s = program.communicates / program.steps / SECOND
    for step in range(program.steps):
        array = compute(work, program.computes * (step + 1) / program.steps / SECOND)
        d = step % len(dimensions)
        data = array.tobytes()[: program.bytes // array.itemsize * array.itemsize]
        message = _STAMP.pack(time.monotonic()) + data.ljust(program.bytes, b"\0")
        received = _exchange(sends[d], accepted[task.addresses[come_from[d]][0]], message)
        edge = array.reshape(-1).view(np.uint8)[len(array.tobytes()) - len(data) :]
        edge[:] = np.frombuffer(received, np.uint8)[_STAMP.size : _STAMP.size + len(data)]
        time.sleep(max(0.0, _STAMP.unpack_from(received)[0] + flight_s - time.monotonic()))


def _connected(peer: tuple[str, int], own: str) -> socket.socket:
    until_s = time.monotonic() + 30.0
    while True:
        try:
            made = socket.create_connection(peer, source_address=(own, 0))
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return made
        except ConnectionRefusedError:  # it is about to start
            if time.monotonic() > until_s:
                raise
            time.sleep(0.002)


def _exchange(to: socket.socket, come_from: socket.socket, message: bytes) -> bytes:
    """Send a message, and receive one of the same size: at the same time, since queues are short."""
    left, received = memoryview(message), bytearray()
    while left or len(received) < len(message):
        is_complete = len(received) == len(message)
        readable, writable, _ = select([] if is_complete else [come_from], [to] if left else [], [])
        if writable:
            left = left[to.send(left, socket.MSG_DONTWAIT) :]
        if readable:
            part = come_from.recv(len(message) - len(received))
            if not part:
                raise ConnectionResetError
            received += part
    return bytes(received)


def interact(node: Connection, interaction_s: float, thinks: Sequence[float], address: str) -> None:
    """Ask for interactions as `Programs.set_demand` describes: the node sends CPU demand and memory in MB,
    and gets an empty message whenever the user asks, by keyboard or mouse. `thinks` are multiples of the mean
    time to think, over and over again."""
    work, draws, memory = multigrid(), cycle(thinks), held(0.0)
    lan = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    demand, asks_s = 0.0, inf
    while True:
        wait_s = asks_s - time.monotonic()
        if node.poll(None if wait_s == inf else max(0.0, wait_s)):
            demanded, memory_mb = node.recv()
            memory.close()
            memory = held(memory_mb)
            if demanded != demand:
                demand, asks_s = demanded, time.monotonic() if demanded > 0.0 else inf
            continue
        node.send(None)
        compute(work, time.thread_time() + interaction_s)
        think_s = next(draws) * interaction_s * (1.0 - demand) / demand
        n_bytes = int(BYTES_PER_S * (interaction_s + think_s))
        lan.sendto(bytes(min(n_bytes, MAX_DATAGRAM)), (address, DISCARD))
        asks_s = time.monotonic() + think_s


Address = tuple[str, int]
LISTENING = "0A"


def pending_packets() -> dict[str, int]:
    """The packets in the receive and send queues of all TCP sockets, by the name that /proc/PID/fd has."""
    found = {}
    with open("/proc/self/net/tcp", encoding="ascii") as file:
        next(file)
        for line in file:
            _, _, _, state, queues, _, _, _, _, inode, *_ = line.split()
            if state != LISTENING:
                n_bytes = (int(queue, 16) for queue in queues.split(":"))
                found[f"socket:[{inode}]"] = sum(-(-n // SEGMENT_BYTES) for n in n_bytes)
    return found


def of_process(pid: int, packets: Mapping[str, int]) -> int:
    """The packets of what a process has open."""
    try:
        return sum(packets.get(os.readlink(name), 0) for name in glob(f"/proc/{pid}/fd/*"))
    except OSError:  # something was closed meanwhile
        return 0


class RealProcesses:
    """All ports of the daemon of a node. `tell` gets what CCS does, to which run, and its nice value and the
    time."""

    def __init__(
        self, memory_mb: float, lan: socket.socket, addresses: Sequence[Address], tell: Callable[..., None]
    ) -> None:
        self._memory_mb, self._lan, self._addresses, self._tell = memory_mb, lan, addresses, tell
        self.began_s = time.monotonic()
        self.tasks: dict[int, Task] = {}
        """The processes here, by number."""
        self.user: psutil.Process | None = None
        self.last_input_s = -inf

    @property
    def now_s(self) -> float:
        return time.monotonic() - self.began_s

    def processes(self) -> Sequence[ParallelProcess]:
        found, packets = [], pending_packets()
        for pid, task in self.tasks.items():
            with suppress(psutil.NoSuchProcess):  # it has just ended
                shown = psutil.Process(pid)
                used, memory_mb = shown.cpu_times(), shown.memory_info().rss / MB
                now = used.user + used.system, memory_mb, of_process(pid, packets)
                found.append(ParallelProcess(pid, RunId(task.run), task.run, *now))
        return found

    def idle_s(self) -> float:
        return self.now_s - self.last_input_s

    def memory_mb(self) -> tuple[float, float]:
        return self._memory_mb, self.user.memory_info().rss / MB if self.user is not None else 0.0

    def set_nice(self, process: int, nice: int) -> None:
        with suppress(psutil.NoSuchProcess):
            with suppress(psutil.AccessDenied):
                psutil.Process(process).nice(nice)
            self._tell("nice", self.tasks[process].run, int(psutil.Process(process).nice()))

    def set_quantum_share(self, process: int, share: float) -> None:
        raise NotImplementedError  # not reached: a live coscheduler is in user space

    def reserve(self, process: int, share: float, period_s: float) -> None:
        raise NotImplementedError  # not reached, either

    def stop(self, process: int) -> None:
        with suppress(psutil.NoSuchProcess):
            psutil.Process(process).suspend()
            self._tell("stop", self.tasks[process].run)

    def resume(self, process: int) -> None:
        with suppress(psutil.NoSuchProcess):
            psutil.Process(process).resume()
            self._tell("continue", self.tasks[process].run)

    def nodes_of(self, run: RunId) -> Sequence[int]:
        return next((task.nodes for task in self.tasks.values() if task.run == run), ())

    def send(self, node: int, event: PeerEvent) -> None:
        with suppress(OSError):  # it is lost
            self._lan.sendto(json.dumps(event).encode(), self._addresses[node])

    def received(self) -> PeerEvent | None:
        """An event of another node that has arrived."""
        text, sender = self._lan.recvfrom(1024)
        if sender not in self._addresses:
            return None
        topic, run, node, number = json.loads(text)
        return PeerEvent(Topic(topic), RunId(run), node, number)
