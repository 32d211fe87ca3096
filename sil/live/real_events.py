"""What a run reads of a computer.

An isolated scheduler answers in a process that carries out the same run (`sil.isolation.judging`). So each
call of the computer is made once, where the run counts, and what it returns is passed on (`Shared`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from scheduler.model import RunId
from sil.isolation.host import Host
from sil.world.events import AnyEvent, EndDue, EventQueue, MessageDue, StateChange


class Shared:
    """A `Computer` on both sides of a run."""

    def __init__(self, computer: object, host: Host) -> None:
        self._computer, self._host = computer, host

    def __call__(self, name: str, *values: Any) -> Any:
        """What the computer's method of this name returns where the run counts."""
        call = getattr(self._computer, name)
        return json.loads(self._host.input(lambda: json.dumps(call(*values)).encode()))


class RealEvents(EventQueue):
    """Events at their real times, among them ends of processes, changes of cores, and what CCS does, which
    `on_halted` gets."""

    def __init__(self, computer: Shared) -> None:
        super().__init__()
        self.computer = computer
        self.on_halted: Callable[[RunId, bool], None] = lambda run, is_stopped: None

    def pop(self) -> tuple[float, AnyEvent]:
        while (found := self.computer("happened", self.next_s)) is not None:
            now_s, runs, changes = found
            for run in runs:
                self.push(now_s, EndDue(RunId(run)))
            for what, number, flag in changes:
                halted = MessageDue(partial(self.on_halted, RunId(number), flag))
                self.push(now_s, halted if what == "run" else StateChange((number,), flag))
            if self.next_s <= now_s:
                return now_s, super().pop()[1]
        return super().pop()
