"""What a simulator that speaks Batsim's protocol tells a scheduler; the counterpart of `messages.Reply`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

from scheduler.errors import UserError

Data = TypeVar("Data", bound=BaseModel)


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


class OfAJob(BaseModel):
    """Of JOB_COMPLETED."""

    job_id: str


class BadRequest(UserError):
    """What a simulator sent cannot be read. The message is a sentence."""


def read_request(text: bytes) -> Request:
    """Raises BadRequest."""
    return _read(lambda: Request.model_validate_json(text), "a message")


def read_data(kind: type[Data], event: Event) -> Data:
    """The data of an event. Raises BadRequest."""
    return _read(lambda: kind.model_validate(event.data), event.type)


def _read(read: Callable[[], Data], what: str) -> Data:
    try:
        return read()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "its whole"
        raise BadRequest(
            f"the simulator sent {what} in which {place} is wrong: {first['msg'].lower()}"
        ) from None
