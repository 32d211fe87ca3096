"""One run of an experiment on this computer, and its comparison with the same run simulated."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from scheduler import UserError
from scheduler.messages import counted
from scheduler.model import Site
from sil.experiment.output_folder import make_usable
from sil.experiment.provenance import describe
from sil.experiment.run import BESIDE_THE_TRACE, DATABASE
from sil.live.loop import usable_cores
from sil.outcome.jobs import job_table
from sil.outcome.metrics import faults
from sil.runs.faults import is_remote
from sil.runs.live import LiveRun, run_live
from sil.runs.machines_scenario import MachinesScenario
from sil.runs.resolve import scenario_of_file
from sil.runs.scenario import Scenario
from sil.runs.simulation import PRINTED, RunKey
from sil.settings.experiment_file import Experiment, changed
from sil.site.site_in_use import SiteSource
from sil.trace.facts import TRACE, Fact, write_trace
from sil.workers.executor import Listener
from sil.world.guard.faults import SchedulerFault
from site_db.files.written import no_link

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
        """Live and simulated."""
        live, simulated = (self.jobs[name].to_numpy() for name in ("turnaround_s", "simulated_s"))
        return (float(live.mean()), float(simulated.mean())) if len(live) else (0.0, 0.0)


def compare_live(live: pl.DataFrame, simulated: pl.DataFrame, site: Site) -> LiveComparison:
    """The comparison, from the facts of both runs."""
    left, right = (job_table(facts, site.n_machines) for facts in (live, simulated))
    names = pl.col("resource").map_elements(site.resource_names.__getitem__, return_dtype=pl.String)
    jobs = (
        left.rename({"turnaround_time": "turnaround_s"})
        .join(right.select("job_id", simulated_s="turnaround_time"), on="job_id")
        .with_columns(difference=pl.col("turnaround_s") / pl.col("simulated_s") - 1.0, resource=names)
        .select(
            "job_id",
            "job_class",
            "queue",
            "attempts",
            "resource",
            "turnaround_s",
            "simulated_s",
            "difference",
        )
        .sort("job_id")
    )
    return LiveComparison(_decisions(live, names), _decisions(simulated, names), jobs)


def _decisions(facts: pl.DataFrame, names: pl.Expr) -> list[Decision]:
    decided = pl.col("event").is_in([Fact.RUN_STARTED.value, Fact.RUN_PREEMPTED.value])
    in_order = facts.filter(decided).sort("resource", maintain_order=True)
    return in_order.select(pl.col("event").cast(pl.String), "job", names).rows()


def machines_to_run_live(scenario: Scenario, name: str) -> MachinesScenario:
    """The scenario. Raises UserError if this computer cannot represent its site, or if failures are
    simulated."""
    experiment, in_use = scenario.experiment, scenario.in_use
    if scenario.under_test(name).has_own_queue:
        raise UserError(f"'{name}' is a whole resource manager; live runs use the testbed's own")
    if sys.platform != "linux":
        raise UserError("live runs pin processes to cores by calls that only Linux has")
    if not isinstance(scenario, MachinesScenario):
        raise UserError(
            f"experiment '{experiment.name}' has time-shared nodes; live runs are on dedicated machines"
        )
    if (
        in_use.absences
        or experiment.outages
        or experiment.failures
        or is_remote(experiment)
        or experiment.monitors != type(experiment.monitors)()
    ):
        raise UserError(
            f"experiment '{experiment.name}' has simulated failures or monitor errors, or a network; live "
            f"ones are real"
        )
    site, cores = in_use.site, len(usable_cores())
    if site.n_machines > cores:
        raise UserError(
            f"the site '{site.name}' has {counted(site.n_machines, 'machine')}, but this computer has only "
            f"{cores} usable cores; each machine needs one"
        )
    return scenario


def run_live_and_simulated(
    experiment: Experiment, source: Path, out: Path, name: str, listener: Listener
) -> tuple[LiveComparison, LiveRun]:
    """The first replication of the experiment in the file `source`, simulated and then live. Traces and
    timings are written into the folders `simulated` and `live` of `out`.

    Raises UserError and, if the scheduler breaks a rule,
    SchedulerFault.
    """
    make_usable(out)
    experiment = changed(experiment.at(0), schedulers=(name,), replications=1)
    in_use = SiteSource(experiment, source.parent, None).snapshot(out / DATABASE)
    scenario = machines_to_run_live(scenario_of_file(experiment, in_use, source), name)
    run = RunKey(0, 0, name)
    simulated = scenario.run(run, out / "simulated" / PRINTED)
    listener.progressed(0, experiment.drawn.jobs)
    n_jobs = experiment.drawn.jobs
    live = run_live(scenario, run, out / "live" / PRINTED, lambda ended: listener.progressed(ended, n_jobs))
    # Only now: what a live scheduler does may have changed the folder.
    _write(out / "simulated", scenario, simulated.facts, simulated.timings)
    _write(out / "live", scenario, live.facts, live.timings)
    for facts in (simulated.facts, live.facts):
        for fault in faults(facts).iter_rows(named=True):
            raise SchedulerFault(fault["rule"], fault["message"], fault["time_s"], fault["job"])
    return compare_live(live.facts, simulated.facts, in_use.site), live


def _write(folder: Path, scenario: Scenario, facts: pl.DataFrame, timings: pl.DataFrame) -> None:
    make_usable(folder)
    write_trace(folder / TRACE, facts, describe(scenario))
    timings.write_parquet(no_link(folder / BESIDE_THE_TRACE["timings"]))
