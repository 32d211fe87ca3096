"""The problem of rigid jobs on consumable nodes: which of them start now, and on which parts of the nodes?

Also why a job does not fit, as a sentence, and what is left while jobs are started one by one, here and on
identical nodes: the bookkeeping that one-pass algorithms share.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from scheduler.core.arrays import Flags, Ints
from scheduler.core.codes import NODES
from scheduler.free_nodes.consumable_nodes import ConsumableNodes
from scheduler.free_nodes.problem import FreeNodesProblem, FreeRoom
from scheduler.messages import plural, printable, rounded
from scheduler.model import Job, NodeSchedule, RunId, Start
from scheduler.node_request import Request, thousandths
from scheduler.node_resources.core.codes import CHUNKS, FREE, NODE, WHOLE
from scheduler.node_resources.selection import Placement, selection_by_name
from scheduler.node_resources.state import NodeResources, Trial, mistake_in, rows_of, shares_of
from scheduler.node_set import NodeSet
from scheduler.ports import Scheduler
from scheduler.priority.claims import Claimant
from scheduler.problem import Running, SchedulingProblem, first_violation
from scheduler.rules import NODES_FREE, OUTSIDE_RESERVATIONS, WITHIN_LIMITS, AllOthers, Kind, Violation


def room_for(nodes: NodeResources, request: Request) -> str:
    """The request of a job, how many nodes satisfy it, one condition after the other, and what the site
    lacks."""
    kind = nodes.kind_of(request)
    nodes.fits(kind, request.chunks)
    left: Flags = (np.asarray(nodes.kinds.eligible)[kind] != 0) & (np.asarray(nodes.kinds.calendar.up) != 0)
    n_left = int(left.sum())
    features = f" with {' and '.join(sorted(request.features))}" if request.features else ""
    funnel = f"{n_left} {plural(n_left, 'node')} up{request.where}{features}"
    for condition, what in _conditions(nodes, request, kind):
        left = left & condition
        if left.sum() < n_left:  # others exclude no further node
            n_left = int(left.sum())
            funnel += f", of these {n_left} with {what}"
    if request.most_on_node != 1:
        funnel += f"; there is room for {nodes.state.total[kind]} of its {request.chunks} tasks"
    of_site = site_lacks(nodes, request)
    return f"it requests {request}; {funnel}{'' if of_site is None else f'; {of_site}'}"


def site_lacks(nodes: NodeResources, request: Request) -> str | None:
    """What the site has too little of for a job, like "0 of 5 matlab are free, it requests 1".

    None if all its resources suffice. Ties: the first by name.
    """
    for (name, capacity), free in zip(nodes.site_resources.items(), nodes.table.site[FREE], strict=True):
        needs = request.site_resources.get(name, 0)
        if needs > free:
            return f"{free:,} of {capacity:,} {name} are free, it requests {needs:,}"
    return None


def _conditions(nodes: NodeResources, request: Request, kind: int) -> Iterator[tuple[Flags, str]]:
    table = nodes.table
    if request.exclusive:
        yield table.n_chunks == 0, "no other job"
    names = ["free CPUs", "MiB of free memory", *(f"free {name}" for name in nodes.names)]
    for r, name in enumerate(names):
        need = nodes.kinds.need[kind, r]
        if need:
            amount = f"{need / WHOLE:g}" if r == 0 else f"{need:,}"
            yield table.free[:, r] >= need, f"{amount} {name}"
    if request.gpus is not None:
        will_do = table.gpu_type & nodes.kinds.gpu_types[kind] != 0
        n_free = (will_do & (table.gpu_free >= thousandths(request.gpus.share))).sum(axis=1)
        yield n_free >= request.gpus.count, f"{request.gpus} free"


class ConsumableNodesProblem(SchedulingProblem):
    """Which of the jobs start now, and on which parts of `free_nodes`? The answer is a `NodeSchedule`.

    See `SchedulingProblem` for `now_s`, `jobs`, `n_jobs`, `running` and `n_places`.
    """

    kind = Kind.FREE_NODES

    def __init__(
        self, now_s: float, free_nodes: ConsumableNodes, running: Mapping[RunId, Running] | None = None
    ) -> None:
        super().__init__(now_s, free_nodes.waiting, running, free_nodes.n_nodes)
        self.free_nodes = free_nodes

    def arrays(self) -> Mapping[str, Any]:
        free = self.free_nodes
        table, waiting, releases = free.nodes.table, free.waiting, free.releases
        return {
            "capacity": table.capacity,
            "free": table.free,
            "gpu_free": table.gpu_free,
            "n_chunks": table.n_chunks,
            "site": table.site,
            "waiting": np.array([waiting.kinds, waiting.chunks, waiting.estimates_s]),
            "releases": np.array([releases.ends_s, releases.runs]),
        }

    def in_line(self, i: int, starts: Sequence[Start], otherwise: str) -> str:
        """The priority of job i, and the limit for which it waits when these jobs have started."""
        standing = Standing(self.free_nodes)
        for start in starts:
            standing.take(start.job, start.nodes)
        if self.free_nodes.queue.calendar.n or self.free_nodes.nodes.topology is not None:
            room = self.room()
            for start in starts:
                room.take(start)
            if (why := room.obstacle(i)) is not None:
                otherwise = f"{why}; {otherwise}"
        return f"{standing.priority(i)}{standing.limit(i) or otherwise}"

    def room(self, selection: str = "first_fit") -> ConsumableRoom:
        """What is free, for a pass over the jobs."""
        return ConsumableRoom(self, selection)

    def violation(self, answer: object) -> Violation | None:
        state = self.free_nodes.nodes

        standing, queue = Standing(self.free_nodes), self.free_nodes.queue

        def use(i: int, job: Job, start: Start, nodes: NodeSet) -> Violation | None:
            slot = self.free_nodes.waiting.slot_at(i)
            choice = self.free_nodes.choice(slot, start.partition)
            if start.partition and not choice:
                where = f"partition {printable(str(start.partition))}"
                return Violation(
                    NODES_FREE, job.id, f"job {job.id} cannot start in {where}: it has no such choice"
                )
            queue.choose_partition(slot, choice)
            try:
                return use_there(i, job, start, nodes)
            finally:
                queue.choose_partition(slot, 0)

        def use_there(i: int, job: Job, start: Start, nodes: NodeSet) -> Violation | None:
            kind, chunks = self.free_nodes.waiting.request_of(i)
            if (limit := standing.limit(i, nodes)) is not None:
                return Violation(WITHIN_LIMITS, job.id, f"job {job.id} cannot start: {limit}")
            shut = self.free_nodes.in_the_way(i, self.now_s) if self.free_nodes.queue.calendar.n else {}
            if (n := next((n for n in nodes if n in shut), None)) is not None:
                until_s = self.now_s + self.free_nodes.waiting.estimate_s(i)
                message = (
                    f"job {job.id} cannot start on node {n}, where it is expected to run until "
                    f"{until_s:,.10g} s: there is {shut[n]}"
                )
                return Violation(OUTSIDE_RESERVATIONS, job.id, message)
            standing.take(i, nodes)
            lacking = site_lacks(state, state.request_of(kind, chunks)) if state.site_resources else None
            if lacking is not None:
                return Violation(NODES_FREE, job.id, f"job {job.id} cannot start: {lacking}")
            if not start.shares:
                used = state.divided(kind, chunks, nodes)
                if used is None:
                    return Violation(NODES_FREE, job.id, f"job {job.id} does not fit on nodes {nodes}")
            else:
                why = mistake_in(start.shares, len(state.all))
                used = rows_of(() if why else start.shares)
                why = why or state.why_not(kind, chunks, used)
                if why is None and {share.node for share in start.shares} != set(nodes):
                    why = f"its shares are on other nodes than {nodes}"
                if why is not None:
                    return Violation(NODES_FREE, job.id, f"job {job.id} cannot start on nodes {nodes}: {why}")
            there = np.bincount(used[:, NODE], used[:, CHUNKS], len(state.all)).astype(np.int64)
            if (why := state.unconnected(kind, chunks, there)) is not None:
                return Violation(NODES_FREE, job.id, f"job {job.id} cannot start on nodes {nodes}: {why}")
            trial.take(kind, used)
            return None

        with Trial(state.state) as trial:
            return first_violation(self, answer, use)


FreeNodesScheduler = Scheduler[FreeNodesProblem | ConsumableNodesProblem, NodeSchedule]
"""A scheduler for nodes; one for identical nodes gets problems of the first kind only."""


class Standing:
    """How far jobs are from the limits of the site's policy, with those that start in a pass."""

    def __init__(self, nodes: ConsumableNodes) -> None:
        self._waiting, self._of = nodes.waiting, nodes.claims
        self._started: defaultdict[int, float] = defaultdict(float)
        self._nodes: defaultdict[int, set[int]] = defaultdict(set)
        """By limit of nodes, those on which jobs start for which it does not count yet."""

    @property
    def keys(self) -> Ints:
        """(n,) a number for each job, 0 without a policy."""
        slots = self._waiting.slots
        return slots * 0 if self._of is None else slots

    def limit(self, i: int, nodes: Iterable[int] = ()) -> str | None:
        """The limit for which job i has to wait, on these nodes or without any on all, in Slurm's words and
        in figures; None if it does not."""
        if self._of is None:
            return None
        limits = self._of.service.limits
        for limit, amount, _, binds in limits.table(limits.claim[self._waiting.slot_at(i)]):
            started = self._started[limit] + len(self._nodes[limit])
            if limits.bounds[limit] == NODES and (there := {*nodes}):
                amount = len(self._new(limit, there) - self._nodes[limit])
            if binds and limits.exceeds(limit, started + amount):
                used = limits.used[limit] + limits.past[limit] + started
                reason, whose = self._of.reasons[limit]
                figures = (
                    f"{rounded(used)} of {rounded(limits.most[limit])} in use, it adds {rounded(amount)}"
                )
                return f"it waits for {reason} of {whose}: {figures}"
        return None

    def priority(self, i: int) -> str:
        """The priority of job i with its factors, as the beginning of a sentence; empty without a policy."""
        if self._of is None or self._of.policy.multifactor is None:
            return ""
        job, slot = self._waiting[i], self._waiting.slot_at(i)
        assert job.request is not None
        factors = self._of.factors(slot, Claimant.of(job), job.request, job.estimate_s)
        named = [f"{name.replace('_', ' ')} {value:,.0f}" for name, value in factors.items() if value]
        of_factors = f" ({', '.join(named)})" if named else ""
        return f"priority {self._of.service.priority(slot):,}{of_factors}; "

    def _new(self, limit: int, nodes: Iterable[int]) -> set[int]:
        """Those of the nodes that do not count yet for a limit of nodes."""
        assert self._of is not None
        on = np.asarray(self._of.service.limits.on)[limit]
        return {n for n in nodes if not on[n]}

    def take(self, i: int, nodes: Iterable[int]) -> None:
        """Count a job that starts on some nodes."""
        if self._of is not None:
            limits = self._of.service.limits
            for limit, _, counted, _ in limits.table(limits.claim[self._waiting.slot_at(i)]):
                self._started[limit] += counted
                if limits.bounds[limit] == NODES:
                    self._nodes[limit] |= self._new(limit, nodes)


