"""Which runs are stopped so that other jobs fit on consumable nodes, and until when."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from math import inf
from typing import NamedTuple

import numpy as np

from scheduler.core.codes import NONE
from scheduler.managers.precedence import Precedence
from scheduler.model import JobId, RunId
from scheduler.node_resources.core.codes import NODE
from scheduler.node_resources.core.easy import Shadow
from scheduler.node_resources.core.on_nodes import OnNodes
from scheduler.node_resources.state import NodeResources, Trial
from scheduler.priority.policy import Preempted, PreemptMode


class Stops:
    """Runs that are being stopped, by the job that needs their nodes.

    The runs stopped for one job are over together, with the last of them: a scheduler that is called in
    between cannot give some of their nodes to another job."""

    def __init__(self) -> None:
        self.job_of: dict[RunId, JobId] = {}
        """The job that needs the nodes of each run that is being stopped."""
        self._expected: dict[JobId, set[RunId]] = {}
        """The runs that are not over, by job."""
        self._held_back: dict[JobId, list[RunId]] = {}
        """The runs that stopped before the last one, by job."""

    @property
    def jobs(self) -> Iterable[JobId]:
        """The jobs for which runs are being stopped, in order of the first order for each."""
        return self._expected

    def order(self, job: JobId, runs: Iterable[RunId]) -> None:
        """Note that these runs are to stop for a job for which none is being stopped."""
        self._expected[job], self._held_back[job] = set(runs), []
        self.job_of |= dict.fromkeys(runs, job)

    def over(self, run: RunId, is_stopped: bool) -> tuple[JobId | None, list[RunId]]:
        """Note that a run was stopped, or is over for another reason.

        Returns the job for which all runs are over now, if any, and the stopped runs that are over now."""
        job = self.job_of.get(run)
        if job is None:
            return None, [run] if is_stopped else []
        expected, held_back = self._expected[job], self._held_back[job]
        expected.discard(run)
        if is_stopped:
            held_back.append(run)
        else:
            del self.job_of[run]
            held_back[:] = [other for other in held_back if other != run]
        if expected:
            return None, []
        del self._expected[job], self._held_back[job]
        for stopped in held_back:
            del self.job_of[stopped]
        return job, held_back


class RunOnNodes(NamedTuple):
    """A run that holds nodes: its slot, its class, its place in the order of starts, when it began, and its
    rank among those that are displaced."""

    slot: int
    of: int
    place: int
    began_s: float
    rank: tuple[int, ...]


class Displacement:
    """Finds the runs to stop for waiting jobs of classes that displace others.

    A job that does not fit, but would without some runs of the classes that its class displaces, displaces
    those of the lowest rank, by default the most recently started ones (ties: the higher run id), until it
    fits, except those without which it fits as well (of several, the last in this order are kept). Jobs are
    considered in order of service, and displace no run before it has run for as long as it is exempt.

    * What is being stopped counts as free, and what the job needs for which it is stopped counts as taken.
    * A scheduler may prefer other jobs. So a job that would have fitted if the last decision had not started
      others displaces none of these; and once all runs stopped for a job are over, it displaces none that
      start later. Both hold for jobs served after it, too, until it starts or a job served before it does.
      Without that, a displaced job and a displacing one could start and wait in turn without end.
    * A run that is to be suspended keeps what it has but for its CPUs.

    Whether a job would fit without any of these runs is known from a second state of the nodes; only if it
    would, the runs are looked through.
    """

    def __init__(self, queue: OnNodes, nodes: NodeResources, precedence: Precedence) -> None:
        """`nodes` have the state of those of the queue."""
        self.queue, self.nodes, self.precedence = queue, nodes, precedence
        sets = precedence.displaced_by
        groups = {classes: DisplacedRuns(queue, classes, self.kept) for classes in sets.values()}
        self._groups = list(groups.values())
        self._displaced_by = {of: groups[classes] for of, classes in sets.items()}
        self._stops = Stops()
        self._shadow = Shadow(queue.nodes)
        self.runs: dict[RunId, RunOnNodes] = {}
        """Those that hold nodes."""
        self._latest = 0
        """The place of the run that began last."""
        self._decided = 0
        """That of the one that had begun last before the present decision."""
        self._latest_for: dict[JobId, int] = {}
        """The place of the last run that a waiting job, or one served after it, may displace."""
        self.again_s = inf
        """When a run is no longer exempt that a job would displace."""

    def begin(self, slot: int, since_s: float, now_s: float) -> None:
        """Note that the job in a slot, which has waited since `since_s`, has taken its nodes."""
        q, self._latest = self.queue, self._latest + 1
        (of,) = self.precedence.of(q, np.array([slot])).tolist()
        rank = self.precedence.rank(of, {*q.held.table(q.first_row[slot])[:, NODE].tolist()})
        self.runs[RunId(q.run[slot])] = RunOnNodes(slot, of, self._latest, now_s, rank)
        for group in self._groups:
            group.begin(slot, of)
        key, before = self._key(slot, since_s), self._latest_for
        self._latest_for = {
            job: before[job]
            for job, other in self._waiting(before).items()
            if self._key(other, q.began_s[other]) < key
        }

    def _key(self, slot: int, since_s: float) -> tuple[int, int, float, int]:
        """The place of a job in order of service: the rank of its queue, its negative priority, since when it
        waits, and its number."""
        q = self.queue
        return q.rank[slot], -q.priority_of(slot), since_s, q.job[slot]

    def _waiting(self, jobs: Iterable[JobId]) -> dict[JobId, int]:
        """The slots of those of some jobs that wait."""
        places = ((job, self.queue.place_of(job)) for job in jobs)
        return {job: self.queue.in_order[x] for job, x in places if x != NONE}

    def end(self, run: RunId) -> None:
        """Note that a run is about to give back its nodes."""
        slot = self.runs[run].slot
        for group in self._groups:
            group.end(slot)
        del self.runs[run]

    def how(self, run: RunId) -> Preempted:
        """How a run is stopped; one that has given back its nodes is about to end."""
        return self.precedence.how(self.runs[run].of) if run in self.runs else Preempted()

    def kept(self, run: RunId) -> int:
        """What a run keeps when it is stopped, as a kind of request; NONE if it ends then."""
        if self.how(run).mode is not PreemptMode.SUSPEND:
            return NONE
        return self.nodes.kept_kind(self.queue.kind[self.runs[run].slot])

    def hold_as(self, run: RunId, kind: int, end_s: float) -> None:
        """A run holds from now on, as expected until `end_s`, what a request of another kind has."""
        slot, of, *_ = self.runs[run]
        for group in self._groups:
            group.end(slot)
        self.queue.hold_as(slot, kind, end_s)
        for group in self._groups:
            group.begin(slot, of)

    def pass_over(self, run: RunId) -> None:
        """The job for which a run is suspended did not start: that displaces it no more than one that begins
        now."""
        self._latest += 1
        self.runs[run] = self.runs[run]._replace(place=self._latest)
        for group in self._groups:
            group.ranked = None

    def may_displace(self, run: RunId, other: RunId) -> bool:
        """Whether a run is of a class that displaces that of another run."""
        return self.runs[other].of in self.classes_of(run)[1]

    def classes_of(self, run: RunId) -> tuple[int, Collection[int]]:
        """The class of a run, and those that it displaces."""
        of = self.runs[run].of
        return of, self.precedence.displaced_by.get(of, ())

    def first_to_go_on(self, runs: Iterable[RunId]) -> list[RunId]:
        """Runs in the order in which they continue: the last ones to be displaced first."""
        return sorted(runs, key=lambda run: (*(-x for x in self.runs[run].rank[:1]), run))

    def has_changed(self, node: int) -> None:
        """A node went down, or is up again."""
        for group in self._groups:
            group.nodes.has_changed(node)

    def is_stopping(self, run: RunId) -> bool:
        return run in self._stops.job_of

    def over(self, run: RunId, is_stopped: bool) -> Sequence[RunId]:
        """Note that a run was stopped, or is over for another reason. Returns the stopped runs that are over
        now."""
        job, over = self._stops.over(run, is_stopped)
        if job is not None and self.queue.place_of(job) != NONE:
            self._latest_for.setdefault(job, self._latest)
        return over

    def may_help(self) -> bool:
        """Whether some job might displace others now."""
        return next(self._hopeful(), None) is not None

    def to_stop(self, now_s: float) -> Sequence[RunId]:
        """The runs to stop now; to be called after each decision, when the jobs that it starts hold nodes."""
        decided, self._decided = self._decided, self._latest
        self.again_s = inf
        hopeful = list(self._hopeful())
        if not hopeful:
            return ()
        orders: list[RunId] = []
        with Trial(self.queue.nodes) as trial:
            self._anticipate(trial)
            for i, displaced in hopeful:
                slot = self.queue.in_order[i]
                job, runs = JobId(self.queue.job[slot]), self._without_which_fits(i, displaced, now_s)
                if runs and min(self.runs[run].place for run in runs) > decided:
                    self._latest_for.setdefault(job, decided)
                elif runs is not None:
                    for run in runs:
                        self._stop(run, trial)
                    self._place(slot, trial)
                    if runs:
                        self._stops.order(job, runs)
                        self.precedence.note_stops(slot)
                        orders += runs
        return orders

    def _hopeful(self) -> Iterator[tuple[int, DisplacedRuns]]:
        """The jobs, by position, that do not fit and for which nothing is being stopped, but that would fit
        without the runs of the classes that theirs displaces. Those that wait for a limit are left out."""
        q = self.queue
        waiting, kinds, chunks = (
            np.asarray(q.in_order)[: q.n_waiting],
            np.asarray(q.kind),
            np.asarray(q.chunks),
        )
        classes = self.precedence.of(q, waiting)
        for of, displaced in self._displaced_by.items():
            if not displaced.slots:
                continue
            positions = np.flatnonzero(classes == of)
            slots, x, end = waiting[positions], 0, len(positions)
            columns = kinds[slots], chunks[slots]
            while x < end:
                x = q.nodes.next_that_may_fit(displaced.nodes, *columns, x, end)
                if x < end:
                    slot = slots[x]
                    is_within_limits = q.service.reached(slot) == NONE and q.has_nodes_left(slot)
                    if is_within_limits and q.job[slot] not in self._stops.jobs:
                        yield int(positions[x]), displaced
                x += 1

    def _anticipate(self, trial: Trial) -> None:
        """Assume that what is being stopped is over, and that the jobs for which it is stopped have
        started."""
        q = self.queue
        for run in self._stops.job_of:
            if run in self.runs:
                self._stop(run, trial)
        for slot in self._waiting(self._stops.jobs).values():
            if q.nodes.fits(q.kind[slot], q.chunks[slot]):
                self._place(slot, trial)

    def _without_which_fits(self, i: int, displaced: DisplacedRuns, now_s: float) -> list[RunId] | None:
        """The runs to stop so that job i fits; None if nothing helps now."""
        q, slot = self.queue, self.queue.in_order[i]
        limits = (latest for job, latest in self._latest_for.items() if q.place_of(job) <= i)
        latest = min(limits, default=self._latest)
        runs, rows = list[RunId](), list[tuple[int, int]]()
        for run, until_s, row in self._ranked(displaced):
            if self.runs[run].place <= latest and run not in self._stops.job_of:
                if until_s <= now_s:
                    runs.append(run)
                    rows.append(row)
                else:
                    self.again_s = min(self.again_s, until_s)
        firsts, kept = np.array(rows, np.int64).reshape(-1, 2).T.copy()
        stopped = np.zeros(len(runs), np.bool_)
        request = q.kind[slot], q.chunks[slot]
        if not self._shadow.runs_to_stop(q.held, firsts, kept, *request, stopped.view(np.uint8)):
            return None
        return [runs[x] for x in np.flatnonzero(stopped)]

    def _ranked(self, displaced: DisplacedRuns) -> list[tuple[RunId, float, tuple[int, int]]]:
        """The runs, first to be displaced first: until when each is exempt, its first row, what it keeps."""
        if displaced.ranked is None:
            q, of_slots = self.queue, map(RunId, np.asarray(self.queue.run)[[*displaced.slots]].tolist())
            order = sorted(of_slots, key=lambda run: (self.runs[run].rank, -self.runs[run].place))
            displaced.ranked = [
                (
                    run,
                    self.runs[run].began_s + (self.how(run).exempt_s or 0.0),
                    (q.first_row[self.runs[run].slot], self.kept(run)),
                )
                for run in order
            ]
        return displaced.ranked

    def _stop(self, run: RunId, trial: Trial) -> None:
        q, slot = self.queue, self.runs[run].slot
        used = q.held.table(q.first_row[slot])
        trial.give_back(q.kind[slot], used)
        if (kept := self.kept(run)) != NONE:
            trial.take(kept, used)

    def _place(self, slot: int, trial: Trial) -> None:
        nodes, kind, chunks = self.nodes, self.queue.kind[slot], self.queue.chunks[slot]
        nodes.fits(kind, chunks)  # `where_fits` is as of this
        used = nodes.divided(kind, chunks, nodes.where_fits(kind).tolist())
        assert used is not None
        trial.take(kind, used)


class DisplacedRuns:
    """The runs of some classes, by slot, and `nodes`: what would be free without them, but for what they have
    `kept` then. The cost of a run does not depend on the number of nodes."""

    def __init__(self, queue: OnNodes, classes: frozenset[int], kept: Callable[[RunId], int]) -> None:
        self._queue, self._classes, self.nodes = queue, classes, queue.nodes.alongside()
        self._kept = kept
        self.slots: dict[int, None] = {}
        self.ranked: list[tuple[RunId, float, tuple[int, int]]] | None = None
        """These in the order in which they are displaced; None: not known yet."""

    def begin(self, slot: int, of: int) -> None:
        """Note that a run of this class has taken its nodes."""
        if of in self._classes:
            self.slots[slot], self.ranked = None, None
        self._hold(slot, 1)

    def end(self, slot: int) -> None:
        """Note that a run is about to give back its nodes."""
        self._hold(slot, -1)
        if slot in self.slots:
            del self.slots[slot]
            self.ranked = None

    def _hold(self, slot: int, sign: int) -> None:
        q = self._queue
        kind = self._kept(RunId(q.run[slot])) if slot in self.slots else q.kind[slot]
        if kind != NONE:
            q.hold_in(self.nodes, slot, kind, sign)
