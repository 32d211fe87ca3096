"""A Batsim scheduler as a resource manager: it has its own queue, and decides by messages."""

from __future__ import annotations

import heapq
import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from math import nan
from typing import Any

from scheduler.model import Job, JobId, RunId
from scheduler.ports import RunEnded, RunLost
from scheduler.resource_manager import ResourceManager
from scheduler.rules import EACH_JOB_ONCE, MAKES_PROGRESS, NOT_IN_THE_PAST, PREEMPTS_RUNNING_RUNS
from sil.batsim import messages
from sil.batsim.messages import WORKLOAD, JsonEvent, Reply, read_reply
from sil.batsim.nodes import NumberedNodes, Session, SessionJob
from sil.batsim.process import Ask
from sil.workload.job_log import LARGEST
from sil.world.events import SimClock
from sil.world.guard.faults import PROCESS_SURVIVES, SPEAKS_THE_PROTOCOL, SchedulerFault
from sil.world.guard.scheduler import Guard
from sil.world.machines.execution import SimDispatcher
from sil.world.monitors import NodeChanges

MAX_REGISTERED, REGISTERED_PER_JOB = 10_000, 10
"""Jobs of its own that a scheduler may register, and how many more for each job of the log: with one that
never stops, the run would not end."""


class BatsimManager(ResourceManager):
    """Sends all events of one instant to a scheduler in one message, and carries out its reply.

    Decisions happen at their timestamps, up to the `now` of the reply: until then the scheduler is busy and
    receives no events. `ask` sends a message and returns the reply (see `conversation`). Faults of the
    scheduler are raised as SchedulerFault.
    """

    def __init__(
        self, nodes: NumberedNodes, n_jobs: int, orders: SimDispatcher, ask: Ask, guard: Guard
    ) -> None:
        assert isinstance(guard.clock, SimClock)
        self._nodes = nodes
        self._n_nodes = len(nodes.descriptions)
        self._changes = NodeChanges(nodes.monitor)
        self._jobs_to_come = n_jobs
        self._clock = guard.clock
        self._orders = orders
        self._ask = ask
        self._note = guard.note
        self._charge = guard.charge
        self._profiles: dict[tuple[str, str], dict[str, Any]] = {}
        self._most_registered = REGISTERED_PER_JOB * n_jobs + MAX_REGISTERED
        self._n_registered = 0
        self._registered: dict[JobId, str] = {}
        """Jobs that the scheduler has registered and that have not arrived."""
        self._session = Session(self._n_nodes, self._clock)
        self._fault = self._session.fault
        self._calls_s: list[float] = []
        self._events: list[JsonEvent] = []
        """Events to be sent to the scheduler, oldest first."""
        self._killing: list[tuple[list[str], dict[str, float]]] = []
        """Kill orders: job ids, and the progress of the jobs that were running."""
        self._killed: set[str] = set()
        self._has_begun = False
        self.wants_round = True

    @property
    def wakes_at_s(self) -> float | None:  # type: ignore[override]
        return self._calls_s[0] if self._calls_s else None

    def why_waiting(self) -> dict[JobId, str]:
        waiting = (entry.job.id for entry in self._session.jobs.values() if entry.run is None)
        return dict.fromkeys(waiting, "its scheduler did not start it")

    # -- notices --------------------------------------------------------------------------------------------

    def on_job_arrived(self, job: Job) -> str | None:
        registered = self._registered.pop(job.id, None)
        self._submit(registered or f"{WORKLOAD}!{job.id}", job, job.arrival_s)
        self._jobs_to_come -= registered is None
        if self._jobs_to_come == 0 and registered is None:
            self._tell("NOTIFY", type="no_more_static_job_to_submit")
        return None

    def _submit(self, job_id: str, job: Job, submit_s: float) -> None:
        profile = self._nodes.profile(job)
        walltime_s = profile["delay"]
        self._session.jobs[job_id] = SessionJob(job_id, job, walltime_s)
        request = {
            "id": job_id,
            "subtime": submit_s,
            "walltime": walltime_s,
            "res": job.n_tasks,
            "profile": job_id,
        }
        self._tell("JOB_SUBMITTED", job_id=job_id, job=request, profile=profile)

    def on_run_ended(self, ended: RunEnded) -> None:
        entry = self._over(ended.run, messages.FAILED if ended.failed else messages.SUCCEEDED)
        if entry is not None and not ended.failed:
            ran_s = ended.ended_s - entry.started_s
            self._nodes.learn(entry.job, entry.nodes, entry.started_s, ran_s)

    def _over(self, run: RunId, state: str) -> SessionJob | None:
        if (entry := self._session.over(run)) is not None:
            self._tell(
                "JOB_COMPLETED",
                job_id=entry.id,
                job_state=state,
                return_code=0 if state == messages.SUCCEEDED else 1,
                kill_reason="",
                alloc=str(entry.nodes),
            )
        return entry

    def on_run_preempted(self, run: RunId) -> None:
        if (entry := self._over(run, messages.KILLED)) is not None:
            self._killed.add(entry.id)
            self._orders.give_up(entry.job.id, "killed by its scheduler")

    def on_run_lost(self, lost: RunLost) -> None:
        """The run failed; its job is submitted again, as another attempt."""
        self._tell_of_nodes(lost)
        if (entry := self._over(lost.run, messages.FAILED)) is not None:
            first, _, attempt = entry.id.partition("#")
            self._submit(f"{first}#{int(attempt or 0) + 1}", entry.job, self._clock.now_s)

    def on_monitor_news(self) -> None:
        self._tell_of_nodes()

    def _tell_of_nodes(self, loss: RunLost | None = None) -> None:
        for node, up in self._changes.new(loss):
            kind = "event_machine_available" if up else "event_machine_unavailable"
            self._tell("NOTIFY", type=kind, resources=str(node))

    def on_time_passed(self) -> None:
        while self._calls_s and self._calls_s[0] <= self._clock.now_s:
            heapq.heappop(self._calls_s)
            self._tell("REQUESTED_CALL")

    def _tell(self, kind: str, **data: Any) -> None:
        self._events.append(messages.event(self._clock.now_s, kind, **data))
        self.wants_round = True

    # -- the round ------------------------------------------------------------------------------------------

    def run_round(self) -> None:
        """Send the pending events, and carry out the reply."""
        self.wants_round = False
        if not self._has_begun:
            self._has_begun = True
            accepts_new_jobs = self._nodes.new_job is not None
            self._exchange([messages.simulation_begins(self._nodes.descriptions, WORKLOAD, accepts_new_jobs)])
        self._tell_of_the_killed()
        if self._events:
            events, self._events = self._events, []
            self._exchange(events)

    def end(self) -> None:
        """All jobs have ended. The scheduler may exit without a reply."""
        try:
            self._exchange([*self._events, messages.event(self._clock.now_s, "SIMULATION_ENDS")])
        except SchedulerFault as fault:
            if fault.rule != PROCESS_SURVIVES:
                raise

    def _exchange(self, events: list[JsonEvent]) -> None:
        asked_s = self._clock.now_s
        request = json.dumps({"now": asked_s, "events": events})
        wall_s = time.perf_counter()
        text = self._ask(request, asked_s)
        wall_s = time.perf_counter() - wall_s
        reply = read_reply(text, asked_s)
        self._check_times(reply, asked_s)
        self._note((asked_s, len(self._session.jobs), self._n_nodes, len(reply.events), wall_s, nan, nan))
        if self._charge is not None:
            self._charge(len(self._session.jobs), self._n_nodes, wall_s)
        for decision in reply.events:
            self._clock.wait_until(decision.timestamp)
            self._carry_out(decision.type, dict(decision.data))
        self._clock.wait_until(reply.now)

    def _check_times(self, reply: Reply, asked_s: float) -> None:
        decisions = ((each.timestamp, f"sent {each.type} for") for each in reply.events)
        before_s = asked_s
        for at_s, said in (*decisions, (reply.now, "answered that it is")):
            if at_s < before_s:
                raise self._fault(NOT_IN_THE_PAST, f"it {said} {at_s} s, when it was {before_s} s")
            before_s = at_s

    # -- decisions ------------------------------------------------------------------------------------------

    def _carry_out(self, kind: str, data: Mapping[str, Any]) -> None:
        do: dict[str, Callable[..., None]] = {
            "EXECUTE_JOB": self._execute,
            "REJECT_JOB": self._reject,
            "CALL_ME_LATER": self._call_later,
            "KILL_JOB": self._kill,
            "REGISTER_JOB": self._register,
            "REGISTER_PROFILE": self._register_profile,
            "CHANGE_JOB_STATE": self._change_state,
            "SET_JOB_METADATA": self._describe,
            "QUERY": self._answer,
            # Nodes have no power states here: the request succeeds at once, and changes nothing.
            "SET_RESOURCE_STATE": partial(self._tell, "RESOURCE_STATE_CHANGED"),
        }
        if kind in do:
            do[kind](**data)

    def _register_profile(self, workload_name: str, profile_name: str, profile: dict[str, Any]) -> None:
        self._profiles[workload_name, profile_name] = profile

    def _describe(self, job_id: str, metadata: str) -> None:
        self._orders.describe(self._session.of(job_id).job.id, metadata)

    def _execute(self, job_id: str, alloc: str) -> None:
        entry = self._session.start(job_id, alloc)
        assert entry.run is not None
        self._orders.dispatch(self._nodes.order(entry.run, entry.job, entry.nodes, entry.estimate_s))

    def _reject(self, job_id: str) -> None:
        entry = self._session.of(job_id)
        if entry.run is not None:
            raise self._fault(EACH_JOB_ONCE, f"job {job_id} was rejected while it runs", entry)
        del self._session.jobs[job_id]
        self._orders.give_up(entry.job.id, "rejected by its scheduler")

    def _call_later(self, timestamp: float) -> None:
        now_s = self._clock.now_s
        if not timestamp > now_s:
            raise self._fault(
                NOT_IN_THE_PAST, f"it wants to be called at {timestamp} s, when it was {now_s} s"
            )
        heapq.heappush(self._calls_s, timestamp)

    def _kill(self, job_ids: list[str]) -> None:
        """Kill jobs; those that have ended while the scheduler was busy are left out."""
        progress = {}
        for job_id in job_ids:
            entry = self._session.jobs.get(job_id)
            if entry is None or entry.is_killed:
                continue
            if entry.run is None:
                message = f"job {job_id} was to be killed and does not run"
                raise self._fault(PREEMPTS_RUNNING_RUNS, message, entry)
            ran_s = self._clock.now_s - entry.started_s
            progress[job_id] = ran_s / self._nodes.actual_run_s(entry.job, entry.nodes)
            entry.is_killed = True
            self._orders.preempt(entry.run)
        self._killing.append((job_ids, progress))
        self.wants_round = True

    def _register(self, job_id: str, job: messages.NewJob) -> None:
        """Add a job that the scheduler submits; its run time is that of its profile, a delay."""
        if self._nodes.new_job is None:
            message = f"job {job_id} was registered; an experiment's jobs are those of its file"
            raise self._fault(SPEAKS_THE_PROTOCOL, message)
        if job_id in self._session.jobs or job_id in self._registered.values():
            raise self._fault(EACH_JOB_ONCE, f"job {job_id} was registered, and is known already")
        self._n_registered += 1
        if self._n_registered > self._most_registered:
            raise self._fault(
                MAKES_PROGRESS, f"it registered more than {self._most_registered:,} jobs of its own"
            )
        profile = self._profiles.get((job_id.partition("!")[0], job.profile), {})
        delay = profile.get("delay")
        if not isinstance(delay, int | float) or not 0.0 < delay <= LARGEST:
            what = f"profile '{job.profile}', which is not a registered delay"
            raise self._fault(SPEAKS_THE_PROTOCOL, f"job {job_id} was registered with {what}")
        walltime_s = job.walltime if job.walltime > 0 else None
        new = self._nodes.new_job(self._clock.now_s, float(delay), job.res, walltime_s)
        self._registered[new.id] = job_id
        self._orders.submit(new)

    def _change_state(self, job_id: str, job_state: str) -> None:
        """Set the state of a job that does not run: some schedulers submit jobs that only represent
        others."""
        entry = self._session.of(job_id)
        if entry.run is not None:
            message = f"the state of job {job_id} was to be {job_state}, while it runs on {entry.nodes}"
            raise self._fault(SPEAKS_THE_PROTOCOL, message, entry)
        if job_state in messages.FINAL_STATES:
            del self._session.jobs[job_id]
            self._orders.give_up(entry.job.id, f"{job_state}, by its scheduler")
        elif job_state != "RUNNING":
            raise self._fault(SPEAKS_THE_PROTOCOL, f"job {job_id} cannot be made {job_state}", entry)

    def _tell_of_the_killed(self) -> None:
        """Report the jobs of a kill order once all of them have ended, for any reason."""
        while self._killing and not any(job_id in self._session.jobs for job_id in self._killing[0][0]):
            job_ids, progress = self._killing.pop(0)
            killed = {
                job_id: {"profile": job_id, "progress": share}
                for job_id, share in progress.items()
                if job_id in self._killed  # others had ended before
            }
            now_s = self._clock.now_s
            self._events.append(messages.event(now_s, "JOB_KILLED", job_ids=job_ids, job_progress=killed))

    def _answer(self, requests: Mapping[str, Any]) -> None:
        """Answer queries. Energy is not simulated: none was consumed."""
        for request in requests:
            if request != "consumed_energy":
                message = f"it asks for '{request}'; answered is consumed_energy only"
                raise self._fault(SPEAKS_THE_PROTOCOL, message)
        self._tell("ANSWER", consumed_energy=0.0)
