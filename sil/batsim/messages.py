"""Batsim's messages: events to a scheduler, and its decisions.

Version 4 of the protocol: <https://batsim.readthedocs.io/en/latest/protocol.html>. Requests have every key
that existing clients read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sil.workload.job_log import LARGEST, MOST_PROCESSORS
from sil.world.guard.faults import SPEAKS_THE_PROTOCOL, SchedulerFault
from site_db.files.readers import OF_JSON, most_bytes

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


_NOT_ALLOWED = (
    *("compute_sharing", "storage_sharing"),
    *("time_sharing", "time_sharing_on_compute", "time_sharing_on_storage"),
)


def simulation_begins(resources: Sequence[JsonEvent], workload: str, accepts_new_jobs: bool) -> JsonEvent:
    n_nodes = len(resources)
    return event(
        0.0,
        "SIMULATION_BEGINS",
        nb_resources=n_nodes,
        nb_compute_resources=n_nodes,
        nb_storage_resources=0,
        **{f"allow_{what}": False for what in _NOT_ALLOWED},
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


SUCCEEDED, FAILED, KILLED = "COMPLETED_SUCCESSFULLY", "COMPLETED_FAILED", "COMPLETED_KILLED"
FINAL_STATES = (SUCCEEDED, FAILED, KILLED, "COMPLETED_WALLTIME_REACHED", "REJECTED")


def longest_message() -> int:
    """In bytes; who sends a longer one is disconnected."""
    return int(most_bytes() / OF_JSON)


def event(time_s: float, kind: str, **data: Any) -> JsonEvent:
    return {"timestamp": time_s, "type": kind, "data": data}


# -- from the scheduler to the world -----------------------------------------------------------------------


class Message(BaseModel):
    """JSON has no names for infinity and NaN."""

    model_config = ConfigDict(allow_inf_nan=False)


Time = Annotated[float, Field(le=LARGEST)]
Size = Annotated[int, Field(gt=0, le=MOST_PROCESSORS)]
Walltime = Annotated[float, Field(le=LARGEST)]
"""Seconds; 0 or less is none."""


class RejectJob(Message):
    job_id: str


class ExecuteJob(Message):
    job_id: str
    alloc: str


class CallMeLater(Message):
    timestamp: Time


class KillJob(Message):
    job_ids: list[str]


class NewJob(Message):
    res: Size
    profile: str
    walltime: Walltime = -1.0


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
    timestamp: Time
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

    now: Time
    events: list[AnyDecision]


def read_reply(text: str, asked_s: float) -> Reply:
    """Raises SchedulerFault for an invalid message."""
    try:
        return Reply.model_validate_json(text)
    except ValidationError as error:
        raise SchedulerFault(SPEAKS_THE_PROTOCOL, _sentence(error, text), asked_s) from None


def _sentence(error: ValidationError, text: str) -> str:
    first = error.errors(include_url=False)[0]
    shown = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
    match first["type"]:
        case "json_invalid":
            return f"its answer is not valid JSON: {shown}"
        case "union_tag_invalid":
            known = ", ".join(first["ctx"]["expected_tags"].replace("'", "").split(", "))
            return f"it sent an event of the unknown type {first['ctx']['tag']}; known are {known}"
    place = ".".join(str(part) for part in first["loc"]) or "the message"
    return f"it sent a message in which {place} is wrong ({first['msg'].lower()}): {shown}"