class ConsumableRoom:
    """What is free, less what jobs got in a pass: a copy, so that the problem does not change. Costs O(N)."""

    FIRST = "first; "
    """The prefix of the wait reason of the first job, which has a reservation."""

    def __init__(self, problem: ConsumableNodesProblem, selection: str) -> None:
        self._problem, self._waiting = problem, problem.free_nodes.waiting
        self._nodes = problem.free_nodes.nodes.alongside()
        self._placement = Placement(self._nodes, selection_by_name(selection))
        self._standing = Standing(problem.free_nodes)

    def limit(self, i: int) -> str | None:
        """The limit for which job i has to wait, or its own reservation, whatever is free otherwise."""
        limit = self._standing.limit(i)
        if limit is None and self._nodes.kinds.own(self._waiting.request_of(i)[0]):
            limit = self.obstacle(i)
        return limit

    def obstacle(self, i: int) -> str | None:
        """The reservation, or the switches, for which job i has to wait, in words; None if it does not, or
        does not fit anyway."""
        shut, (kind, chunks), state = self._shut_for(i), self._waiting.request_of(i), self._nodes.state
        with self._without(i) as fits:
            if fits or not shut:
                has_room = not fits and state.total[kind] >= chunks
                why = self._nodes.unconnected(kind, chunks, state.fit[kind]) if has_room else None
                what = f"it requests {self._nodes.request_of(kind, chunks)}, for which there is room"
                return why and f"{what}, but {why}"
        if self._nodes.kinds.own(kind) or self._nodes.fits(kind, chunks):
            there = [n for n in shut if self._nodes.state.fit[kind, n]]
            return f"it waits for {shut[min(there or shut)]}"
        return None

    def _shut_for(self, i: int) -> dict[int, str]:
        return self._problem.free_nodes.in_the_way(i, self._problem.now_s)

    def _without(self, i: int) -> AbstractContextManager[bool]:
        """Whether job i fits; within this context, nothing of its kind does where a reservation is in the
        way."""
        shut, request = self._shut_for(i), self._waiting.request_of(i)
        if not shut:
            return nullcontext(self._nodes.fits(*request))
        return self._nodes.keeping_out(*request, np.array([*shut]))

    def fits(self, i: int) -> bool:
        with self._without(i) as fits:
            return fits and self.limit(i) is None

    def requests(self) -> list[tuple[int, int, int]]:
        """A key of the request of each job, equal for equal requests; under a policy each has its own, as
        where nodes are reserved."""
        columns = self._waiting.kinds, self._waiting.chunks, self._standing.keys
        if self._problem.free_nodes.queue.calendar.n:
            columns = *columns[:2], self._waiting.slots
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def sentence(self, i: int) -> str:
        """The limit that job i has reached; or what it requests, and what is free. First its priority."""
        why = (
            self.limit(i)
            or self.obstacle(i)
            or room_for(self._nodes, self._nodes.request_of(*self._waiting.request_of(i)))
        )
        return f"{self._standing.priority(i)}{why}"

    def take(self, start: Start) -> None:
        """Take what a job that starts uses."""
        kind, _ = self._waiting.request_of(start.job)
        self._standing.take(start.job, start.nodes)
        self._nodes.state.take_all_of(kind, rows_of(start.shares))

    def start(self, i: int) -> Start:
        with self._without(i):
            used = self._placement.place(*self._waiting.request_of(i))
        if used is None:
            raise ValueError(f"job {self._problem.jobs[i].id} does not fit: {self.sentence(i)}")
        nodes = NodeSet.of(set(used[:, NODE].tolist()))
        self._standing.take(i, nodes)
        return Start(i, nodes, self._problem.now_s + self._waiting.estimate_s(i), shares_of(used))


