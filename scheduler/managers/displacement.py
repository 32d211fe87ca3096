"""Which runs are stopped so that other jobs fit on consumable nodes, and until when."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from math import inf
from typing import NamedTuple

import numpy as np

from scheduler.core.codes import NONE
from scheduler.free_nodes.consumable_nodes import ConsumableNodes, Key
from scheduler.managers.precedence import Precedence
from scheduler.model import JobId, RunId
from scheduler.node_resources.core.easy import Shadow
from scheduler.node_resources.state import Trial
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


class _Run(NamedTuple):
    """A run that holds nodes: its class, its place in the order of starts, when it began, and its rank among
    those that are displaced."""

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

    def __init__(self, state: ConsumableNodes, precedence: Precedence) -> None:
        self._state, self.precedence = state, precedence
        sets = precedence.displaced_by
        groups = {classes: DisplacedRuns(state, classes, self.kept) for classes in sets.values()}
        self._groups = list(groups.values())
        self._displaced_by = {of: groups[classes] for of, classes in sets.items()}
        self._stops = Stops()
        self._shadow = Shadow(state.nodes.state)
        self._runs: dict[RunId, _Run] = {}
        self._latest = 0
        """The place of the run that began last."""
        self._decided = 0
        """That of the one that had begun last before the present decision."""
        self._latest_for: dict[JobId, int] = {}
        """The place of the last run that a waiting job, or one served after it, may displace."""
        self.again_s = inf
        """When a run is no longer exempt that a job would displace."""

    def place_of(self, job: JobId) -> tuple[int, Key]:
        """The class of a waiting job, and its key in order of service."""
        key = self._state.waiting.key(job)
        assert key is not None
        return self.precedence.of(self._state, self._state.waiting.slot_of(job)), key

    def begin(self, run: RunId, place: tuple[int, Key], nodes: Collection[int], now_s: float) -> None:
        """Note that a run has taken its nodes; `place` is that of its job when it waited."""
        of, key = place
        self._latest += 1
        self._runs[run] = _Run(of, self._latest, now_s, self.precedence.rank(of, nodes))
        for group in self._groups:
            group.begin(run, of)
        waiting = self._state.waiting
        self._latest_for = {
            job: latest
            for job, latest in self._latest_for.items()
            if (other := waiting.key(job)) is not None and other < key
        }

    def end(self, run: RunId) -> None:
        """Note that a run is about to give back its nodes."""
        for group in self._groups:
            group.end(run)
        del self._runs[run]

    def how(self, run: RunId) -> Preempted:
        """How a run is stopped; one that has given back its nodes is about to end."""
        return self.precedence.how(self._runs[run].of) if run in self._runs else Preempted()

    def kept(self, run: RunId) -> int:
        """What a run keeps when it is stopped, as a kind of request; NONE if it ends then."""
        if self.how(run).mode is not PreemptMode.SUSPEND:
            return NONE
        return self._state.nodes.kept_kind(self._state.kind_of(run))

    def hold_as(self, run: RunId, kind: int, end_s: float) -> None:
        """A run holds from now on, as expected until `end_s`, what a request of another kind has."""
        for group in self._groups:
            group.end(run)
        self._state.hold_as(run, kind, end_s)
        for group in self._groups:
            group.begin(run, self._runs[run].of)

    def pass_over(self, run: RunId) -> None:
        """The job for which a run is suspended did not start: that displaces it no more than one that begins
        now."""
        self._latest += 1
        self._runs[run] = self._runs[run]._replace(place=self._latest)
        for group in self._groups:
            group.ranked = None

    def may_displace(self, run: RunId, other: RunId) -> bool:
        """Whether a run is of a class that displaces that of another run."""
        return self._runs[other].of in self.classes_of(run)[1]

    def classes_of(self, run: RunId) -> tuple[int, Collection[int]]:
        """The class of a run, and those that it displaces."""
        of = self._runs[run].of
        return of, self.precedence.displaced_by.get(of, ())

    def first_to_go_on(self, runs: Iterable[RunId]) -> list[RunId]:
        """Runs in the order in which they continue: the last ones to be displaced first."""
        return sorted(runs, key=lambda run: (*(-x for x in self._runs[run].rank[:1]), run))

    def set_up(self, node: int, is_up: bool) -> None:
        for group in self._groups:
            group.nodes.set_up(node, is_up)

    def is_stopping(self, run: RunId) -> bool:
        return run in self._stops.job_of

    def over(self, run: RunId, is_stopped: bool) -> Sequence[RunId]:
        """Note that a run was stopped, or is over for another reason. Returns the stopped runs that are over
        now."""
        job, over = self._stops.over(run, is_stopped)
        if job is not None and self._state.waiting.key(job) is not None:
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
        with Trial(self._state.nodes) as trial:
            self._anticipate(trial)
            for i, displaced in hopeful:
                job, runs = self._state.waiting[i].id, self._without_which_fits(i, displaced, now_s)
                if runs and min(self._runs[run].place for run in runs) > decided:
                    self._latest_for.setdefault(job, decided)
                elif runs is not None:
                    for run in runs:
                        self._stop(run, trial)
                    self._place(i, trial)
                    if runs:
                        self._stops.order(job, runs)
                        self.precedence.note_stops(self._state.waiting.slot_of(job))
                        orders += runs
        return orders

    def _hopeful(self) -> Iterator[tuple[int, DisplacedRuns]]:
        """The jobs, by position, that do not fit and for which nothing is being stopped, but that would fit
        without the runs of the classes that theirs displaces. Those that wait for a limit are left out."""
        waiting, now, service = self._state.waiting, self._state.nodes, self._state.queue.service
        classes = self.precedence.of_waiting(self._state)
        for of, displaced in self._displaced_by.items():
            positions, without = np.flatnonzero(classes == of), displaced.nodes
            columns, x, end = (waiting.kinds[positions], waiting.chunks[positions]), 0, len(positions)
            while x < end:
                x = now.state.next_that_may_fit(without.state, *columns, x, end)
                if x < end:
                    i = int(positions[x])
                    slot, queue = waiting.slot_at(i), self._state.queue
                    is_within_limits = service.reached(slot) == NONE and queue.has_nodes_left(slot)
                    if is_within_limits and waiting[i].id not in self._stops.jobs:
                        yield i, displaced
                x += 1

    def _anticipate(self, trial: Trial) -> None:
        """Assume that what is being stopped is over, and that the jobs for which it is stopped have
        started."""
        for run in self._stops.job_of:
            if self._state.holds(run):
                self._stop(run, trial)
        for job in self._stops.jobs:
            if self._state.waiting.key(job) is not None:
                i = self._state.waiting.position(job)
                if self._state.nodes.fits(*self._state.waiting.request_of(i)):
                    self._place(i, trial)

    def _without_which_fits(self, i: int, displaced: DisplacedRuns, now_s: float) -> list[RunId] | None:
        """The runs to stop so that job i fits; None if nothing helps now."""
        state, position = self._state, self._state.waiting.position
        limits = (latest for job, latest in self._latest_for.items() if position(job) <= i)
        latest = min(limits, default=self._latest)
        runs, rows = list[RunId](), list[tuple[int, int]]()
        for run, until_s, row in self._ranked(displaced):
            if self._runs[run].place <= latest and run not in self._stops.job_of:
                if until_s <= now_s:
                    runs.append(run)
                    rows.append(row)
                else:
                    self.again_s = min(self.again_s, until_s)
        firsts, kept = np.array(rows, np.int64).reshape(-1, 2).T.copy()
        stopped = np.zeros(len(runs), np.bool_)
        request = state.waiting.request_of(i)
        if not self._shadow.runs_to_stop(state.queue.held, firsts, kept, *request, stopped.view(np.uint8)):
            return None
        return [runs[x] for x in np.flatnonzero(stopped)]

    def _ranked(self, displaced: DisplacedRuns) -> list[tuple[RunId, float, tuple[int, int]]]:
        """The runs, first to be displaced first: until when each is exempt, its first row, what it keeps."""
        if displaced.ranked is None:
            order = sorted(displaced.runs, key=lambda run: (self._runs[run].rank, -self._runs[run].place))
            displaced.ranked = [
                (
                    run,
                    self._runs[run].began_s + (self.how(run).exempt_s or 0.0),
                    (self._state.first_row(run), self.kept(run)),
                )
                for run in order
            ]
        return displaced.ranked

    def _stop(self, run: RunId, trial: Trial) -> None:
        kind, used = self._state.held_by(run)
        trial.give_back(kind, used)
        if (kept := self.kept(run)) != NONE:
            trial.take(kept, used)

    def _place(self, i: int, trial: Trial) -> None:
        nodes, (kind, chunks) = self._state.nodes, self._state.waiting.request_of(i)
        nodes.fits(kind, chunks)  # `where_fits` is as of this
        used = nodes.divided(kind, chunks, nodes.where_fits(kind).tolist())
        assert used is not None
        trial.take(kind, used)


class DisplacedRuns:
    """The runs of some classes, and `nodes`: what would be free without them, but for what they have `kept`
    then. The cost of a run does not depend on the number of nodes."""

    def __init__(self, state: ConsumableNodes, classes: frozenset[int], kept: Callable[[RunId], int]) -> None:
        self._state, self._classes, self.nodes = state, classes, state.nodes.alongside()
        self._kept = kept
        self.runs: dict[RunId, None] = {}
        self.ranked: list[tuple[RunId, float, tuple[int, int]]] | None = None
        """These in the order in which they are displaced; None: not known yet."""

    def begin(self, run: RunId, of: int) -> None:
        """Note that a run of this class has taken its nodes."""
        kind, used = self._state.held_by(run)
        if of in self._classes:
            self.runs[run], self.ranked = None, None
            kind = self._kept(run)
        if kind != NONE:
            self.nodes.take(kind, used)

    def end(self, run: RunId) -> None:
        """Note that a run is about to give back its nodes."""
        kind, used = self._state.held_by(run)
        if run in self.runs:
            del self.runs[run]
            self.ranked = None
            kind = self._kept(run)
        if kind != NONE:
            self.nodes.give_back(kind, used)
