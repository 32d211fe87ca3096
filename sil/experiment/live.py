"""One run of an experiment on this computer, and its comparison with the same run simulated."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from pathlib import Path

import polars as pl
import psutil

from scheduler import UserError
from scheduler.messages import counted
from sil.experiment.output_folder import make_usable
from sil.experiment.provenance import describe
from sil.experiment.run import DATABASE, write_tables
from sil.live.computer import Computer, NodeSettings, usable_cores
from sil.live.programs import KERNELS, MB
from sil.outcome.jobs import job_table
from sil.outcome.metrics import faults
from sil.runs.faults import is_remote
from sil.runs.machines_scenario import MachinesScenario
from sil.runs.scenario import Scenario, scenario_of_file
from sil.runs.simulation import PRINTED, RunKey
from sil.runs.time_shared_scenario import TimeSharedScenario
from sil.settings.experiment_file import Experiment, changed
from sil.settings.replays import NONE
from sil.site.site_in_use import SiteSource
from sil.trace.facts import Fact, RunTables
from sil.trace.held import MACHINES_AS_TEXT
from sil.workers.executor import Listener
from sil.world.guard.faults import SchedulerFault
from sil.world.processes.model import Lowered

WORKS_LIVE: tuple[tuple[str, tuple[object, ...]], ...] = (
    ("sharing", ("detailed",)),
    ("in_detail.coscheduler", ("none", "user_space", "user_space_without_dyn")),
    ("in_detail.cpu_scheduler", ("cfs",)),
    ("in_detail.spin_s", (0.0,)),
    ("in_detail.paging", (0.0,)),
    ("in_detail.periodic", ({},)),
)
"""The values of settings of shared_nodes that a computer can have."""
MAX_THINKS = 4096
"""The random numbers that a user of a node gets, for times to think; then they repeat."""
Decision = tuple[str, int, str]
"""A start or a preemption, or that CCS stops a run, continues it, or first lowers the priority of one of its
processes: fact, job, resource or nodes."""
DECISIONS = (Fact.RUN_STARTED, Fact.RUN_PREEMPTED, Fact.RUN_STOPPED, Fact.RUN_CONTINUED)


@dataclass(frozen=True)
class LiveComparison:
    """The decisions are ordered by machine, then by time: the order of nearly simultaneous decisions on two
    machines is arbitrary. On shared nodes, starts come first, then stops and restarts, then lowered
    priorities, by node.

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


