"""What a plug-in declares, found in a process of its own: to import it and make an instance runs its code."""

from __future__ import annotations

import socket
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from pydantic import StrictBool, StrictStr, TypeAdapter, ValidationError

from scheduler.registry import SchedulerNotLoaded, SchedulerSpec, declared
from scheduler.rules import Kind
from sil.workers import channel
from sil.workers.channel import Message
from sil.workers.executor import Attempt, tried
from sil.workers.own_process import own_process
from sil.world.guard.decision_time import TimeLimitExceeded, time_limit
from sil.world.guard.faults import Died, one_line
from sil.world.guard.scheduler import MAKING_LIMIT_S

MAX_BYTES = 1 << 16


class _Declared(NamedTuple):
    kind: Kind | None
    is_manager: StrictBool
    memoryless: StrictBool
    is_random: StrictBool
    summary: StrictStr


DECLARED = TypeAdapter(_Declared)


def described(
    spec: SchedulerSpec, folder: str | None = None, limit_s: float = MAKING_LIMIT_S
) -> SchedulerSpec:
    """A plug-in's `spec` with what its class declares (`scheduler.registry.declared`). Its module may be in
    `folder`. Raises SchedulerNotLoaded, also if its process ends or does not answer within `limit_s`."""
    found = tried(partial(_asked, spec, folder, limit_s))
    if isinstance(found, Died):
        raise SchedulerNotLoaded(f"scheduler '{spec.name}' cannot be loaded: {found}")
    return found


def _asked(spec: SchedulerSpec, folder: str | None, limit_s: float, attempt: Attempt) -> SchedulerSpec:
    call = partial(_describe, spec, limit_s)
    with own_process(call, (__name__,), own_modules=folder, attempt=attempt) as process:
        try:
            fields = process.receive(MAX_BYTES).fields
        except Died as error:
            if error.from_outside:
                raise
            raise SchedulerNotLoaded(f"scheduler '{spec.name}' cannot be loaded: {error}") from None
    if isinstance(why := fields.get("refused"), str):
        raise SchedulerNotLoaded(why)
    try:
        return replace(spec, **DECLARED.validate_python(fields)._asdict())
    except ValidationError:
        raise SchedulerNotLoaded(f"scheduler '{spec.name}' declares what cannot be read") from None


def _describe(spec: SchedulerSpec, limit_s: float, connection: socket.socket) -> None:
    channel.send(connection, Message(_declared(spec, limit_s)))


def _declared(spec: SchedulerSpec, limit_s: float) -> dict[str, Any]:
    try:
        with time_limit(limit_s):
            found = declared(spec)
            fields = {name: getattr(found, name) for name in _Declared._fields}
            return {**fields, "summary": one_line(found.summary)}
    except SchedulerNotLoaded as error:
        return {"refused": str(error)}
    except TimeLimitExceeded:
        return {"refused": f"scheduler '{spec.name}' was not imported and made within {limit_s:g} s"}
    except BaseException as error:
        what = f"{type(error).__name__}: {one_line(error)}"
        return {"refused": f"scheduler '{spec.name}' cannot be loaded: {what}"}
