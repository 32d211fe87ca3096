"""A few jobs under the unmodified controller, in the simulated world, and what became of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from scheduler.free_nodes.runtime_estimates import UserEstimates
from scheduler.managers.eligibility import JobArray
from scheduler.model import Job, JobId
from sil.outcome.finished_jobs import jobs_in
from sil.outcome.invariants.checker import first_violation
from sil.runs.free_nodes import FreeNodesModel
from sil.runs.simulation import Disturbances, SiteRun
from sil.settings.log_events import Command, Events
from sil.slurm.naming import slurm_controller
from sil.slurm.world import SlurmWorld, managed_by
from sil.trace.facts import Fact
from sil.trace.held import MACHINES_AS_TEXT
from sil.world.failures import Outage, listed_outages
from sil.world.guard.scheduler import Guard
from sil.world.monitors import NodeStates

QUICK = "SchedulerParameters=bf_interval=5,sched_interval=5,batch_sched_delay=0"


@dataclass(frozen=True)
class Rigid:
    """A job that arrives at `at_s`, and runs for `run_s` on `nodes`."""

    at_s: float
    run_s: float
    nodes: int = 1
    limit_s: float | None = None
    user: str = "ann"
    options: Mapping[str, object] = field(default_factory=dict)
    """Further ones of its submission."""


@dataclass(frozen=True)
class Outcome:
    facts: pl.DataFrame
    jobs: Mapping[int, Rigid] = field(default_factory=dict)

    def times(self, fact: Fact, job: int) -> list[float]:
        found = self.facts.filter(pl.col("event") == fact, pl.col("job") == job)
        return found["time_s"].to_list()

    def starts(self, job: int) -> list[float]:
        return self.times(Fact.RUN_STARTED, job)

    def ends(self, job: int) -> list[float]:
        return self.times(Fact.RUN_ENDED, job)

    def places(self, job: int) -> list[str]:
        found = self.facts.filter(pl.col("event") == Fact.RUN_STARTED, pl.col("job") == job)
        return found.select(MACHINES_AS_TEXT)["machines"].to_list()

    def refusal(self, job: int) -> str | None:
        """Why it was given up."""
        found = self.facts.filter(pl.col("event") == Fact.JOB_REFUSED, pl.col("job") == job)
        return found["detail"][0] if len(found) else None

    def job_table(self) -> pl.DataFrame:
        """As in jobs.csv."""
        asked = [(job, each.limit_s or each.run_s) for job, each in self.jobs.items()]
        return jobs_in(self.facts, pl.DataFrame(asked, ["job", "estimate_s"], orient="row"))

    @property
    def fault(self) -> str | None:
        found = self.facts.filter(pl.col("event") == Fact.FAULT)
        return found["message"][0] if len(found) else None


def operators(folder: Path, text: str, n_nodes: int = 2) -> str:
    """The name of a controller with these lines of an operator's slurm.conf."""
    lines = f"ClusterName=c\nSelectType=select/linear\nNodeName=n[1-{n_nodes}] CPUs=1\n{text}"
    (folder / "slurm.conf").write_text(lines)
    return f"slurm: {folder / 'slurm.conf'}"


def outcome_of(
    jobs: Sequence[Rigid],
    n_nodes: int,
    settings: str = QUICK,
    outages: Iterable[Outage] = (),
    name: str = "slurm",
    commands: Iterable[Command] = (),
    arrays: Iterable[JobArray] = (),
) -> Outcome:
    """Jobs have the numbers 1, 2 and so on. The invariants of the trace are checked."""
    numbered = dict(enumerate(jobs, 1))
    named = slurm_controller(f"{name} ({settings})" if settings else name)
    assert named is not None
    arriving = [
        Job(JobId(k), "rigid", job.at_s, job.user, n_tasks=job.nodes, estimate_s=job.limit_s or job.run_s)
        for k, job in numbered.items()
    ]
    arriving.sort(key=lambda job: (job.arrival_s, job.id))
    site = FreeNodesModel(None, n_nodes)
    site.jobs, site.run_times = arriving, UserEstimates()
    site.run_s = lambda job, nodes: numbered[job.id].run_s
    simulation = SiteRun(site, Disturbances(changes=listed_outages(outages)))
    world = simulation.world
    slurm = SlurmWorld(
        n_nodes,
        sorted({job.user for job in jobs}),
        lambda job: job.estimate_s or numbered[job.id].run_s,
        monitor=NodeStates(world.monitor),
        events=Events(
            arrays=tuple(arrays),
            options={k: job.options for k, job in numbered.items()},
            commands=tuple(commands),
        ),
    )
    simulation.run(managed_by(named, slurm, world.dispatcher, Guard(world.clock, 60.0)))
    facts = world.trace.frame(0, 0, name)
    breach = first_violation(facts, site.capacity)
    assert breach is None, breach
    return Outcome(facts, numbered)
