"""The cases of a swarm: everything that determines one small simulation, drawn from a seed.

A case is data, which can be written to a file, read again and made smaller. Each fault has random numbers of
its own, so that the others stay as they are if one is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from scheduler.messages import counted
from sil.swarm.faults import KINDS, MAX_JOBS, Fault
from sil.world.actual_runtimes import RandomStreams
from site_db.files.access import OF_JSON, no_link, read_text
from site_db.files.input_errors import InvalidFile

MAX_FAULTS = 5
DEFAULT_JOBS = 20
DEFAULT_MACHINES = 4
URGENT, DEFAULT = "urgent", "default"
"""The queues of a case that has two."""
CORES = 4
"""The cores of each node."""
MAX_MACHINES = 1_000
LONGEST_S = 1e7
"""The latest time in a case, in seconds: there is a round at least every few minutes as long as a job
runs."""
NotNegative = Annotated[float, Field(ge=0, le=LONGEST_S)]
Period = Annotated[float, Field(ge=1e-3, le=LONGEST_S)]


class SiteKind(StrEnum):
    """What the resource manager of a case manages."""

    DIFFERENT = "different machines"
    PROCESSORS = "processors"
    NODES = "nodes"


MAPPING = ("olb", "met", "mct", "min_min", "max_min", "sufferage", "sjs", "pjs", "pjs_try_next")
RIGID = ("fcfs", "sjf", "easy", "easy_sjbf", "conservative")
SCHEDULERS = {SiteKind.DIFFERENT: MAPPING, SiteKind.PROCESSORS: RIGID, SiteKind.NODES: RIGID}


@dataclass(frozen=True, slots=True)
class CaseJob:
    """It runs for `run_s`, of which its user estimates `estimate_s`. `size`: processors, or cores of nodes;
    on different machines, a job larger than 1 may run on the cluster."""

    id: Annotated[int, Field(ge=0, lt=MAX_JOBS)]
    arrival_s: NotNegative
    run_s: Period
    estimate_s: Period
    size: Annotated[int, Field(ge=1, le=CORES * MAX_MACHINES)]
    is_urgent: bool


@dataclass(frozen=True)
class Case:
    """One small simulation. From `until_s` on, there are no faults.

    * `has_queues`: urgent jobs have a queue of their own, which displaces the other one.
    * `is_remapping`: planned runs are mapped again in each round.
    * `longest_wait_s`: each job starts within this time; None = in the end.

    And on different machines (see `scheduler.managers.queues`):

    * `keeps_starts`: planned starts are kept.
    * `raised_after`: this many displacements raise a job to the next queue; None = none do.
    * `least_gain_s`: urgent jobs displace others only for a gain of more than this; 0 = always.
    """

    seed: Annotated[int, Field(ge=0)]
    machines: SiteKind
    n_machines: Annotated[int, Field(ge=1, le=MAX_MACHINES)]
    scheduler: str
    has_queues: bool
    is_remapping: bool
    jobs: Annotated[tuple[CaseJob, ...], Field(min_length=1)]
    faults: tuple[Fault, ...]
    until_s: NotNegative
    keeps_starts: bool = False
    raised_after: Annotated[int, Field(ge=1)] | None = None
    least_gain_s: NotNegative = 0.0
    longest_wait_s: Period | None = None

    @property
    def policies(self) -> list[str]:
        """The policies that have an effect, in words."""
        found = ["urgent jobs displace others"] if self.has_queues else []
        if self.machines is not SiteKind.DIFFERENT:
            return found
        if self.has_queues and self.raised_after is not None:
            found.append(f"a job is raised after {counted(self.raised_after, 'displacement')}")
        if self.has_queues and self.least_gain_s:
            found.append(f"a displacement gains more than {self.least_gain_s:g} s")
        if self.is_remapping:
            found.append("planned runs are mapped again")
        if self.keeps_starts:
            found.append("planned starts are kept")
        return found

    def write(self, path: Path) -> None:
        no_link(path).write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Case:
        """Read a case. Raises InvalidFile for a file that holds no case."""
        text = read_text(path, OF_JSON)
        try:
            case: Case = TypeAdapter(cls).validate_json(text, strict=True)
        except ValidationError as error:
            wrong = error.errors()[0]
            where = ".".join(map(str, wrong["loc"]))
            mistake: str | None = f"{where}: {wrong['msg']}" if where else wrong["msg"]
        else:
            mistake = next(case._mistakes(), None)
        if mistake is not None:
            raise InvalidFile(f"{path} is no case of a swarm: {mistake}; name a file that sil swarm wrote")
        return case

    def _mistakes(self) -> Iterator[str]:
        if len({job.id for job in self.jobs}) < len(self.jobs):
            yield "jobs: two have the same id"
        if any(job.arrival_s > later.arrival_s for job, later in pairwise(self.jobs)):
            yield "jobs: they are not in order of arrival"
        for k, fault in enumerate(self.faults):
            if (mistake := fault.mistake(self.n_machines)) is not None:
                yield f"faults.{k}: {mistake}"


def drawn(
    seed: int,
    kinds: Sequence[str] = (*KINDS,),
    machines: Sequence[SiteKind] = (*SiteKind,),
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
    n_kinds = int(rng.integers(0, min(MAX_FAULTS, len(kinds)) + 1))
    of_kinds = sorted(rng.permutation(len(kinds))[:n_kinds].tolist())
    return Case(
        seed,
        chosen,
        n_machines,
        names[int(rng.integers(len(names)))],
        chosen is not SiteKind.PROCESSORS and bool(rng.random() < 0.4),
        bool(rng.random() < 0.5),
        jobs,
        tuple(Fault.drawn(kinds[k], rng, n_machines, until_s) for k in of_kinds),
        until_s,
        *_policies(RandomStreams(seed).of("policies")),
    )


STREAM_S = 20.0
"""The run time of the jobs of a stream."""
LONGEST_WAIT_S = 15.0 * STREAM_S
"""More than twice that of first come, first served in a stream, and half of the time that a stream takes."""


def stream(seed: int, machines: SiteKind, scheduler: str) -> Case:
    """A case without faults in which an unfair scheduler lets a job wait for too long.

    A long job uses one of four processors or cores. Small jobs arrive a little faster than the others can run
    them, so that some always wait; among the first, there is a larger one, and one whose number is odd if
    those of the others are even, or even if they are odd. Two more arrive when only the long one runs.
    Estimates are the same for all but the long one, so that to prefer short jobs is no reason.
    """
    rng = RandomStreams(seed).of("stream")
    odd, size = int(rng.integers(2)), int(rng.integers(2, CORES))
    arrivals_s = [0.0, *(5 * [1.0]), 2.0, 3.0, *(4.0 + 6.0 * k for k in range(90)), 1_500.0, 1_600.0]
    jobs = tuple(
        CaseJob(2 * k + odd, arrival_s, round(STREAM_S * float(rng.uniform(0.9, 1.1)), 3), 24.0, 1, False)
        for k, arrival_s in enumerate(arrivals_s)
    )
    long, large, other = replace(jobs[0], run_s=3_000.0, estimate_s=3_600.0), jobs[6], jobs[7]
    first = (long, *jobs[1:6], replace(large, size=size), replace(other, id=other.id - 1))
    n_machines = 1 if machines is SiteKind.NODES else CORES
    fixed = Case(seed, machines, n_machines, scheduler, False, False, (*first, *jobs[8:]), (), 0.0)
    return replace(fixed, longest_wait_s=LONGEST_WAIT_S)


def _policies(rng: np.random.Generator) -> tuple[bool, int | None, float]:
    """Whether starts are kept, after how many displacements a job is raised, and the least gain of one."""
    keeps_starts, raises, asks = (rng.random(3) < (0.3, 0.5, 0.6)).tolist()
    raised_after, least_gain_s = int(rng.integers(1, 4)), float(rng.uniform(1.0, 200.0))
    return keeps_starts, raised_after if raises else None, least_gain_s if asks else 0.0


def _jobs(rng: np.random.Generator, n: int, n_machines: int, machines: SiteKind) -> tuple[CaseJob, ...]:
    largest = CORES * n_machines if machines is SiteKind.NODES else n_machines
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
