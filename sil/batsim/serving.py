"""Offers one of our schedulers to a simulator that speaks Batsim's protocol."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import zmq
from pydantic import BaseModel, Field, ValidationError

from scheduler import UserError
from scheduler.managers.free_node_allocation import FreeNodeAllocation
from scheduler.managers.starting_manager import StartingManager
from scheduler.model import Completion, DispatchOrder, Job, JobId, RunId
from scheduler.node_set import NodeSet
from scheduler.ports import RuntimeEstimator, Scheduler
from scheduler.resource_manager import OnFreeNodes
from sil.batsim.messages import JsonEvent
from sil.batsim.messages import event as decision

Model = TypeVar("Model", bound=BaseModel)


# Messages of a simulator; the counterpart of `sil.batsim.messages.Reply`.


class Event(BaseModel):
    timestamp: float
    type: str
    data: dict[str, Any] = {}


class Request(BaseModel):
    now: float
    events: list[Event]


class Platform(BaseModel):
    """Of SIMULATION_BEGINS."""

    nb_resources: int = Field(gt=0)
    nb_compute_resources: int | None = Field(default=None, gt=0)

    @property
    def n_nodes(self) -> int:
        """Nodes that compute."""
        return self.nb_compute_resources or self.nb_resources


class SubmittedJob(BaseModel):
    res: int = Field(gt=0)
    walltime: float = -1.0


class Submission(BaseModel):
    """Of JOB_SUBMITTED."""

    job_id: str
    job: SubmittedJob


class CompletedJob(BaseModel):
    """Of JOB_COMPLETED."""

    job_id: str


class BadRequest(UserError):
    """A simulator sent an invalid message. The message is a sentence."""


class CannotListen(UserError):
    """An address cannot be used. The message is one sentence for the user."""


@dataclass
class MessageClock:
    """The time of the simulator's last message."""

    now_s: float = 0.0


@dataclass
class Orders:
    """Orders as decisions to send, and the names of jobs and runs in the protocol."""

    clock: MessageClock
    names: dict[JobId, str] = field(default_factory=dict)
    run_of: dict[str, RunId] = field(default_factory=dict)
    decisions: list[JsonEvent] = field(default_factory=list)

    def dispatch(self, order: DispatchOrder) -> None:
        name = self.names.pop(order.job.id)
        self.run_of[name] = order.run
        self.decide("EXECUTE_JOB", job_id=name, alloc=str(NodeSet.of(order.machines)))

    def preempt(self, run: RunId) -> None:
        name = next(name for name, other in self.run_of.items() if other == run)
        self.decide("KILL_JOB", job_ids=[name])

    def decide(self, kind: str, **data: object) -> None:
        self.decisions.append(decision(self.clock.now_s, kind, **data))


class ServedScheduler:
    """Answers messages, each with one round if there is something to decide.

    `make` makes the scheduler when a simulation begins; `run_times` are its estimates. A `memoryless` one is
    not called while no job fits. Raises BadRequest for an invalid message, ScheduleRejected if the scheduler
    breaks a rule, and what it raises.
    """

    def __init__(
        self,
        make: Callable[[MessageClock], Scheduler],
        run_times: RuntimeEstimator,
        memoryless: bool = False,
    ) -> None:
        self._make = make
        self._memoryless = memoryless
        self._run_times = run_times
        self._clock = MessageClock()
        self._orders = Orders(self._clock)
        self._manager: StartingManager | None = None
        self._jobs = 0
        self._called_for_s: float | None = None
        self.is_over = False

    def answer(self, request: bytes) -> str:
        """The reply to a message."""
        asked = _valid(Request.model_validate_json, request, "a message")
        self._clock.now_s = asked.now
        for event in asked.events:
            self._receive(event)
        if self._manager is not None and self._manager.wants_round:
            self._manager.run_round()
        if self._manager is not None:
            self._ask_for_a_call(self._manager.wakes_at_s)
        decisions = list(self._orders.decisions)
        self._orders.decisions.clear()
        return json.dumps({"now": asked.now, "events": decisions})

    def _receive(self, event: Event) -> None:
        match event.type:
            case "SIMULATION_BEGINS":
                n_nodes = _valid(Platform.model_validate, event.data, event.type).n_nodes
                ports = OnFreeNodes(self._clock, self._orders, n_nodes, self._run_times)
                nodes = FreeNodeAllocation(n_nodes, self._run_times)
                self._manager = StartingManager(ports, nodes, self._make(self._clock), self._memoryless)
            case "SIMULATION_ENDS":
                self.is_over = True
            case "JOB_SUBMITTED":
                self._submit(_valid(Submission.model_validate, event.data, event.type))
            case "JOB_COMPLETED":
                completed = _valid(CompletedJob.model_validate, event.data, event.type)
                run = self._orders.run_of.pop(completed.job_id, None)
                if run is not None:
                    self._running().on_run_ended(Completion(run, event.timestamp))
            case "REQUESTED_CALL":
                wakes_at_s = self._running().wakes_at_s
                if wakes_at_s is not None and wakes_at_s <= self._clock.now_s:
                    self._running().on_time_passed()

    def _submit(self, submitted: Submission) -> None:
        wanted = submitted.job
        estimate_s = wanted.walltime if wanted.walltime > 0 else None
        job = Job(JobId(self._jobs), "rigid", self._clock.now_s, n_tasks=wanted.res, estimate_s=estimate_s)
        self._jobs += 1
        self._orders.names[job.id] = submitted.job_id
        if self._running().on_job_arrived(job) is not None:
            del self._orders.names[job.id]
            self._orders.decide("REJECT_JOB", job_id=submitted.job_id)

    def _ask_for_a_call(self, wakes_at_s: float | None) -> None:
        if wakes_at_s is not None and wakes_at_s != self._called_for_s and wakes_at_s > self._clock.now_s:
            self._orders.decide("CALL_ME_LATER", timestamp=wakes_at_s)
            self._called_for_s = wakes_at_s

    def _running(self) -> StartingManager:
        if self._manager is None:
            raise BadRequest("the simulator sent an event before SIMULATION_BEGINS")
        return self._manager


@contextmanager
def listening(address: str) -> Iterator[tuple[Callable[[], bytes], Callable[[str], None]]]:
    """Functions that receive a message and send its reply, at an address like tcp://127.0.0.1:28000. Raises
    CannotListen."""
    context = zmq.Context()
    socket = context.socket(zmq.REP)
    try:
        try:
            socket.bind(address)
        except zmq.ZMQError as error:
            raise CannotListen(f"cannot listen at '{address}': {error.strerror}") from None
        yield lambda: bytes(socket.recv()), lambda text: cast("None", socket.send_string(text))
    finally:
        socket.close(linger=1_000)
        context.term()


def _valid(validate: Callable[[Any], Model], data: object, what: str) -> Model:
    try:
        return validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "its whole"
        message = f"the simulator sent {what} in which {place} is wrong: {first['msg'].lower()}"
        raise BadRequest(message) from None
