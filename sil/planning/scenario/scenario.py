"""What options change: a site, or the machine of a log."""

from __future__ import annotations

import hashlib
from typing import Protocol

from sil.planning.options import Option
from sil.planning.plan_file import Plan
from sil.planning.scenario.capacity import Load


class Work(Protocol):
    """One run. It can be pickled, and its result does not depend on where it is carried out."""

    @property
    def key(self) -> str:
        """Equal for equal work, and only for that."""
        ...

    def __call__(self) -> dict[str, float]: ...


def key_of(*parts: object) -> str:
    """The identity of a run: equal if all of its parts are."""
    return hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()


class Scenario(Protocol):
    """Where a plan's runs take place."""

    @property
    def plan(self) -> Plan: ...

    def run(self, option: Option, scheduler: str, replication: int) -> Work:
        """One scheduler on one option in one replication; calling it returns each goal by its key."""
        ...

    def load(self, option: Option) -> Load | None:
        """The load of the option; None if all jobs are submitted at the beginning."""
        ...
