"""Offers one of our schedulers to a simulator that speaks Batsim's protocol."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import zmq
from pydantic import ValidationError

from scheduler import UserError
from scheduler.managers.rigid_allocation import RigidAllocation
from scheduler.managers.starting_manager import NodeManager
from scheduler.model import DispatchOrder, Job, JobId, RunId
from scheduler.node_set import NodeSet
from scheduler.ports import AnyScheduler, JobArrived, RunEnded, RuntimeEstimator, TimePassed
from scheduler.resource_manager import OnFreeNodes
from sil.batsim.messages import EVENTS, BatsimEvent, BatsimRequest, JsonEvent, longest_message
from sil.batsim.messages import event as decision
from sil.world.events import SimClock
from site_db.files.access import Memory
from site_db.files.input_errors import quoted

BYTES_OF_A_JOB = 1_000
"""The memory for a job, in bytes, about: also the names of those that have ended are kept."""
BYTES_OF_A_NODE = 100


class ServedScheduler:
    """Answers messages, each with one round if there is something to decide.

    `make` makes the scheduler when a simulation begins; `run_times` are its estimates. A `memoryless` one is
    not called while no job fits. Raises UserError for an invalid message, ScheduleRejected if the scheduler
    breaks a rule, and what it raises.
    """

    def __init__(
        self, make: Callable[[SimClock], AnyScheduler], run_times: RuntimeEstimator, memoryless: bool = False
    ) -> None:
        self._make = make
        self._memoryless = memoryless
        self._run_times = run_times
        self.clock = SimClock()
        """The time of the simulator's last message."""
        self._names: dict[JobId, str] = {}
        """The names, in the protocol, of the jobs that have not started."""
        self._run_of: dict[str, RunId] = {}
        """The run of each job, by its name."""
        self._decisions: list[JsonEvent] = []
        """Decisions to be sent."""
        self._manager: NodeManager[Any] | None = None
        self._jobs = 0
        self._known = set[str]()
        self._memory = Memory("the jobs of the simulator")
        self._called_for_s: float | None = None
        self.is_over = False

    def answer(self, request: bytes) -> str:
        """The reply to a message."""
        asked = _valid(BatsimRequest.model_validate_json, request, "a message")
        first_s = asked.events[0].timestamp if asked.events else asked.now
        if first_s < self.clock.now_s:
            raise UserError(
                f"the simulator sent a message of {first_s:.15g} s after one of {self.clock.now_s:.15g} s; "
                f"expected no earlier time"
            )
        self.clock.now_s = asked.now
        for event in asked.events:
            self._receive(event)
        if self._manager is not None:
            if self._manager.wants_round:
                self._manager.run_round()
            wakes_at_s = self._manager.wakes_at_s
            if wakes_at_s is not None and self.clock.now_s < wakes_at_s != self._called_for_s:
                self._decide("CALL_ME_LATER", timestamp=wakes_at_s)
                self._called_for_s = wakes_at_s
        decisions, self._decisions = self._decisions, []
        return json.dumps({"now": asked.now, "events": decisions})

    def dispatch(self, order: DispatchOrder) -> None:
        name = self._names.pop(order.job.id)
        self._run_of[name] = order.run
        self._decide("EXECUTE_JOB", job_id=name, alloc=str(NodeSet.of(order.machines)))

    def preempt(self, run: RunId) -> None:
        name = next(name for name, other in self._run_of.items() if other == run)
        self._decide("KILL_JOB", job_ids=[name])

    def _decide(self, kind: str, **data: object) -> None:
        self._decisions.append(decision(self.clock.now_s, kind, **data))

    def _receive(self, event: BatsimEvent) -> None:
        match event.type:
            case "SIMULATION_BEGINS":
                if self._manager is not None:
                    raise UserError("the simulator sent a second SIMULATION_BEGINS; expected one")
                described = _valid(EVENTS[event.type].model_validate, event.data, event.type)
                n_nodes = described.nb_compute_resources or described.nb_resources
                self._memory.take(BYTES_OF_A_NODE * n_nodes)
                ports = OnFreeNodes(self.clock, self, n_nodes, self._run_times)
                scheduler = self._make(self.clock)
                self._manager = NodeManager(ports, RigidAllocation(ports), scheduler, self._memoryless)
            case "SIMULATION_ENDS":
                self.is_over = True
            case "JOB_SUBMITTED":
                self._submit(_valid(EVENTS[event.type].model_validate, event.data, event.type))
            case "JOB_COMPLETED":
                completed = _valid(EVENTS[event.type].model_validate, event.data, event.type)
                run = self._run_of.pop(completed.job_id, None)
                if run is None:
                    job = quoted(completed.job_id)
                    raise UserError(f"the simulator sent JOB_COMPLETED for job {job}, which does not run")
                self._running().handle(RunEnded(run, event.timestamp))
            case "REQUESTED_CALL":
                wakes_at_s = self._running().wakes_at_s
                if wakes_at_s is not None and wakes_at_s <= self.clock.now_s:
                    self._running().handle(TimePassed())

    def _submit(self, submitted: Any) -> None:
        if submitted.job_id in self._known:
            raise UserError(f"the simulator submitted job {quoted(submitted.job_id)} twice")
        self._memory.take(BYTES_OF_A_JOB + len(submitted.job_id))
        self._known.add(submitted.job_id)
        wanted = submitted.job
        estimate_s = wanted.walltime if wanted.walltime > 0 else None
        job = Job(JobId(self._jobs), "rigid", self.clock.now_s, n_tasks=wanted.res, estimate_s=estimate_s)
        self._jobs += 1
        self._names[job.id] = submitted.job_id
        if self._running().handle(JobArrived(job)) is not None:
            del self._names[job.id]
            self._decide("REJECT_JOB", job_id=submitted.job_id)

    def _running(self) -> NodeManager[Any]:
        if self._manager is None:
            raise UserError("the simulator sent an event before SIMULATION_BEGINS")
        return self._manager


@contextmanager
def listening(address: str) -> Iterator[tuple[Callable[[], bytes], Callable[[str], None]]]:
    """Functions that receive a message and send its reply, at an address like tcp://127.0.0.1:28000.

    A simulator that waits for a reply when the block ends with an error gets the reason: `{"error":
    sentence}`. Raises UserError, also for a message in parts."""
    waits = False

    def receive() -> bytes:
        nonlocal waits
        first, *others = socket.recv_multipart()
        waits = True
        if others:
            n = 1 + len(others)
            raise UserError(f"the simulator sent a message of {n} parts; expected one part, with JSON")
        return bytes(first)

    def reply(text: str) -> None:
        nonlocal waits
        socket.send_string(text)
        waits = False

    with zmq.Context() as context, context.socket(zmq.REP) as socket:
        socket.setsockopt(zmq.LINGER, 1_000)
        socket.setsockopt(zmq.MAXMSGSIZE, longest_message())
        try:
            socket.bind(address)
        except zmq.ZMQError as error:
            raise UserError(f"cannot listen at '{address}': {error.strerror}") from None
        try:
            yield receive, reply
        except Exception as error:
            if waits:
                reply(json.dumps({"error": str(error)}))
            raise


def _valid(validate: Callable[[Any], Any], data: object, what: str) -> Any:
    try:
        return validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "its whole"
        reason = first["msg"].removeprefix("Value error, ")
        message = f"the simulator sent {what} in which {place} is wrong: {reason[0].lower()}{reason[1:]}"
        raise UserError(message) from None
