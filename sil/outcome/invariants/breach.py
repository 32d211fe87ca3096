"""A broken invariant, and the capacities that invariants are checked against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.model import JobId
from scheduler.node_request import Node

NO_RESOURCE_ABOVE_CAPACITY = "no-resource-above-capacity"


@dataclass(frozen=True, slots=True)
class Breach:
    """A broken invariant: its name, the job concerned, and one sentence."""

    rule: str
    job: JobId | None
    message: str


@dataclass(frozen=True, slots=True)
class Capacity:
    """Machines 0 to n_machines - 1, each of which holds at most `runs` runs at a time.

    `names` are those of machines, then clusters; machines without a name are nodes with a number. Of `nodes`
    with cores, memory and GPUs, any number of runs may use parts, and of `site_resources`, by name. A job is
    requeued `max_batch_requeue` times after failed runs, and then given up; None: no run fails.
    """

    n_machines: int
    runs: int = 1
    names: Sequence[str] = ()
    nodes: Sequence[Node] = ()
    site_resources: Mapping[str, int] = field(default_factory=dict)
    max_batch_requeue: int | None = None

    def name(self, machine: int) -> str:
        return self.names[machine] if machine < len(self.names) else f"node {machine}"
