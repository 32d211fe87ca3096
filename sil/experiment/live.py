"""One run of an experiment on this computer, and its comparison with the same run simulated."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

from scheduler import UserError
from scheduler.messages import counted
from sil.experiment.output_folder import make_usable
from sil.experiment.provenance import describe
from sil.experiment.run import BESIDE_THE_TRACE, DATABASE
from sil.live.loop import usable_cores
from sil.outcome.live_comparison import LiveComparison, compare_live
from sil.outcome.metrics import faults
from sil.runs.faults import is_remote
from sil.runs.live import LiveRun, run_live
from sil.runs.machines_scenario import MachinesScenario
from sil.runs.resolve import scenario_of_file
from sil.runs.scenario import Scenario
from sil.runs.simulation import PRINTED, RunKey
from sil.settings.experiment_file import Experiment, changed
from sil.site.site_in_use import SiteSource
from sil.trace.facts import TRACE, write_trace
from sil.workers.executor import Listener
from sil.world.guard.faults import SchedulerFault
from site_db.files.written import no_link


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
