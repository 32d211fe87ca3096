"""One run of an experiment on this computer, and its comparison with the same run simulated."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from scheduler import UserError
from scheduler.messages import counted
from scheduler.model import Site
from sil.experiment.output_folder import make_usable
from sil.experiment.provenance import describe
from sil.experiment.run import BESIDE_THE_TRACE, DATABASE
from sil.isolation.host import Host
from sil.outcome.jobs import job_table
from sil.outcome.metrics import faults
from sil.runs.computer import Computer, RealEvents, RealMachines, Shared, usable_cores
from sil.runs.faults import is_remote
from sil.runs.machines_scenario import Machines, MachinesScenario
from sil.runs.scenario import Scenario, scenario_of_file
from sil.runs.simulation import PRINTED, RunKey, SiteRun
from sil.settings.experiment_file import Experiment, changed
from sil.settings.replays import NONE
from sil.site.site_in_use import SiteSource
from sil.trace.facts import TRACE, Fact, write_trace
from sil.workers.executor import Listener
from sil.world.events import EventQueue
from sil.world.failures import Hindrances
from sil.world.guard.faults import SchedulerFault
from site_db.files.access import no_link


@dataclass(frozen=True)
class LiveScenario(MachinesScenario):
    """Machine j is the j-th core of a computer, jobs are processes, and time is real."""

    computer: Computer = field(kw_only=True)

    def simulation(self, host: Host, decisions: list[float]) -> SiteRun:
        computer = Shared(self.computer, host)
        site = _Cores(self, computer)
        return SiteRun(site, self.disturbances(site, decisions), events=RealEvents(computer))


class _Cores(Machines):
    def __init__(self, scenario: LiveScenario, computer: Shared) -> None:
        super().__init__(scenario)
        self._computer = computer

    def machines(self, events: EventQueue, hindrances: Hindrances | None) -> RealMachines:
        return RealMachines(self._computer, self._site, self._actual, events)


Decision = tuple[str, int, str]
"""A start or a preemption: fact, job, resource."""


@dataclass(frozen=True)
class LiveComparison:
    """The decisions are ordered by machine, then by time: the order of nearly simultaneous decisions on two
    machines is arbitrary.

    `jobs` has a row per job that ended in both: job_id, job_class, queue, attempts, resource, turnaround_s,
    simulated_s and difference (of the simulated, as a share of it).
    """

    live: list[Decision]
    simulated: list[Decision]
    jobs: pl.DataFrame

    @property
    def diverged_at(self) -> int | None:
        """The index of the first decision that differs; None if all are equal."""
        if self.live == self.simulated:
            return None
        pairs = zip(self.live, self.simulated, strict=False)
        shorter = min(len(self.live), len(self.simulated))
        return next((k for k, (one, other) in enumerate(pairs) if one != other), shorter)

    @property
    def mean_turnaround_s(self) -> tuple[float, float]:
        """The mean turnaround, live and simulated."""
        live, simulated = (self.jobs[name].to_numpy() for name in ("turnaround_s", "simulated_s"))
        return (float(live.mean()), float(simulated.mean())) if len(live) else (0.0, 0.0)


def compare_live(live: pl.DataFrame, simulated: pl.DataFrame, site: Site) -> LiveComparison:
    """The comparison, from the facts of both runs."""
    left, right = (job_table(facts, site.n_machines) for facts in (live, simulated))
    names = pl.col("resource").map_elements(site.resource_names.__getitem__, return_dtype=pl.String)
    columns = ("job_id", "job_class", "queue", "attempts", "resource", "turnaround_s", "simulated_s")
    jobs = (
        left.rename({"turnaround_time": "turnaround_s"})
        .join(right.select("job_id", simulated_s="turnaround_time"), on="job_id")
        .with_columns(difference=pl.col("turnaround_s") / pl.col("simulated_s") - 1.0, resource=names)
        .select(*columns, "difference")
        .sort("job_id")
    )
    decided = pl.col("event").is_in([Fact.RUN_STARTED.value, Fact.RUN_PREEMPTED.value])
    one, other = (
        facts.filter(decided)
        .sort("resource", maintain_order=True)
        .select(pl.col("event").cast(pl.String), "job", names)
        .rows()
        for facts in (live, simulated)
    )
    return LiveComparison(one, other, jobs)


def live_scenario(scenario: Scenario, name: str, listener: Listener) -> LiveScenario:
    """The scenario on this computer, without costs of decisions in simulated time. Raises UserError if the
    computer cannot represent its site, or if failures are simulated."""
    experiment, in_use = scenario.experiment, scenario.in_use
    if scenario.under_test(name).has_own_queue:
        raise UserError(f"'{name}' is a whole resource manager; live runs use the testbed's own")
    if sys.platform != "linux":
        raise UserError("live runs pin processes to cores by calls that only Linux has")
    if not isinstance(scenario, MachinesScenario):
        raise UserError(
            f"experiment '{experiment.name}' has nodes, not machines; live runs are on dedicated machines"
        )
    monitors = experiment.monitors != type(experiment.monitors)()
    faults = in_use.absences or experiment.outages or experiment.failures or is_remote(experiment) or monitors
    if faults or scenario.checkpoints:
        raise UserError(
            f"experiment '{experiment.name}' has simulated failures, checkpoints or monitor errors, or a "
            f"network; live ones are real"
        )
    site, cores, n_jobs = in_use.site, usable_cores(), experiment.drawn.jobs
    if site.n_machines > len(cores):
        raise UserError(
            f"the site '{site.name}' has {counted(site.n_machines, 'machine')}, but this computer has only "
            f"{len(cores)} usable cores; each machine needs one"
        )
    computer = Computer(cores[: site.n_machines], lambda ended: listener.progressed(ended, n_jobs))
    without_costs = changed(experiment, guard={"decision_cost": NONE})
    own = scenario.queue_schedulers
    return LiveScenario(without_costs, in_use, scenario.schedulers, own, computer=computer)


def run_live_and_simulated(
    experiment: Experiment, source: Path, out: Path, name: str, listener: Listener
) -> tuple[LiveComparison, dict[int, float]]:
    """The first replication of the experiment in the file `source`, simulated and then live; their
    comparison, and the CPU seconds of each job. Traces and timings are written into the folders `simulated`
    and `live` of `out`. Raises UserError and, if the scheduler breaks a rule, SchedulerFault."""
    make_usable(out)
    experiment = changed(experiment.at(0), schedulers=(name,), replications=1)
    in_use = SiteSource(experiment, source.parent, None).snapshot(out / DATABASE)
    simulated = scenario_of_file(experiment, in_use, source)
    live = live_scenario(simulated, name, listener)
    done = {}
    try:
        for side, scenario in (("simulated", simulated), ("live", live)):
            done[side] = scenario.run(RunKey(0, 0, name), out / side / PRINTED)
            listener.progressed(0, experiment.drawn.jobs)
    finally:
        live.computer.close()
    # Only now: what a live scheduler does may have changed the folder.
    for side, tables in done.items():
        make_usable(out / side)
        write_trace(out / side / TRACE, tables.facts, describe(simulated))
        tables.timings.write_parquet(no_link(out / side / BESIDE_THE_TRACE["timings"]))
    for tables in done.values():
        for fault in faults(tables.facts).iter_rows(named=True):
            raise SchedulerFault(fault["rule"], fault["message"], fault["time_s"], fault["job"])
    return compare_live(done["live"].facts, done["simulated"].facts, in_use.site), live.computer.cpu_s
