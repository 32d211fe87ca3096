"""What processes do: parallel programs, interactive users, and the daemon of the coscheduler."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from scheduler.core.arrays import MIN_SIZE, Floats2, floats, integers, nones
from scheduler.coscheduling.core.dynamic_priority import DynamicPriority
from sil.world.processes.core.codes import (
    ARRIVES,
    ASLEEP,
    BLOCKED,
    CPU,
    DAEMON,
    DELIVERED,
    GONE,
    LOCAL,
    MAX_DIMENSIONS,
    PARALLEL,
    RUNNABLE,
    SEGMENT_BYTES,
    SOCKET_BYTES,
    WAKES,
)
from sil.world.processes.core.shared_cpus import SharedCpus, grow

_OF_PROCESSES = (
    *("job", "step", "waiting", "paged", "burst", "wakes", "lives", "sent", "asked", "n_arrived", "peer"),
    *("arrived", "period_ends"),
)
_OF_JOBS = (
    *("steps", "dimensions", "unfinished", "computes", "more", "flight", "later", "on_wire", "segments"),
    *("spins", "every_period", "steps_each"),
)


class Observer(Protocol):
    """What simulated nodes call."""

    def sampled(self, node: int) -> None:
        """The daemon of a node has had the CPU for as long as one of its samples needs."""

    def delivered(self, message: int) -> None:
        """A message between daemons arrives."""

    def draws(self, node: int) -> Floats2:
        """Exponential numbers with a mean of 1, which the user of a node has not used."""


class Program(NamedTuple):
    """A parallel program: each process computes, sends a message, and waits for its partner's, so many times.

    Times are of one process in isolation, in nanoseconds: of computing in total, of messages in total from
    their sending to their arrival, and of one message on the wire of its node, where others wait for it.
    """

    steps: int
    computes: int
    communicates: int
    on_wire: int
    bytes: int
    spins: int
    """How long a process that waits for a message spins before it blocks."""
    period: int = 0
    steps_each: int = 0
    """Of a periodic program: the length of a period, and the steps that are to be complete when it ends. The
    next ones do not begin before that."""


class Programs(SharedCpus):
    """The processes of jobs, of users and of daemons.

    In step k, a process exchanges messages with the partner across dimension k of a hypercube if their number
    is a power of two; else it sends to the next and receives from the previous one in a ring. A message takes
    as long as in isolation once it is on the wire; a node sends one at a time. Where memory is over-committed
    by a share, a process waits for the disk after it has computed: `paging` times as long, times that share.
    """

    def __init__(
        self,
        n_nodes: int,
        policy: int,
        costs: tuple[int, int],
        dynamic: DynamicPriority,
        observer: Observer,
        paging: float,
    ) -> None:
        SharedCpus.__init__(self, n_nodes, policy, costs, dynamic)
        self.observer: Any = observer
        self.paging, self.has_news = paging, False
        self.ended: list[int] = []
        self.responses: list[tuple[int, int, int]] = []
        self.lateness: dict[int, list[int]] = {}
        """By periodic job: of each period of each process, by how much it was missed; 0 if it was kept."""
        self.over, self.wire_free, self.n_parallel = floats(n_nodes), integers(n_nodes), integers(n_nodes)
        n, n_jobs = MIN_SIZE, MIN_SIZE
        self.job, self.step, self.waiting, self.paged = nones(n), integers(n), integers(n), integers(n)
        self.burst, self.wakes, self.lives, self.sent = integers(n), integers(n), integers(n), integers(n)
        self.asked, self.n_arrived, self.period_ends = integers(n), integers(n), integers(n)
        self.peer, self.arrived = (np.zeros((n, MAX_DIMENSIONS), np.int64) for _ in range(2))
        self.steps, self.dimensions, self.unfinished = integers(n_jobs), integers(n_jobs), integers(n_jobs)
        self.computes, self.more, self.flight = integers(n_jobs), integers(n_jobs), integers(n_jobs)
        self.later, self.on_wire, self.segments = integers(n_jobs), integers(n_jobs), integers(n_jobs)
        self.spins, self.every_period, self.steps_each = (integers(n_jobs) for _ in range(3))
        self.n_jobs = 0
        self.spare_jobs: list[int] = []
        self.members: dict[int, list[int]] = {}
        self.thinks, self.interaction = floats(n_nodes), integers(n_nodes)
        self.drawn, self.n_drawn = np.zeros((n_nodes, 1)), integers(n_nodes) + 1
        self.period, self.base_cost, self.cost_of_each = 0, 0, 0

    def make_room(self) -> None:
        grow(self, _OF_PROCESSES, 2 * self.n_rows)
        SharedCpus.make_room(self)

    # -- the loop ------------------------------------------------------------------------------------------

    def run(self, until: int) -> int:
        """Carry out all events until then, or until a job ends or something has to be reported. Returns the
        time."""
        events = self.events
        while events.heap.n > 0 and not self.has_news:
            time = int(events.heap.first_key())
            if time > until:
                break
            self.now = time
            x = events.pop()
            kind, subject, version = events.kind[x], events.subject[x], events.version[x]
            if kind == CPU:
                self.look_at(subject, version)
            elif kind == ARRIVES:
                self.receive(subject, version)
            elif kind == WAKES:
                self.wake(subject, version)
            else:
                self.observer.delivered(subject)
        if not self.has_news:
            self.now = max(self.now, until)
        return self.now

    def deliver(self, message: int, after: int) -> None:
        """Let a message between daemons arrive."""
        self.events.push(self.now + after, DELIVERED, message, 0)

    def sleep(self, p: int, duration: int) -> None:
        self.state[p] = ASLEEP
        self.wakes[p] += 1
        self.events.push(self.now + duration, WAKES, p, self.wakes[p])

    def wake(self, p: int, version: int) -> None:
        if version != self.wakes[p] or self.state[p] != ASLEEP:
            return
        if self.kind[p] == DAEMON:
            self.left[p] = self.base_cost + self.cost_of_each * self.n_parallel[self.node[p]]
        elif self.kind[p] == LOCAL and not self.paged[p]:
            self.ask(p)
        self.state[p] = RUNNABLE
        if self.stopped[p] == 0:
            self.enter(p)

    def complete(self, p: int) -> None:
        n = self.node[p]
        if self.kind[p] == DAEMON:
            self.state[p] = ASLEEP
            self.observer.sampled(n)
            if self.n_parallel[n] > 0:
                self.sleep(p, self.period)
        elif self.over[n] > 0.0 and not self.paged[p] and not self.waiting[p]:
            self.paged[p] = 1
            self.sleep(p, int(self.burst[p] * self.over[n] * self.paging))
        else:
            self.paged[p] = 0
            if self.kind[p] == LOCAL:
                self.respond(p)
            else:
                self.communicate(p)

    # -- parallel programs ---------------------------------------------------------------------------------

    def begin(self, program: Program, nodes: list[int]) -> int:
        """Start a program with one process on each of these nodes. Returns the number of the job."""
        j = self.spare_jobs.pop() if self.spare_jobs else self.n_jobs
        if j == self.n_jobs:
            self.n_jobs += 1
            self.make_room_for_jobs()
        steps, size = program.steps, len(nodes)
        is_cube = size & (size - 1) == 0 and size > 1
        self.steps[j], self.unfinished[j] = steps, size
        self.dimensions[j] = size.bit_length() - 1 if is_cube else 1
        self.computes[j], self.more[j] = divmod(program.computes, steps)
        self.flight[j], self.later[j] = divmod(program.communicates, steps)
        self.on_wire[j], self.spins[j] = min(program.on_wire, self.flight[j]), program.spins
        self.every_period[j], self.steps_each[j] = program.period, program.steps_each or steps
        self.lateness[j] = []
        self.segments[j] = max(1, -(-min(program.bytes, SOCKET_BYTES) // SEGMENT_BYTES))
        rows = self.members[j] = [self.add(node, PARALLEL, 0, RUNNABLE) for node in nodes]
        for i in range(size):
            p = rows[i]
            self.job[p], self.step[p], self.waiting[p], self.paged[p] = j, 0, 0, 0
            self.sent[p] = self.n_arrived[p] = 0
            self.period_ends[p] = self.now + program.period
            self.lives[p] += 1
            for d in range(self.dimensions[j]):
                self.peer[p, d] = rows[i ^ (1 << d)] if is_cube else rows[(i + 1) % size]
                self.arrived[p, d] = 0
            self.compute(p)
            self.n_parallel[nodes[i]] += 1
        for i in range(size):
            self.enter(rows[i])
        return j

    def make_room_for_jobs(self) -> None:
        if self.n_jobs > self.steps.shape[0]:
            grow(self, _OF_JOBS, 2 * self.n_jobs)

    def end(self, j: int) -> None:
        """The processes of a job that has ended, or is to end now, leave."""
        for p in self.members.pop(j):
            if self.state[p] != GONE:
                self.leave(p)
            self.lives[p] += 1
            self.reuse(p)
        self.spare_jobs.append(j)
        del self.lateness[j]

    def leave(self, p: int) -> None:
        self.n_parallel[self.node[p]] -= 1
        self.remove(p)

    def compute(self, p: int) -> None:
        j = self.job[p]
        self.waiting[p] = self.spinning[p] = 0
        self.burst[p] = self.computes[j] + (1 if self.step[p] < self.more[j] else 0)
        self.left[p] = self.burst[p]

    def communicate(self, p: int) -> None:
        if not self.waiting[p]:
            self.send(p)
            self.waiting[p] = 1
            if self.is_answered(p):
                self.go_on(p)
            elif self.spins[self.job[p]] > 0:
                self.spinning[p], self.spin_left[p] = 1, self.spins[self.job[p]]
            else:
                self.state[p] = BLOCKED
        elif self.is_answered(p):
            self.go_on(p)
        else:
            self.spinning[p] = 0
            self.state[p] = BLOCKED

    def send(self, p: int) -> None:
        j, n, k = self.job[p], self.node[p], self.step[p]
        d = k % self.dimensions[j]
        self.sent[p] = self.wire_free[n] = max(self.now, self.wire_free[n]) + self.on_wire[j]
        arrives = self.sent[p] - self.on_wire[j] + self.flight[j] + (1 if k < self.later[j] else 0)
        q = self.peer[p, d]
        self.events.push(arrives, ARRIVES, q, self.lives[q] * MAX_DIMENSIONS + d)

    def is_answered(self, p: int) -> bool:
        """Whether the message for which a process waits has arrived."""
        n_dimensions = self.dimensions[self.job[p]]
        return self.arrived[p, self.step[p] % n_dimensions] > self.step[p] // n_dimensions

    def go_on(self, p: int) -> None:
        """A process takes the message for which it waited."""
        j = self.job[p]
        self.step[p] += 1
        early = 0
        if self.every_period[j] > 0 and self.step[p] % self.steps_each[j] == 0:
            early = self.period_ends[p] - self.now
            self.lateness[j].append(max(0, -early))
            self.period_ends[p] += self.every_period[j]
        if self.step[p] < self.steps[j]:
            self.compute(p)
            if early > 0:
                self.sleep(p, early)
            return
        self.leave(p)
        self.unfinished[j] -= 1
        if self.unfinished[j] == 0:
            self.ended.append(j)
            self.has_news = True

    def receive(self, p: int, version: int) -> None:
        if version // MAX_DIMENSIONS != self.lives[p]:
            return  # the process that it was for has ended
        self.arrived[p, version % MAX_DIMENSIONS] += 1
        self.n_arrived[p] += 1
        if not self.waiting[p] or not self.is_answered(p):
            return
        n = self.node[p]
        if self.state[p] == BLOCKED:
            self.state[p] = RUNNABLE
            self.left[p] = 0
            if self.stopped[p] == 0:
                self.enter(p)
        elif self.current[n] == p and self.spinning[p]:
            self.account(n)
            self.spin_left[p] = 0
            self.plan(n)  # it takes the message at once, or when its debt is paid

    def dispatched(self, p: int) -> None:
        """A process that has waited takes its message; the last one, or that of a period, with the CPU."""
        if self.kind[p] != PARALLEL or not self.waiting[p] or not self.is_answered(p):
            return
        if (self.step[p] + 1) % self.steps_each[self.job[p]] != 0:
            self.go_on(p)
        else:
            self.spinning[p] = self.left[p] = 0

    def packets(self, p: int) -> int:
        if self.kind[p] != PARALLEL:
            return 0
        messages = self.n_arrived[p] - self.step[p] + (1 if self.sent[p] > self.now else 0)
        return self.segments[self.job[p]] * max(0, messages)

    def used_in(self, j: int) -> int:
        """What the processes of a job have computed until now, in total."""
        total = 0
        for p in self.members[j]:
            total += self.used[p] if self.state[p] == GONE else self.used_by(p)
        return total

    # -- users and daemons ---------------------------------------------------------------------------------

    def add_user(self, node: int, interaction: int) -> int:
        """A user, whose programs do nothing yet."""
        p = self.add(node, LOCAL, 0, ASLEEP)
        self.paged[p], self.interaction[node] = 0, interaction
        return p

    def set_demand(self, p: int, demand: float) -> None:
        """The user begins or ends to ask for interactions, each when the last one is complete and a time to
        think is over, so that they need `demand` of the CPU."""
        n = self.node[p]
        self.thinks[n] = self.interaction[n] * (1.0 - demand) / demand if demand > 0.0 else -1.0
        if self.state[p] == ASLEEP and not self.paged[p]:
            self.wakes[p] += 1  # no older request
            if demand > 0.0:
                self.ask(p)
                self.state[p] = RUNNABLE
                self.enter(p)

    def ask(self, p: int) -> None:
        self.asked[p] = self.now
        self.left[p] = self.burst[p] = self.interaction[self.node[p]]

    def respond(self, p: int) -> None:
        n = self.node[p]
        self.responses.append((n, self.now - self.asked[p], self.burst[p]))
        if self.thinks[n] > 0.0:
            if self.n_drawn[n] == self.drawn.shape[1]:
                self.draw(n)
            self.n_drawn[n] += 1
            self.sleep(p, int(self.thinks[n] * self.drawn[n, self.n_drawn[n] - 1]))
        elif self.thinks[n] == 0.0:
            self.ask(p)
        else:
            self.state[p] = ASLEEP

    def draw(self, n: int) -> None:
        numbers = self.observer.draws(n)
        if self.drawn.shape[1] != len(numbers):
            self.drawn = np.zeros((self.drawn.shape[0], len(numbers)))
        np.asarray(self.drawn)[n] = numbers
        self.n_drawn[n] = 0

    def add_daemon(self, node: int, nice: int) -> int:
        """A daemon, which takes a sample when it wakes up, and then each period while there are parallel
        processes."""
        p = self.add(node, DAEMON, nice, ASLEEP)
        self.paged[p] = 0
        return p
