"""Runs that are suspended for others, and when they continue, as Slurm's gang scheduler has it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from scheduler.managers.displacement import Displacement
from scheduler.model import RunId
from scheduler.node_resources.core.codes import CORES
from scheduler.priority.core.service import ByPolicy


class _Suspended(NamedTuple):
    """A suspended run: the kind of its request, its CPUs in thousandths by node, since when it is suspended,
    and for how long it was expected to run then."""

    kind: int
    cpus: dict[int, int]
    since_s: float
    left_s: float


class Suspension:
    """A run that is suspended keeps all but its CPUs, which it has lent for the next decision, in which the
    job starts for which it is suspended. After that it claims them: none of them is free to others than
    those that may displace it, and it continues once all are free.

    On a node where several wait for CPUs, those continue first that would be displaced last."""

    def __init__(self, displacement: Displacement) -> None:
        self._displacement, self._queue = displacement, displacement.queue
        self._suspended: dict[RunId, _Suspended] = {}
        self.lending: dict[RunId, None] = {}
        """Those that have lent their CPUs, until the next decision."""

    def suspend(self, run: RunId, now_s: float) -> None:
        """Note that a run is suspended, or that a suspended one lends its CPUs again."""
        q, slot = self._queue, self._displacement.runs[run].slot
        if run not in self._suspended:
            left_s = float(q.end_s[slot] - now_s)
            self._suspended[run] = _Suspended(q.kind[slot], self._cpus(run), now_s, left_s)
            if isinstance(q.service, ByPolicy):
                q.service.fair.ends(slot, now_s)
        kept = self._displacement.nodes.kept_kind(q.kind[slot])
        self._displacement.hold_as(run, kept, now_s + self._suspended[run].left_s)
        self.lending[run] = None

    def reclaim(self, started: Iterable[RunId], now_s: float) -> list[RunId]:
        """After a decision, which has `started` runs: what was lent is claimed by those that lent it. Returns
        the runs that have CPUs which they may not take from suspended ones: they must not begin."""
        if not self.lending:
            return []
        lent, self.lending = self.lending, {}
        for run in lent:
            self._displacement.hold_as(run, self._suspended[run].kind, now_s)
        begin, displaces = {run: self._cpus(run) for run in started}, self._displacement.may_displace
        given_back, in_the_way = Counter[int](), list[RunId]()
        for run, cpus in reversed(begin.items()):
            may_take = Counter[int](given_back)
            for other, each in self._suspended.items():
                may_take.update(each.cpus if displaces(run, other) else {})
            if any(self._free(n) + may_take[n] < 0 for n in cpus):
                in_the_way.append(run)
                given_back.update(cpus)
        for run in lent:
            mine = self._suspended[run]
            after_s = [
                float(self._queue.end_s[self._displacement.runs[other].slot] - now_s)
                for other in begin.keys() - set(in_the_way)
                if displaces(other, run) and begin[other].keys() & mine.cpus.keys()
            ]
            self._displacement.hold_as(run, mine.kind, now_s + max(after_s, default=0.0) + mine.left_s)
            if not after_s:
                self._displacement.pass_over(run)
        return in_the_way

    def continued(self, now_s: float) -> list[RunId]:
        """The runs that continue now, which are no longer suspended."""
        if not self._suspended or self.lending:
            return []
        found, room = list[RunId](), dict[int, int]()
        for each in self._suspended.values():
            for n, cpus in each.cpus.items():
                room[n] = room.get(n, self._free(n)) + cpus
        claimed_from = defaultdict[int, Counter[int]](Counter)  # by class: what those claim that displace it
        for run in self._displacement.first_to_go_on(self._suspended):
            each, (of, below) = self._suspended[run], self._displacement.classes_of(run)
            if any(room[n] - claimed_from[of][n] < cpus for n, cpus in each.cpus.items()):
                for lower in below:
                    claimed_from[lower].update(each.cpus)
                continue
            found.append(run)
            for n, cpus in each.cpus.items():
                room[n] -= cpus
        for run in found:
            each = self.forget(run, now_s)
            self._displacement.hold_as(run, each.kind, now_s + each.left_s)
        return found

    def forget(self, run: RunId, now_s: float) -> _Suspended:
        """A suspended run continues, or is over."""
        self.lending.pop(run, None)
        each = self._suspended.pop(run)
        slot = self._displacement.runs[run].slot
        self._queue.pause(slot, now_s - each.since_s)
        self._queue.service.begins(slot, now_s)
        return each

    def __contains__(self, run: RunId) -> bool:
        return run in self._suspended

    def _free(self, n: int) -> int:
        return int(self._displacement.nodes.table.free[n, CORES])

    def _cpus(self, run: RunId) -> dict[int, int]:
        """The CPUs that a run has of each node, in thousandths."""
        q, nodes, slot = self._queue, self._displacement.nodes, self._displacement.runs[run].slot
        found, kinds, kind = Counter[int](), nodes.kinds, q.kind[slot]
        for n, chunks, _ in q.held.table(q.first_row[slot]).tolist():
            is_whole = kinds.exclusive[kind]
            found[n] += nodes.table.capacity[n, CORES] if is_whole else chunks * kinds.need[kind, CORES]
        return found
