"""What options are changes of: a site, or the machine of a log."""

from __future__ import annotations

from typing import Protocol

from sil.planning.capacity import Load
from sil.planning.options import Option
from sil.planning.plan_file import Plan


class Run(Protocol):
    """One scheduler on one option in one replication. Calling it gives each goal by its key, and what more is
    measured; equal runs have equal keys."""

    @property
    def key(self) -> str: ...

    def __call__(self) -> dict[str, float]: ...


class Ground(Protocol):
    """Where a plan's runs take place."""

    @property
    def plan(self) -> Plan: ...

    def run(self, option: Option, scheduler: str, replication: int) -> Run: ...

    def load(self, option: Option) -> Load | None:
        """How much of what the option can carry is asked of it; None where all jobs come at once."""
        ...
