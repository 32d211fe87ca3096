"""Batsim's messages: events to a scheduler, and its decisions.

Version 4 of the protocol: <https://batsim.readthedocs.io/en/latest/protocol.html>. Requests have every key
that existing clients read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from scheduler.node_set import NodeSet

WORKLOAD = "w0"
"""All jobs are of one workload: `w0!1`."""

MAX_SHOWN = 200
"""Characters of an invalid message that are shown."""

JsonEvent = dict[str, Any]
Type = TypeVar("Type", bound=str)
Data = TypeVar("Data")


# -- from the world to the scheduler -----------------------------------------------------------------------


def resource(number: int, name: str, **properties: str) -> JsonEvent:
    """A node, for SIMULATION_BEGINS."""
    return {"id": number, "name": name, "state": "idle", "properties": properties}


def simulation_begins(resources: Sequence[JsonEvent], workload: str, accepts_new_jobs: bool) -> JsonEvent:
    n_nodes = len(resources)
    return event(
        0.0,
        "SIMULATION_BEGINS",
        nb_resources=n_nodes,
        nb_compute_resources=n_nodes,
        nb_storage_resources=0,
        allow_compute_sharing=False,
        allow_storage_sharing=False,
        allow_time_sharing=False,
        allow_time_sharing_on_compute=False,
        allow_time_sharing_on_storage=False,
        config={
            "redis-enabled": False,
            "redis-hostname": "127.0.0.1",
            "redis-port": 6379,
            "redis-prefix": "default",
            "profiles-forwarded-on-submission": True,
            "dynamic-jobs-enabled": accepts_new_jobs,
            "dynamic-jobs-acknowledged": accepts_new_jobs,
            "forward-unknown-events": False,
            "profile-reuse-enabled": False,
            "sched-config": "",
            "redis": {"enabled": False, "hostname": "127.0.0.1", "port": 6379, "prefix": "default"},
            "job_submission": {
                "forward_profiles": True,
                "from_scheduler": {"enabled": accepts_new_jobs, "acknowledge": accepts_new_jobs},
            },
        },
        compute_resources=list(resources),
        resources_data=list(resources),
        storage_resources=[],
        workloads={WORKLOAD: workload},
        profiles={WORKLOAD: {}},
    )


def delay(estimate_s: float) -> JsonEvent:
    """The profile of a job: a delay of its estimated run time."""
    return {"type": "delay", "delay": estimate_s}


def job_submitted(time_s: float, job_id: str, n_nodes: int, submit_s: float, profile: JsonEvent) -> JsonEvent:
    walltime_s = profile["delay"]
    job = {"id": job_id, "subtime": submit_s, "walltime": walltime_s, "res": n_nodes, "profile": job_id}
    return event(time_s, "JOB_SUBMITTED", job_id=job_id, job=job, profile=profile)


def job_completed(time_s: float, job_id: str, state: str, nodes: NodeSet) -> JsonEvent:
    return event(
        time_s,
        "JOB_COMPLETED",
        job_id=job_id,
        job_state=state,
        return_code=0 if state == SUCCEEDED else 1,
        kill_reason="",
        alloc=str(nodes),
    )


def job_killed(time_s: float, job_ids: Sequence[str], progress: dict[str, float]) -> JsonEvent:
    """`progress` of the jobs that were killed; the others had ended before."""
    of_jobs = {job_id: {"profile": job_id, "progress": share} for job_id, share in progress.items()}
    return event(time_s, "JOB_KILLED", job_ids=list(job_ids), job_progress=of_jobs)


def requested_call(time_s: float) -> JsonEvent:
    return event(time_s, "REQUESTED_CALL")


def node_changed(time_s: float, node: int, up: bool) -> JsonEvent:
    kind = "event_machine_available" if up else "event_machine_unavailable"
    return event(time_s, "NOTIFY", type=kind, resources=str(node))


def no_more_jobs(time_s: float) -> JsonEvent:
    return event(time_s, "NOTIFY", type="no_more_static_job_to_submit")


def answer(time_s: float, **answers: float) -> JsonEvent:
    return event(time_s, "ANSWER", **answers)


def resource_state_changed(time_s: float, resources: str, state: str) -> JsonEvent:
    return event(time_s, "RESOURCE_STATE_CHANGED", resources=resources, state=state)


def simulation_ends(time_s: float) -> JsonEvent:
    return event(time_s, "SIMULATION_ENDS")


SUCCEEDED, FAILED, KILLED = "COMPLETED_SUCCESSFULLY", "COMPLETED_FAILED", "COMPLETED_KILLED"
FINAL_STATES = (SUCCEEDED, FAILED, KILLED, "COMPLETED_WALLTIME_REACHED", "REJECTED")


def event(time_s: float, kind: str, **data: Any) -> JsonEvent:
    return {"timestamp": time_s, "type": kind, "data": data}


# -- from the scheduler to the world -----------------------------------------------------------------------


class Message(BaseModel):
    """JSON has no names for infinity and NaN."""

    model_config = ConfigDict(allow_inf_nan=False)


class RejectJob(Message):
    job_id: str


class ExecuteJob(Message):
    job_id: str
    alloc: str


class CallMeLater(Message):
    timestamp: float


class KillJob(Message):
    job_ids: list[str]


class NewJob(Message):
    res: int = Field(gt=0)
    profile: str
    walltime: float = -1.0


class RegisterJob(Message):
    job_id: str
    job: NewJob


class RegisterProfile(Message):
    workload_name: str
    profile_name: str
    profile: dict[str, Any]


class ChangeJobState(Message):
    job_id: str
    job_state: str


class SetJobMetadata(Message):
    job_id: str
    metadata: str


class SetResourceState(Message):
    resources: str
    state: str


class Notify(Message):
    type: str


class Query(Message):
    requests: dict[str, Any]


class Decision(Message, Generic[Type, Data]):
    type: Type
    timestamp: float
    data: Data


AnyDecision = Annotated[
    Decision[Literal["EXECUTE_JOB"], ExecuteJob]
    | Decision[Literal["REJECT_JOB"], RejectJob]
    | Decision[Literal["CALL_ME_LATER"], CallMeLater]
    | Decision[Literal["KILL_JOB"], KillJob]
    | Decision[Literal["REGISTER_JOB"], RegisterJob]
    | Decision[Literal["REGISTER_PROFILE"], RegisterProfile]
    | Decision[Literal["CHANGE_JOB_STATE"], ChangeJobState]
    | Decision[Literal["SET_JOB_METADATA"], SetJobMetadata]
    | Decision[Literal["SET_RESOURCE_STATE"], SetResourceState]
    | Decision[Literal["NOTIFY"], Notify]
    | Decision[Literal["QUERY"], Query]
    | Decision[Literal["ANSWER"], dict[str, Any]],
    Field(discriminator="type"),
]


class Reply(Message):
    """Decisions in order of time, and the time when the scheduler had made them."""

    now: float
    events: list[AnyDecision]


class BadReply(ValueError):
    """A scheduler sent an invalid message. The message is a sentence."""


def read_reply(text: str) -> Reply:
    """Raises BadReply."""
    try:
        return Reply.model_validate_json(text)
    except ValidationError as error:
        raise BadReply(_sentence(error, text)) from None


def _sentence(error: ValidationError, text: str) -> str:
    first = error.errors(include_url=False)[0]
    shown = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
    match first["type"]:
        case "json_invalid":
            return f"it answered with what is no JSON: {shown}"
        case "union_tag_invalid":
            known = ", ".join(first["ctx"]["expected_tags"].replace("'", "").split(", "))
            return f"it sent an event of the unknown type {first['ctx']['tag']}; known are {known}"
    place = ".".join(str(part) for part in first["loc"]) or "the message"
    return f"it sent a message in which {place} is wrong ({first['msg'].lower()}): {shown}"
