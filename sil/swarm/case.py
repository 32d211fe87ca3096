"""The cases of a swarm: everything that determines one small simulation, drawn from a seed.

A case is data, which can be written to a file, read again and made smaller. Each fault has random numbers of
its own, so that the others stay as they are if one is left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from scheduler import UserError
from sil.swarm.faults import KINDS, Fault
from sil.world.random_streams import RandomStreams

MOST_FAULTS = 5
DEFAULT_JOBS = 20
DEFAULT_MACHINES = 4
CORES = 4
"""Of each node."""


class Machines(StrEnum):
    """What the resource manager of a case manages."""

    DIFFERENT = "different machines"
    PROCESSORS = "processors"
    NODES = "nodes"


SCHEDULERS = {
    Machines.DIFFERENT: (
        "olb",
        "met",
        "mct",
        "min_min",
        "max_min",
        "sufferage",
        "sjs",
        "pjs",
        "pjs_try_next",
    ),
    Machines.PROCESSORS: ("fcfs", "sjf", "easy", "easy_sjbf", "conservative"),
    Machines.NODES: ("fcfs", "sjf", "easy", "easy_sjbf", "conservative"),
}


@dataclass(frozen=True, slots=True)
class CaseJob:
    """It runs for `run_s`, of which its user estimates `estimate_s`. `size`: processors, or cores of nodes;
    on different machines, a job larger than 1 may run on the cluster."""

    id: int
    arrival_s: float
    run_s: float
    estimate_s: float
    size: int
    is_urgent: bool


@dataclass(frozen=True)
class Case:
    """One small simulation. From `until_s` on, there are no faults.

    `has_queues`: urgent jobs have a queue of their own, which displaces the other one. `is_remapping`:
    planned runs are mapped again in each round.
    """

    seed: int
    machines: Machines
    n_machines: int
    scheduler: str
    has_queues: bool
    is_remapping: bool
    jobs: tuple[CaseJob, ...]
    faults: tuple[Fault, ...]
    until_s: float

    def streams(self) -> RandomStreams:
        return RandomStreams(self.seed)

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Case:
        """Raises UserError for a file that holds no case."""
        try:
            fields: dict[str, Any] = json.loads(path.read_text())
            fields["machines"] = Machines(fields["machines"])
            fields["jobs"] = tuple(CaseJob(**job) for job in fields["jobs"])
            fields["faults"] = tuple(Fault(**fault) for fault in fields["faults"])
            unknown = [fault.kind for fault in fields["faults"] if fault.kind not in KINDS]
            if unknown:
                raise ValueError(f"unknown fault '{unknown[0]}'")
            return cls(**fields)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise UserError(
                f"{path} is no case of a swarm ({type(error).__name__}: {error}); name a file that sil swarm "
                f"wrote"
            ) from None


def drawn(
    seed: int,
    kinds: Sequence[str] = (*KINDS,),
    machines: Sequence[Machines] = (*Machines,),
    schedulers: Sequence[str] = (),
    n_jobs: int = DEFAULT_JOBS,
    n_machines: int = DEFAULT_MACHINES,
) -> Case:
    """The case of a seed: a random subset of the fault kinds `kinds`, a random one of `machines` and of
    `schedulers` (by default: any built-in one), at most `n_jobs` jobs and `n_machines` machines."""
    rng = RandomStreams(seed).of("swarm")
    chosen = machines[int(rng.integers(len(machines)))]
    n_machines = int(rng.integers(1, n_machines + 1))
    jobs = _jobs(rng, int(rng.integers(1, n_jobs + 1)), n_machines, chosen)
    names = schedulers or SCHEDULERS[chosen]
    until_s = float(rng.uniform(0.5, 2.0)) * max(job.arrival_s for job in jobs) + 600.0
    n_kinds = int(rng.integers(0, min(MOST_FAULTS, len(kinds)) + 1))
    of_kinds = sorted(rng.permutation(len(kinds))[:n_kinds].tolist())
    return Case(
        seed,
        chosen,
        n_machines,
        names[int(rng.integers(len(names)))],
        chosen is not Machines.PROCESSORS and bool(rng.random() < 0.4),
        bool(rng.random() < 0.5),
        jobs,
        tuple(Fault.drawn(kinds[k], rng, n_machines, until_s) for k in of_kinds),
        until_s,
    )


def _jobs(rng: np.random.Generator, n: int, n_machines: int, machines: Machines) -> tuple[CaseJob, ...]:
    largest = CORES * n_machines if machines is Machines.NODES else n_machines
    load = rng.uniform(0.2, 2.0)
    mean_run_s = float(rng.choice((30.0, 100.0, 300.0)))
    arrivals = np.cumsum(rng.exponential(mean_run_s / (n_machines * load), n)).tolist()
    run_s = rng.gamma(1.0, mean_run_s, n).tolist()
    sizes = np.minimum(1 + rng.geometric(0.5, n) * rng.integers(0, 2, n), largest).tolist()
    too_long = rng.choice((1.0, 1.0, 2.0, 10.0), n).tolist()
    urgent = (rng.random(n) < 0.3).tolist()
    return tuple(
        CaseJob(k, round(arrival_s, 3), round(run + 1.0, 3), round(run * factor + 1.0, 3), *more)
        for k, (arrival_s, run, factor, *more) in enumerate(
            zip(arrivals, run_s, too_long, sizes, urgent, strict=True)
        )
    )
