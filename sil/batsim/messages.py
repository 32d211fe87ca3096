"""Batsim's messages, <https://batsim.readthedocs.io/en/latest/protocol.html>, version 4: events to a
scheduler, which have every key that existing clients read, and its decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal, Union

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, model_validator

from sil.workload.job_log import LARGEST, MAX_PROCESSORS
from sil.world.guard.faults import SPEAKS_THE_PROTOCOL, SchedulerFault
from site_db.files.access import OF_JSON, most_bytes

WORKLOAD = "w0"
"""The workload of all jobs, as in `w0!1`."""

MAX_SHOWN = 200
"""The most characters of an invalid message that are shown."""

JsonEvent = dict[str, Any]


# -- what is sent ------------------------------------------------------------------------------------------


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
    """The length of the longest message, in bytes; a client that sends a longer one is disconnected."""
    return int(most_bytes() / OF_JSON)


def event(time_s: float, kind: str, **data: Any) -> JsonEvent:
    return {"timestamp": time_s, "type": kind, "data": data}


# -- what is received --------------------------------------------------------------------------------------


class BatsimMessage(BaseModel):
    """A message. JSON has no names for infinity and NaN."""

    model_config = ConfigDict(allow_inf_nan=False)


Time = Annotated[float, Field(le=LARGEST)]
Size = Annotated[int, Field(gt=0, le=MAX_PROCESSORS)]
Walltime = Annotated[float, Field(le=LARGEST)]
"""Seconds; 0 or less is none."""


class NewJob(BatsimMessage):
    res: Size
    profile: str
    walltime: Walltime = -1.0


class SubmittedJob(BatsimMessage):
    res: Annotated[int, Field(gt=0, lt=2**31)]
    walltime: Walltime = -1.0


_made: Any = create_model


def _models(table: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Models of types of fields, or of types with defaults."""
    return {kind: _made(kind, __base__=BatsimMessage, **data) for kind, data in table.items()}


DECISIONS = _models(
    {
        "EXECUTE_JOB": {"job_id": str, "alloc": str},
        "REJECT_JOB": {"job_id": str},
        "CALL_ME_LATER": {"timestamp": Time},
        "KILL_JOB": {"job_ids": list[str]},
        "REGISTER_JOB": {"job_id": str, "job": NewJob},
        "REGISTER_PROFILE": {"workload_name": str, "profile_name": str, "profile": dict[str, Any]},
        "CHANGE_JOB_STATE": {"job_id": str, "job_state": str},
        "SET_JOB_METADATA": {"job_id": str, "metadata": str},
        "SET_RESOURCE_STATE": {"resources": str, "state": str},
        "NOTIFY": {"type": str},
        "QUERY": {"requests": dict[str, Any]},
        "ANSWER": {},
    }
)
"""The decisions of a scheduler: what is read of the data of each."""
EVENTS = _models(
    {
        "SIMULATION_BEGINS": {"nb_resources": Size, "nb_compute_resources": (Size | None, None)},
        "JOB_SUBMITTED": {"job_id": str, "job": SubmittedJob},
        "JOB_COMPLETED": {"job_id": str},
    }
)
"""The events of a simulator."""
_DECISION: Any = Union[  # noqa: UP007 (made from a table)
    tuple(
        _made(
            kind, __base__=BatsimMessage, type=(Literal[kind], ...), timestamp=(Time, ...), data=(data, ...)
        )
        for kind, data in DECISIONS.items()
    )
]


class Reply(BatsimMessage):
    """Decisions in order of time, and the time when the scheduler had made them."""

    now: Time
    events: list[Annotated[_DECISION, Field(discriminator="type")]]


class BatsimEvent(BatsimMessage):
    timestamp: Time
    type: str
    data: dict[str, Any] = Field(default_factory=dict)


class BatsimRequest(BatsimMessage):
    """Events of a simulator in order of time, and the time when they were sent."""

    now: Time
    events: list[BatsimEvent]

    @model_validator(mode="after")
    def _in_order(self) -> BatsimRequest:
        times_s = [0.0, *(event.timestamp for event in self.events), self.now]
        for before_s, after_s in pairwise(times_s):
            if after_s < before_s:
                raise ValueError(f"the time goes back from {before_s:.15g} s to {after_s:.15g} s")
        return self


def read_reply(text: str, asked_s: float) -> Reply:
    """Parse a reply. Raises SchedulerFault for an invalid one."""
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