class Placer:
    """One pass that starts jobs on free nodes; all other jobs wait.

    Ask `fits(i)` and call `start(i)` for job i of the problem, and return `schedule(reason)`. Of identical
    nodes a job gets those with the lowest numbers, of consumable nodes those that the node selection prefers
    (a name like `best_fit`).
    """

    def __init__(
        self, problem: FreeNodesProblem | ConsumableNodesProblem, selection: str = "first_fit"
    ) -> None:
        self._n_jobs = len(problem.free_nodes.waiting)
        self._starts: list[Start] = []
        self._room = problem.room(selection)

    @property
    def n_free(self) -> int:
        """The identical nodes that are free, less those assigned in this pass. Raises AttributeError for
        consumable nodes: see `fits`."""
        if not isinstance(self._room, FreeRoom):
            raise AttributeError("consumable nodes have no n_free; ask fits(i)")
        return self._room.n_free

    def fits(self, i: int) -> bool:
        """Whether job i fits now, in addition to those started in this pass."""
        return self._room.fits(i)

    def start(self, i: int) -> None:
        """Start job i now. Raises ValueError if it does not fit."""
        self._starts.append(self._room.start(i))

    def schedule(self, reason: str, in_detail: Callable[[int], str] | None = None) -> NodeSchedule:
        """The jobs started; the others wait for `reason`, or for job i in detail `in_detail(i)`."""
        starts = tuple(self._starts)
        return NodeSchedule(starts, AllOthers(self._n_jobs, starts, reason, in_detail))
