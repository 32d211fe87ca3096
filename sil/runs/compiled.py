"""The compiled engine for the replay of a log: for which schedulers, and in which chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from math import nan
from time import perf_counter
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scheduler.core.arrays import MIN_SIZE, Ints2
from scheduler.core.codes import CONSERVATIVE, FCFS, QueueCodes
from scheduler.core.identical import IdenticalNodes
from scheduler.free_nodes.consumable_nodes import choices
from scheduler.free_nodes.rigid import Conservative, Rigid, SlurmBackfill
from scheduler.managers.eligibility import Eligibility
from scheduler.managers.preemptor import Preemptor
from scheduler.managers.queues import never_fits
from scheduler.node_request import Request
from scheduler.node_resources.core.on_nodes import OnNodes
from scheduler.priority.claims import Claimant, Claims
from scheduler.priority.policy import BackfillParameters
from sil.runs.under_test import InProcess, UnderTest
from sil.settings.log_events import Events
from sil.settings.replays import Estimates
from sil.trace.facts import SCHEMA
from sil.trace.held import request_text
from sil.trace.recorder import CHUNK
from sil.workload.job_log import JOB_CLASS, QUEUE, JobLog, queue_of, user_names
from sil.world.core.codes import ACTUAL, ALL_ENDED, HISTORY, PAUSE, REFUSED, STARTED, STUCK, USER
from sil.world.core.engine import ranks, run_compiled
from sil.world.core.identical import LoopOnIdenticalNodes
from sil.world.core.jobs import RigidJobs
from sil.world.core.loop import Loop
from sil.world.core.on_nodes import LoopOnNodes, queue_on_nodes
from sil.world.core.tables import JobNames, decisions_table, facts_table
from sil.world.events import NodeNotice, Order, StateChange
from sil.world.failures import Checkpoints, SavedWork, TimedChange, as_fact, in_order_of_time

FEW = 128
"""The facts after which a run of which only some starts are wanted looks whether it may stop."""
CODES = {Estimates.USER: USER, Estimates.ACTUAL: ACTUAL, Estimates.HISTORY: HISTORY}


class CompiledLog(NamedTuple):
    """The jobs that arrive, the queue in which they wait, and what a trace says of them."""

    jobs: RigidJobs
    queue: IdenticalNodes | OnNodes
    names: JobNames
    claims: Claims | None = None
    preemptor: Preemptor | None = None


class ReplayPart(NamedTuple):
    """A part of a replay: its facts (as in a trace), what makes the table of its decisions (MEASURED_SCHEMA),
    and how many jobs have arrived by its end."""

    facts: pl.DataFrame
    decisions: Callable[[], pl.DataFrame]
    n_arrived: int


@dataclass(frozen=True)
class CompiledReplay:
    """A log of jobs for identical processors or consumable nodes."""

    log: JobLog
    policy: QueueCodes
    order: Order
    estimates: Estimates
    selection: str = "first_fit"
    """The node selection, for nodes that differ."""
    changes: Sequence[TimedChange] = ()
    """Drains, outages and reservations, on nodes that differ."""
    columns: Sequence[str] = (*SCHEMA,)
    """The columns of a trace that facts have."""
    how: BackfillParameters | None = None
    """The parameters of Slurm's schedulers."""
    events: Events | None = None
    """What keeps jobs from the queue."""
    checkpoints: Checkpoints | None = None

    @classmethod
    def of(
        cls,
        log: JobLog,
        scheduler: UnderTest,
        estimates: Estimates,
        order: Order,
        changes: Sequence[TimedChange] = (),
    ) -> CompiledReplay | str:
        """The replay under a scheduler; or why it cannot be compiled."""
        if not isinstance(scheduler, InProcess) or not scheduler.is_built_in or scheduler.has_own_queue:
            return "only built-in schedulers for free nodes are compiled"
        made, how = scheduler.spec.make(), None
        if isinstance(made, Rigid):
            policy = QueueCodes(made.ordering.code, made.backfilling.code)
        elif isinstance(made, Conservative):
            policy = QueueCodes(FCFS, CONSERVATIVE, always_called=True)
        elif isinstance(made, SlurmBackfill) and log.cluster is not None:
            policy = QueueCodes(FCFS, CONSERVATIVE, always_called=True)
            how = made.parameters(log.cluster.policy)
        else:
            return "it is not compiled"
        if log.cluster is not None and not _is_compiled(made.selection):
            return f"node selection '{made.selection}' is not compiled"
        return cls(log, policy, order, estimates, made.selection, changes, how=how)

    def chunks(self, arriving: pl.DataFrame, run: tuple[int, int, str]) -> Iterator[ReplayPart]:
        """The replay of the log's jobs, `arriving` at these times, as a run of the harness."""
        prepared = self._prepared(arriving)
        replay, names, claims = self._loop(prepared), prepared.names, prepared.claims
        queue = prepared.queue
        n_nodes = queue.free.n_nodes if isinstance(queue, IdenticalNodes) else queue.nodes.n_nodes
        made = ((n, change) for n, (_, change) in enumerate(replay.changes))
        facts_of = {n: as_fact(change) for n, change in made if isinstance(change, NodeNotice)}
        names = replace(names, changes=facts_of)
        began_s = perf_counter()
        for facts, n_arrived in run_compiled(replay, CHUNK):
            wall_s = perf_counter() - began_s
            decisions = partial(decisions_table, facts, n_nodes, wall_s)
            if claims is not None and isinstance(replay, LoopOnNodes):
                more = {job: claims.refusal(names.job[job], limit) for job, limit in replay.limit_of.items()}
                names = replace(names, refusals={**names.refusals, **more})
            yield ReplayPart(facts_table(facts, names, run, self.columns), decisions, n_arrived)
            began_s = perf_counter()

    @property
    def may_interrupt(self) -> bool:
        """Whether runs may be stopped or lost, by what is known before."""
        acts = () if self.events is None else self.events.on_jobs
        policy = None if self.log.cluster is None else self.log.cluster.policy
        return (
            bool(policy and policy.preemption)
            or any(each.act in ("cancel", "requeue") for each in acts)
            or any(isinstance(change, StateChange) for _, change in self.changes)
        )

    def starts(self, arriving: pl.DataFrame, wanted: NDArray[np.bool_]) -> NDArray[np.float64]:
        """When each of these jobs starts, of which no run is interrupted, and which are those of the log or
        others of the same site; not a number for jobs that are refused or never start, and for those that
        start after all that are `wanted`."""
        replay = self._loop(replace(self, log=replace(self.log, jobs=arriving))._prepared(arriving))
        found, left, why = np.full(len(arriving), nan), wanted.copy(), PAUSE
        while left.any() and why not in (ALL_ENDED, STUCK):
            why, facts = replay.advance(FEW), replay.hand_over()
            event, job = np.asarray(facts.event)[: facts.n], np.asarray(facts.job)[: facts.n]
            begun = event == STARTED
            found[job[begun]] = np.asarray(facts.time_s)[: facts.n][begun]
            left[job[begun | (event == REFUSED)]] = False
        return found

    def _loop(self, prepared: CompiledLog) -> Loop:
        jobs, queue, by = prepared.jobs, prepared.queue, (ranks(self.order), CODES[self.estimates])
        room = min(CHUNK, 3 * len(jobs.submit_s)) + MIN_SIZE  # a job has three facts
        replay: Loop
        if isinstance(queue, IdenticalNodes):
            replay = LoopOnIdenticalNodes(jobs, queue, *by, room)
        else:
            replay = LoopOnNodes(jobs, queue, *by, room)
            replay.preemptor = prepared.preemptor
        if self.checkpoints is not None:
            replay.saved = SavedWork(self.checkpoints)
        keep_ineligible(replay, self.events, prepared.names.job, self.log.unsuccessful, self.changes)
        return replay

    def _prepared(self, arriving: pl.DataFrame) -> CompiledLog:
        if self.log.cluster is None:
            return _on_processors(self.log, arriving, self.policy)
        return _on_nodes(self.log, arriving, self.policy, self.selection, self.how)


