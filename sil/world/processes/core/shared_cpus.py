"""The CPUs of nodes, which their processes share as the operating system's scheduler decides, and events."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scheduler.core.arrays import MIN_SIZE, floats, integers, larger, nones
from scheduler.core.heap import Heap
from scheduler.coscheduling.core.dynamic_priority import DynamicPriority
from sil.world.processes.core.codes import (
    CFS,
    CPU,
    DAEMON,
    GONE,
    LATENCY,
    LATENCY_TASKS,
    MIN_GRANULARITY,
    NEVER,
    NICE_0,
    NO_PROCESS,
    RUNNABLE,
    SECOND,
    TICK,
    WAKEUP_GRANULARITY,
    WEIGHTS,
)


class PendingEvents:
    """Events of a kind, each with a subject and a version; simultaneous ones are first in, first out.

    Times are whole nanoseconds, which are exact for 104 days (2^53).
    """

    def __init__(self) -> None:
        self.heap, self.pushed = Heap(MIN_SIZE), 0
        self.free, self.n_free, self.n_used = integers(MIN_SIZE), 0, 0
        self.kind, self.subject, self.version = integers(MIN_SIZE), integers(MIN_SIZE), integers(MIN_SIZE)

    def make_room(self) -> None:
        n = 2 * self.n_used
        self.heap.make_room(n)
        self.free, self.kind = larger(self.free, n), larger(self.kind, n)
        self.subject, self.version = larger(self.subject, n), larger(self.version, n)

    def push(self, time: int, kind: int, subject: int, version: int) -> None:
        if self.n_free > 0:
            self.n_free -= 1
            x = self.free[self.n_free]
        else:
            if self.n_used == self.free.shape[0]:
                self.make_room()
            x = self.n_used
            self.n_used += 1
        self.kind[x], self.subject[x], self.version[x] = kind, subject, version
        self.pushed += 1
        self.heap.push(x, time, self.pushed)

    def pop(self) -> int:
        """The row of the first event, of which there must be one; valid until the next push."""
        x = self.heap.pop()
        self.free[self.n_free] = x
        self.n_free += 1
        return x


_OF_PROCESSES = (
    *("node", "kind", "next", "state", "stopped", "nice", "counter", "left", "debt", "spinning", "spin_left"),
    *("used", "spun", "place", "share", "virtual", "every", "granted", "budget", "due"),
)


def grow(owner: object, names: Iterable[str], size: int) -> None:
    """Replace arrays, the attributes of these names, by larger ones."""
    for name in names:
        setattr(owner, name, larger(getattr(owner, name), size))


class SharedCpus:
    """One CPU on each node. Subclasses say what a process does when what it computes is complete.

    A process computes for `left`, or spins for `spin_left`, after its `debt` for a context switch is paid.
    `policy` is LINUX_2_4: in an epoch each process has a quantum, `counter`, and the one with the largest
    counter + 20 - nice runs (goodness); when all ready ones have used theirs, all get half of what they have
    left and a new base quantum. It preempts when another wakes up with a larger sum. Or CFS: the process with
    the least virtual run time runs, for a share of 6 ms by its weight. The use of the CPU is accounted for
    exactly, not by samples at the ticks of a timer. A process with a reservation comes first while it has a
    `budget`, which is `granted` anew for each of its periods; of several, the one that is `due` first. When
    it is used up, it is one of the others until its period ends. Switches cost no budget.

    Sources: kernel/sched.c of Linux 2.4.18 (schedule, goodness, reschedule_idle); kernel/sched/fair.c of
    Linux 5 (sched_slice, place_entity, wakeup_preempt_entity); Liu and Layland, "Scheduling algorithms for
    multiprogramming in a hard-real-time environment", JACM 20 (1973), section 7 (earliest deadline first).
    """

    def __init__(self, n_nodes: int, policy: int, costs: tuple[int, int], dynamic: DynamicPriority) -> None:
        self.policy, self.dynamic = policy, dynamic
        self.switch_cost, self.reload_cost = costs
        self.now, self.entered, self.deciding = 0, 0, NO_PROCESS
        self.events, self.weights = PendingEvents(), np.array(WEIGHTS, np.float64)
        self.current, self.last, self.cached = nones(n_nodes), nones(n_nodes), nones(n_nodes)
        self.since, self.version, self.ran = integers(n_nodes), integers(n_nodes), integers(n_nodes)
        self.first, self.idle, self.overhead = nones(n_nodes), integers(n_nodes), integers(n_nodes)
        self.least_virtual = floats(n_nodes)
        self.n_reserved, self.by_deadline, self.renewal = (integers(n_nodes) for _ in range(3))
        self.spare, self.n_rows = NO_PROCESS, 0
        n = MIN_SIZE
        self.node, self.kind, self.next, self.state = integers(n), integers(n), integers(n), integers(n)
        self.stopped, self.nice, self.counter = integers(n), integers(n), integers(n)
        self.left, self.debt, self.spinning, self.spin_left = (integers(n) for _ in range(4))
        self.used, self.spun, self.place = integers(n), integers(n), integers(n)
        self.share, self.virtual = floats(n), floats(n)
        self.every, self.granted, self.budget, self.due = (integers(n) for _ in range(4))

    def make_room(self) -> None:
        grow(self, _OF_PROCESSES, 2 * self.n_rows)

    # -- processes -----------------------------------------------------------------------------------------

    def add(self, node: int, kind: int, nice: int, state: int) -> int:
        """A new process, in its first epoch. Returns its row."""
        if self.spare == NO_PROCESS:
            if self.n_rows == self.node.shape[0]:
                self.make_room()
            p = self.n_rows
            self.n_rows += 1
        else:
            p = self.spare
            self.spare = self.next[p]
        self.node[p], self.kind[p], self.nice[p], self.state[p] = node, kind, nice, state
        self.next[p], self.first[node] = self.first[node], p
        self.stopped[p] = self.left[p] = self.debt[p] = self.spinning[p] = self.used[p] = self.spun[p] = 0
        self.granted[p] = self.budget[p] = 0
        self.share[p], self.virtual[p] = 1.0, self.least_virtual[node]
        self.counter[p] = self.base_quantum(p)
        return p

    def remove(self, p: int) -> None:
        """A process ends."""
        n, x = self.node[p], self.first[self.node[p]]
        self.account(n)
        self.state[p] = GONE
        if self.granted[p] > 0:
            self.n_reserved[n] -= 1
        if x == p:
            self.first[n] = self.next[p]
        else:
            while self.next[x] != p:
                x = self.next[x]
            self.next[x] = self.next[p]
        if self.cached[n] == p:
            self.cached[n] = NO_PROCESS
        if self.last[n] == p:
            self.last[n] = NO_PROCESS
        if self.current[n] == p and self.deciding != n:
            self.schedule(n)

    def reuse(self, p: int) -> None:
        """The row of a process that has ended may be that of another one."""
        self.next[p], self.spare = self.spare, p

    def set_nice(self, p: int, nice: int) -> None:
        self.account(self.node[p])
        self.nice[p] = nice
        self.reconsider(self.node[p])

    def set_quantum_share(self, p: int, share: float) -> None:
        """Multiply the base quantum of a process, or its weight, by this."""
        self.account(self.node[p])
        self.share[p] = share
        self.reconsider(self.node[p])

    def reserve(self, p: int, share: float, period_s: float) -> None:
        """Let a process that has none have a reservation, whose first period begins now."""
        n = self.node[p]
        self.account(n)
        self.every[p] = int(period_s * SECOND)
        self.granted[p] = self.budget[p] = max(1, int(share * period_s * SECOND))
        self.due[p] = self.now + self.every[p]
        self.n_reserved[n] += 1
        if self.deciding != n:
            self.schedule(n)

    def stop(self, p: int) -> None:
        n = self.node[p]
        self.account(n)
        self.stopped[p] = 1
        if self.current[n] == p and self.deciding != n:
            self.schedule(n)

    def resume(self, p: int) -> None:
        """Let a stopped process continue."""
        self.stopped[p] = 0
        if self.state[p] == RUNNABLE:
            self.enter(p)

    def used_by(self, p: int) -> int:
        """The nanoseconds that a process has computed until now, without spinning."""
        self.account(self.node[p])
        return self.used[p]

    # -- a CPU ---------------------------------------------------------------------------------------------

    def account(self, n: int) -> None:
        """Account for what the CPU has done since the last call."""
        elapsed, p = self.now - self.since[n], self.current[n]
        self.since[n] = self.now
        if elapsed == 0:
            return
        if p == NO_PROCESS:
            self.idle[n] += elapsed
            return
        self.ran[n] += elapsed
        self.counter[p] = max(0, self.counter[p] - elapsed)
        self.virtual[p] += elapsed * NICE_0 / self.weight(p)
        paid = min(self.debt[p], elapsed)
        self.debt[p] -= paid
        self.overhead[n] += paid
        if self.spinning[p]:
            self.spin_left[p] -= elapsed - paid
            self.spun[p] += elapsed - paid
        else:
            self.left[p] -= elapsed - paid
            self.used[p] += elapsed - paid
        self.budget[p] = max(0, self.budget[p] - elapsed + paid)

    def plan(self, n: int) -> None:
        """Set the time at which the CPU has to be looked at again."""
        self.version[n] += 1
        p = self.current[n]
        if p == NO_PROCESS:
            return
        until = self.debt[p] + (self.spin_left[p] if self.spinning[p] else self.left[p])
        self.events.push(self.now + max(0, min(until, self.quantum_left(n))), CPU, n, self.version[n])

    def look_at(self, n: int, version: int) -> None:
        """What the CPU does is complete, or the quantum is used up."""
        if version != self.version[n]:
            return
        self.account(n)
        p = self.current[n]
        if self.debt[p] == 0 and (self.spin_left[p] if self.spinning[p] else self.left[p]) == 0:
            self.deciding = n
            self.complete(p)
            self.deciding = NO_PROCESS
        if self.runs(p) and self.quantum_left(n) > 0:
            self.plan(n)
        else:
            self.schedule(n)

    def complete(self, p: int) -> None:
        """A process has computed or spun for as long as it was to."""

    def dispatched(self, p: int) -> None:
        """A process gets the CPU."""

    def schedule(self, n: int) -> None:
        p = self.pick_by_deadline(n) if self.n_reserved[n] > 0 else NO_PROCESS
        self.by_deadline[n] = p != NO_PROCESS
        if p == NO_PROCESS:
            p = self.pick_fair(n) if self.policy == CFS else self.pick_by_epochs(n)
        if p != self.current[n] or self.quantum_left(n) <= 0:
            self.ran[n] = 0
        self.current[n] = p
        if p != NO_PROCESS:
            if self.last[n] != p:
                if self.last[n] != NO_PROCESS:
                    self.debt[p] = self.switch_cost
                    if self.kind[p] != DAEMON and self.cached[n] != p:
                        self.debt[p] += self.reload_cost
                self.last[n] = p
            if self.kind[p] != DAEMON:
                self.cached[n] = p
            self.dispatched(p)
        self.plan(n)

    def enter(self, p: int) -> None:
        """A process is ready again, and may preempt another one."""
        n = self.node[p]
        self.account(n)
        self.entered += 1
        self.place[p] = self.entered
        if self.granted[p] > 0:
            self.renew(p)
            self.budget[p] = max(1, self.budget[p])  # it may take what it has waited for
        now_runs = self.current[n]
        if self.policy == CFS:
            self.virtual[p] = max(self.virtual[p], self.least(n, p) - 0.5 * LATENCY)
        if self.deciding == n:
            return  # which process is next is about to be decided
        if now_runs == NO_PROCESS or self.preempts(p, now_runs):
            self.schedule(n)
        else:
            self.reconsider(n)

    def reconsider(self, n: int) -> None:
        """Shares of time depend on which processes are ready."""
        if (self.policy == CFS or self.n_reserved[n] > 0) and self.deciding != n:
            self.plan(n)

    def runs(self, p: int) -> bool:
        return self.state[p] == RUNNABLE and self.stopped[p] == 0

    def packets(self, p: int) -> int:
        """The packets pending in the socket queues of a process."""
        return 0

    def preempts(self, p: int, now_runs: int) -> bool:
        """Whether a process that wakes up preempts the one that runs."""
        if self.by_deadline[self.node[p]]:
            return self.budget[p] > 0 and self.due[p] < self.due[now_runs]
        if self.budget[p] > 0:
            return True
        if self.policy == CFS:
            lead = self.rank(now_runs) - self.rank(p)
            return lead > WAKEUP_GRANULARITY * NICE_0 / self.weight(p)
        return self.goodness(p) > self.goodness(now_runs)

    def quantum_left(self, n: int) -> int:
        p = self.current[n]
        if p == NO_PROCESS:
            return 0
        if self.by_deadline[n]:
            left = self.budget[p]
        else:
            left = self.slice_of(n, p) - self.ran[n] if self.policy == CFS else self.counter[p]
        return min(left, self.renewal[n] - self.now) if self.n_reserved[n] > 0 else left

    # -- reservations --------------------------------------------------------------------------------------

    def renew(self, p: int) -> None:
        """The budget of a process whose period is over is granted again: until the end of the current one."""
        if self.now >= self.due[p]:
            self.due[p] = self.now + self.every[p] - (self.now - self.due[p]) % self.every[p]
            self.budget[p] = self.granted[p]

    def pick_by_deadline(self, n: int) -> int:
        """The process with a budget whose period ends first, if one is ready; of equals the one that runs."""
        best, p = NO_PROCESS, self.first[n]
        self.renewal[n] = NEVER
        while p != NO_PROCESS:
            if self.granted[p] > 0 and self.runs(p):
                self.renew(p)
                if self.budget[p] == 0:
                    self.renewal[n] = min(self.renewal[n], self.due[p])
                elif best == NO_PROCESS or self.due[p] < self.due[best] + (p == self.current[n]):
                    best = p
            p = self.next[p]
        return best

    # -- epochs --------------------------------------------------------------------------------------------

    def base_quantum(self, p: int) -> int:
        """NICE_TO_TICKS, 60 ms at a nice value of 0, times the share; at least one tick."""
        quantum = (((20 - self.nice[p]) >> 2) + 1) * TICK
        return max(TICK, int(quantum * self.share[p]))

    def goodness(self, p: int) -> int:
        """The dynamic priority, of whole ticks, with the bonus of coscheduling; 0 for a used-up quantum."""
        if self.counter[p] == 0:
            return 0
        ticks = (self.counter[p] + TICK - 1) // TICK
        return max(1, ticks + 20 - self.nice[p] + self.dynamic.bonus(self.packets(p)))

    def pick_by_epochs(self, n: int) -> int:
        """The best process; of equals the one that runs, then the one that became ready last."""
        while True:
            best, most = NO_PROCESS, -1
            p = self.first[n]
            while p != NO_PROCESS:
                if self.runs(p):
                    good = self.goodness(p)
                    if good > most or (good == most and self.is_before(n, p, best)):
                        best, most = p, good
                p = self.next[p]
            if most != 0:
                return best
            p = self.first[n]
            while p != NO_PROCESS:
                self.counter[p] = self.counter[p] // 2 + self.base_quantum(p)
                p = self.next[p]

    def is_before(self, n: int, p: int, q: int) -> bool:
        if p == self.current[n] or q == self.current[n]:
            return p == self.current[n]
        return self.place[p] > self.place[q]

    # -- fair shares ---------------------------------------------------------------------------------------

    def weight(self, p: int) -> float:
        return self.weights[self.nice[p] + 20] * self.share[p]

    def rank(self, p: int) -> float:
        """Virtual run time; each unit of the bonus of coscheduling is worth 1 ms."""
        return self.virtual[p] - WAKEUP_GRANULARITY * self.dynamic.bonus(self.packets(p))

    def least(self, n: int, wakes_up: int) -> float:
        """The least virtual run time of the processes that were ready before; it never decreases."""
        least, p = -1.0, self.first[n]
        while p != NO_PROCESS:
            if p != wakes_up and self.runs(p) and (least < 0.0 or self.virtual[p] < least):
                least = self.virtual[p]
            p = self.next[p]
        self.least_virtual[n] = max(self.least_virtual[n], least)
        return self.least_virtual[n]

    def slice_of(self, n: int, p: int) -> int:
        """The time until another process is to run."""
        total, n_ready, q = 0.0, 0, self.first[n]
        while q != NO_PROCESS:
            if self.runs(q):
                total += self.weight(q)
                n_ready += 1
            q = self.next[q]
        if n_ready == 0:
            return 0
        period = n_ready * MIN_GRANULARITY if n_ready > LATENCY_TASKS else LATENCY
        return max(MIN_GRANULARITY, int(period * self.weight(p) / total))

    def pick_fair(self, n: int) -> int:
        self.least(n, NO_PROCESS)
        best, p = NO_PROCESS, self.first[n]
        while p != NO_PROCESS:
            if self.runs(p):
                lead = self.rank(best) - self.rank(p) if best != NO_PROCESS else 1.0
                if lead > 0.0 or (lead == 0.0 and self.is_before(n, p, best)):
                    best = p
            p = self.next[p]
        return best