def compare_live(
    live: pl.DataFrame, simulated: pl.DataFrame, lowered: Sequence[Lowered], names: Sequence[str]
) -> LiveComparison:
    """The comparison of the facts of both runs, and of the priorities `lowered` in each; `names` are those of
    resources."""
    named = pl.col("resource").replace_strict(dict(enumerate(names)), default=MACHINES_AS_TEXT)
    jobs = (
        job_table(live, len(names))
        .rename({"turnaround_time": "turnaround_s"})
        .join(job_table(simulated, len(names)).select("job_id", simulated_s="turnaround_time"), on="job_id")
        .with_columns(named, difference=pl.col("turnaround_s") / pl.col("simulated_s") - 1.0)
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
    decided = pl.col("event").is_in([fact.value for fact in DECISIONS])
    one, other = (
        facts.filter(decided)
        .sort("resource", nulls_last=True, maintain_order=True)  # null: by CCS, on all nodes of a run
        .select(pl.col("event").cast(pl.String), "job", named)
        .rows()
        + [("lowered", job, names[node]) for node, job in sorted(of_run, key=itemgetter(0))]
        for facts, of_run in zip((live, simulated), lowered, strict=True)
    )
    return LiveComparison(one, other, jobs)


def computer_for(scenario: Scenario, name: str, listener: Listener) -> Computer:
    """This computer for a scenario. Raises UserError if it cannot represent the site, or if failures are
    simulated."""
    experiment, in_use = scenario.experiment, scenario.in_use
    if scenario.under_test(name).has_own_queue:
        raise UserError(f"'{name}' is a whole resource manager; live runs use the testbed's own")
    if sys.platform != "linux":
        raise UserError("live runs pin processes to cores by calls that only Linux has")
    if not isinstance(scenario, MachinesScenario | TimeSharedScenario):
        raise UserError(
            f"experiment '{experiment.name}' has nodes of which jobs take parts; live runs are on machines "
            f"that each run one job, or on shared nodes"
        )
    monitors = experiment.monitors != type(experiment.monitors)()
    faults = in_use.absences or experiment.outages or experiment.failures or is_remote(experiment) or monitors
    if faults or scenario.checkpoints:
        raise UserError(
            f"experiment '{experiment.name}' has simulated failures, checkpoints or monitor errors, or a "
            f"network; live ones are real"
        )
    if isinstance(scenario, TimeSharedScenario):
        nodes, what = _real_nodes(scenario), "node"
    else:
        nodes, what = [NodeSettings(machine.name) for machine in in_use.site.machines], "machine"
    if len(nodes) > (n_cores := len(usable_cores())):
        raise UserError(
            f"the site '{in_use.site.name}' has {counted(len(nodes), what)}, but this computer has only "
            f"{n_cores} usable cores; each {what} needs one"
        )
    return Computer(nodes, partial(listener.progressed, total=experiment.drawn.jobs))


def _real_nodes(scenario: TimeSharedScenario) -> list[NodeSettings]:
    """The nodes of a cluster. Raises UserError if it has what this computer does not have."""
    given = scenario.table.model_dump()
    for key, values in WORKS_LIVE:
        table, _, name = key.rpartition(".")
        value = (given[table] if table else given)[name]
        if value not in values:
            wanted = " or ".join(repr(each) for each in values)
            raise UserError(f"live nodes need shared_nodes.{key} = {wanted}, not {value!r}")
    for name in sorted({job.job_class for job in scenario.jobs()}):
        if name.partition(".")[0] not in KERNELS:
            known = ", ".join(KERNELS)
            raise UserError(f"the job class '{name}' has no real program; its name has to begin with {known}")
    cluster, model = scenario.cluster, scenario.cluster.in_detail
    assert model is not None
    needed_mb, free_mb = sum(cluster.memory_mb), psutil.virtual_memory().available / MB
    if needed_mb > free_mb:
        raise UserError(
            f"the nodes have {needed_mb:,.0f} MB of memory, which jobs really use, but this computer has "
            f"only {free_mb:,.0f} MB free; give the site's machines less memory"
        )
    of_all = cluster.contract, model.coscheduler, model.period_s, model.interaction_s
    users = scenario.streams.of("interactions").spawn(cluster.n_nodes)
    return [
        NodeSettings(name, mb, *of_all, rng.exponential(size=MAX_THINKS).tolist())
        for name, mb, rng in zip(scenario.resources.names, cluster.memory_mb, users, strict=True)
    ]


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
    computer = computer_for(simulated, name, listener)
    free = changed(experiment, guard={"decision_cost": NONE})
    live = replace(simulated, experiment=free, computer=computer)
    is_shared = isinstance(simulated, TimeSharedScenario)
    done: dict[str, RunTables] = {}
    try:
        for side, scenario in (("simulated", simulated), ("live", live)):
            done[side] = scenario.run(RunKey(0, 0, name), out / side / PRINTED)
            listener.progressed(0, experiment.drawn.jobs)
            computer.most_s = 60.0 + 3.0 * done[side].facts["time_s"][-1]
    finally:
        computer.close()
        if is_shared and not computer.may_raise:
            listener.notify("only root (CAP_SYS_NICE) may raise priorities: here CCS could only lower them")
    # Only now: what a live scheduler does may have changed the folder.
    for side, tables in done.items():
        make_usable(out / side)
        write_tables(out / side, tables, describe(simulated))
    for tables in done.values():
        for fault in faults(tables.facts).iter_rows(named=True):
            raise SchedulerFault(fault["rule"], fault["message"], fault["time_s"], fault["job"])
    lowered = computer.lowered, simulated.lowered if isinstance(simulated, TimeSharedScenario) else {}
    facts = done["live"].facts, done["simulated"].facts
    return compare_live(*facts, lowered, simulated.resources.names), computer.cpu_s