def keep_ineligible(
    replay: Loop,
    events: Events | None,
    numbers: NDArray[np.int64],
    unsuccessful: Iterable[int],
    changes: Sequence[TimedChange] = (),
) -> None:
    """Keep jobs, which have these numbers in order of arrival, from the queue of a replay by events; nodes
    change, too."""
    if events is None:
        replay.will_change(changes)
        return
    place_of = {number: place for place, number in enumerate(numbers.tolist())}
    events = events.of_places(place_of)
    failed = frozenset(place_of[job] for job in unsuccessful if job in place_of)
    replay.keep_from_queue(Eligibility(events.conditions, events.arrays), failed)
    replay.will_change([*in_order_of_time(changes, events.acts)])


def _is_compiled(selection: str) -> bool:
    from scheduler.node_resources.selection import selection_by_name

    return selection_by_name(selection).is_compiled


def _on_processors(log: JobLog, arriving: pl.DataFrame, policy: QueueCodes) -> CompiledLog:
    n_nodes, n, refusals = log.processors, 0, dict[int, str]()
    for part in log.parts():
        number, size = part["job"].to_numpy(), part["processors"].to_numpy()
        for k in np.flatnonzero((size < 1) | (size > n_nodes)):
            refusals[n + int(k)] = str(never_fits(number[k], int(size[k]), n_nodes))
        n += len(part)
    jobs = RigidJobs.of(arriving)
    if refusals:
        jobs = jobs.refusing([*refusals])
    of_all = {"job_class": JOB_CLASS, "queue": QUEUE}
    queue = IdenticalNodes(n_nodes, policy)
    log.pages.forget()
    return CompiledLog(jobs, queue, names_of(log, arriving, of_all, refusals))


