"""Which runs are stopped so that jobs of other queues fit on consumable nodes, and until when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from scheduler.free_nodes.consumable_nodes import ConsumableNodes, Key
from scheduler.managers.queues import QueuePolicy
from scheduler.model import JobId, RunId
from scheduler.node_resources.core.easy import Shadow
from scheduler.node_resources.state import Trial


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
        if expected:
            return None, []
        del self._expected[job], self._held_back[job]
        for stopped in held_back:
            del self.job_of[stopped]
        return job, held_back


NO_RUN = RunId(-1)


class Displacement:
    """Finds the runs to stop for waiting jobs of queues that displace others.

    A job that does not fit, but would without some runs of the queues that its queue displaces, displaces the
    most recently started ones (ties: the higher run id) until it fits, except those without which it fits
    as well (of several, those that started first are kept). Jobs are considered in order of service.

    * What is being stopped counts as free, and what the job needs for which it is stopped counts as taken.
    * A scheduler may prefer other jobs. So a job that would have fitted if the last decision had not started
      others displaces none of these; and once all runs stopped for a job are over, it displaces none that
      start later. Both hold for jobs served after it, too, until it starts or a job served before it does.
      Without that, a displaced job and a displacing one could start and wait in turn without end.

    Whether a job would fit without any of these runs is known from a second state of the nodes; only if it
    would, the runs are looked through.
    """

    def __init__(self, state: ConsumableNodes, queues: Sequence[QueuePolicy]) -> None:
        """`queues` are in order of service; the rank of a queue is its position."""
        self._state = state
        rank = {queue.name: k for k, queue in enumerate(queues)}
        sets = [frozenset(rank[name] for name in queue.displaces) for queue in queues]
        groups = {ranks: DisplacedRuns(state, ranks) for ranks in sets if ranks}
        self._groups = list(groups.values())
        self._displaced_by = {k: groups[ranks] for k, ranks in enumerate(sets) if ranks}
        self._stops = Stops()
        self._shadow = Shadow(state.nodes.state)
        self._latest = NO_RUN
        """The run that began last."""
        self._decided = NO_RUN
        """The run that had begun last before the present decision."""
        self._latest_for: dict[JobId, RunId] = {}
        """The last run that a waiting job, or one served after it, may displace."""

    def begin(self, run: RunId, key: Key) -> None:
        """Note that a run has taken its nodes; `key` is its job's in order of service."""
        self._latest = run
        for group in self._groups:
            group.begin(run, key[0])
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

    def to_stop(self) -> Sequence[RunId]:
        """The runs to stop now; to be called after each decision, when the jobs that it starts hold nodes."""
        decided, self._decided = self._decided, self._latest
        hopeful = list(self._hopeful())
        if not hopeful:
            return ()
        orders: list[RunId] = []
        with Trial(self._state.nodes) as trial:
            self._anticipate(trial)
            for i, displaced in hopeful:
                job, runs = self._state.waiting[i].id, self._without_which_fits(i, displaced)
                if runs and min(runs) > decided:
                    self._latest_for.setdefault(job, decided)
                elif runs is not None:
                    for run in runs:
                        trial.give_back(*self._state.held_by(run))
                    self._place(i, trial)
                    if runs:
                        self._stops.order(job, runs)
                        orders += runs
        return orders

    def _hopeful(self) -> Iterator[tuple[int, DisplacedRuns]]:
        """The jobs, by position, that do not fit and for which nothing is being stopped, but that would fit
        without the runs of the queues that theirs displaces."""
        waiting, now = self._state.waiting, self._state.nodes
        for rank, displaced in self._displaced_by.items():
            own, without, columns = waiting.of_queue(rank), displaced.nodes, (waiting.kinds, waiting.chunks)
            i = own.start
            while i < own.stop:
                i = now.state.next_that_may_fit(without.state, *columns, i, own.stop)
                if i < own.stop and waiting[i].id not in self._stops.jobs:
                    yield i, displaced
                i += 1

    def _anticipate(self, trial: Trial) -> None:
        """Assume that what is being stopped is over, and that the jobs for which it is stopped have
        started."""
        for run in self._stops.job_of:
            if self._state.holds(run):
                trial.give_back(*self._state.held_by(run))
        for job in self._stops.jobs:
            if self._state.waiting.key(job) is not None:
                i = self._state.waiting.position(job)
                if self._state.nodes.fits(*self._state.waiting.request_of(i)):
                    self._place(i, trial)

    def _without_which_fits(self, i: int, displaced: DisplacedRuns) -> list[RunId] | None:
        """The runs to stop so that job i fits; None if nothing helps."""
        state, position = self._state, self._state.waiting.position
        limits = (latest for job, latest in self._latest_for.items() if position(job) <= i)
        latest = min(limits, default=self._latest)
        runs = [
            run for run in displaced.most_recent_first() if run <= latest and run not in self._stops.job_of
        ]
        firsts = np.array([state.first_row(run) for run in runs], dtype=np.int64)
        stopped = np.zeros(len(runs), np.bool_)
        request = state.waiting.request_of(i)
        if not self._shadow.runs_to_stop(state.queue.held, firsts, *request, stopped.view(np.uint8)):
            return None
        return [runs[x] for x in np.flatnonzero(stopped)]

    def _place(self, i: int, trial: Trial) -> None:
        nodes, (kind, chunks) = self._state.nodes, self._state.waiting.request_of(i)
        nodes.fits(kind, chunks)  # `where_fits` is as of this
        used = nodes.divided(kind, chunks, nodes.where_fits(kind).tolist())
        assert used is not None
        trial.take(kind, used)


class DisplacedRuns:
    """The runs of some queues, and `nodes`: what would be free without them. The cost of a run does not
    depend on the number of nodes."""

    def __init__(self, state: ConsumableNodes, ranks: frozenset[int]) -> None:
        self._state, self._ranks, self.nodes = state, ranks, state.nodes.alongside()
        self._runs: dict[RunId, None] = {}
        """The runs in order of start."""

    def most_recent_first(self) -> Iterator[RunId]:
        return reversed(self._runs)

    def begin(self, run: RunId, rank: int) -> None:
        """Note that a run of the queue with this rank has taken its nodes."""
        if rank in self._ranks:
            self._runs[run] = None
        else:
            self.nodes.take(*self._state.held_by(run))

    def end(self, run: RunId) -> None:
        """Note that a run is about to give back its nodes."""
        if run in self._runs:
            del self._runs[run]
        else:
            self.nodes.give_back(*self._state.held_by(run))
