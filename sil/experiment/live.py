"""One run of an experiment live, and its comparison with the same run simulated."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from sil.experiment.output_folder import make_usable
from sil.experiment.provenance import describe
from sil.experiment.run import BESIDE_THE_TRACE, DATABASE
from sil.outcome.live_comparison import Twins, twins
from sil.outcome.metrics import faults
from sil.runs.composition import RunKey
from sil.runs.live import LiveRun, machines_to_run_live, run_live
from sil.runs.resolve import scenario_of_file
from sil.runs.scenario import Scenario
from sil.settings.experiment_file import Experiment, changed
from sil.site.site_in_use import SiteSource
from sil.trace.facts import TRACE, write_trace
from sil.workers.listener import Listener
from sil.world.guard.faults import SchedulerFault


def run_live_and_simulated(
    experiment: Experiment, source: Path, out: Path, name: str, listener: Listener
) -> tuple[Twins, LiveRun]:
    """The first replication of the experiment in the file `source`, simulated and then live. Traces and
    timings are written into the folders `simulated` and `live` of `out`.

    Raises InvalidFile, UnusableFolder, CannotRunLive, JobFailed and, if the scheduler breaks a rule,
    SchedulerFault.
    """
    make_usable(out)
    experiment = changed(experiment.at(0), schedulers=(name,), replications=1)
    in_use = SiteSource(experiment, source.parent, None).take_into_use(out / DATABASE)
    scenario = machines_to_run_live(scenario_of_file(experiment, in_use, source), name)
    run = RunKey(0, 0, name)
    simulated = scenario.run(run)
    _write(out / "simulated", scenario, simulated.facts, simulated.timings)
    listener.progressed(0, experiment.workload.jobs)
    live = run_live(scenario, run, listener)
    _write(out / "live", scenario, live.facts, live.timings)
    for facts in (simulated.facts, live.facts):
        for fault in faults(facts).iter_rows(named=True):
            raise SchedulerFault(fault["rule"], fault["message"], fault["time_s"], fault["job"])
    return twins(live.facts, simulated.facts, in_use.site), live


def _write(folder: Path, scenario: Scenario, facts: pl.DataFrame, timings: pl.DataFrame) -> None:
    make_usable(folder)
    write_trace(folder / TRACE, facts, describe(scenario))
    timings.write_parquet(folder / BESIDE_THE_TRACE["timings"])