def _on_nodes(
    log: JobLog, arriving: pl.DataFrame, policy: QueueCodes, selection: str, how: BackfillParameters | None
) -> CompiledLog:
    """The log must have a cluster, and its jobs requests."""
    from scheduler.managers.displacement import Displacement
    from scheduler.managers.precedence import OfPolicy
    from scheduler.node_resources.described import RequestAdmission
    from scheduler.node_resources.selection import selection_by_name
    from scheduler.node_resources.state import NodeResources

    assert log.cluster is not None
    cluster = log.cluster
    nodes = NodeResources(tuple(cluster.nodes.values()), cluster.site_resources, cluster.topology)
    admission = RequestAdmission(nodes, log.cluster.partitions)

    claims = None if log.cluster.policy is None else Claims(log.cluster.policy, nodes.all)
    names = user_names(log.jobs["user"].unique(), log.users)

    @cache
    def admitted(k: int, time_limit_s: float | None) -> Request | str:
        return admission.admitted(log.requests[k], time_limit_s)

    @cache
    def answer(
        k: int, time_limit_s: float | None, user: int, whom: int | None
    ) -> tuple[int, int, Ints2] | str:
        """The kind of a request and what the job claims, and the same in each of its partitions; or why it is
        refused."""
        request = admitted(k, time_limit_s)
        if isinstance(request, str):
            return request
        who = Claimant(names.get(user, ""), *(() if whom is None else log.charged[whom]))
        claim = 0 if claims is None else claims.of(who, request, time_limit_s)
        if isinstance(claim, str):
            return f"never starts: {claim}"
        return nodes.kind_of(request), claim, choices(nodes, claims, who, request, time_limit_s)

    asked = arriving.select(
        "request",
        "admitted_s" if "admitted_s" in arriving.columns else "estimate_s",
        user="user" if claims is not None else pl.lit(0),
        charged="charged" if claims is not None and log.charged else pl.lit(None),
    )
    answers = [answer(*row) for row in asked.iter_rows()]
    numbers = arriving["job"].to_list()
    refusals = {k: f"job {numbers[k]} {why}" for k, why in enumerate(answers) if isinstance(why, str)}
    request = arriving["request"]
    jobs = RigidJobs.of(
        arriving.with_columns(
            kind=pl.Series([0 if isinstance(x, str) else x[0] for x in answers], dtype=pl.Int64),
            claim=pl.Series([0 if isinstance(x, str) else x[1] for x in answers], dtype=pl.Int64),
            chunks=pl.Series([each.chunks for each in log.requests], dtype=pl.Int64).gather(request),
            refused=pl.Series([isinstance(x, str) for x in answers]),
        )
    )
    of_requests = {
        "job_class": log.job_classes or [JOB_CLASS] * len(log.requests),
        "queue": map(queue_of, log.requests),
        "detail": map(request_text, log.requests),
    }
    on_arrival = {
        name: pl.Series(list(texts), dtype=pl.String).gather(request) for name, texts in of_requests.items()
    }
    queue, preemptor = queue_on_nodes(nodes, selection_by_name(selection), policy, how), None
    if claims is not None:
        queue.service = claims.service
        if (by := claims.policy.preemption) is not None:
            preemptor = Preemptor(Displacement(queue, nodes, OfPolicy(claims, by)), by.requeue_delay_s)
            queue.displacement = preemptor.displacement
    queue.where = nodes.where
    queue.choices = {k: x[2] for k, x in enumerate(answers) if not isinstance(x, str) and x[2].size}
    return CompiledLog(jobs, queue, names_of(log, arriving, on_arrival, refusals), claims, preemptor)


def names_of(
    log: JobLog,
    arriving: pl.DataFrame,
    on_arrival: Mapping[str, str | pl.Series],
    refusals: Mapping[int, str],
) -> JobNames:
    """What a trace says of the jobs of a log. `on_arrival` and `refusals`: see `JobNames`."""
    return JobNames(
        arriving["job"].to_numpy(),
        arriving["user"].to_numpy(),
        log.users,
        arriving["processors"].to_numpy(),
        on_arrival,
        refusals,
    )
