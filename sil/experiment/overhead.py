"""Decision times, measured over a grid of problems, as in Collins and George 2001, section 5.1."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl

from scheduler.mapping.problem import MappingProblem
from scheduler.model import Job, JobId
from scheduler.registry import SchedulerNotLoaded, SchedulerSpec
from scheduler.rules import Kind
from sil.isolation.host import Host
from sil.outcome.statistics import PowerLaw, fit_power_law, quantile
from sil.runs.hosting import call_isolated
from sil.runs.under_test import InProcess, resolve
from sil.settings.experiment_file import Experiment
from sil.site.site_in_use import SiteInUse, SiteSource
from sil.workers.executor import Item
from sil.workers.processes import Processes
from sil.workers.runner import OnProgress
from sil.world.events import SimClock
from sil.world.guard.faults import Died, SchedulerFault
from sil.world.guard.scheduler import Guard, GuardedScheduler, Timing
from site_db.files.access import Memory

CLUSTER_SIZE = 4
SEED = 1
COLUMNS = {
    "scheduler": pl.String,
    "jobs": pl.Int64,
    "machines": pl.Int64,
    "resources": pl.Int64,
    "parallel_percent": pl.Int64,
    "table": pl.Int64,
    "repetition": pl.Int64,
    "decisions": pl.Int64,
    "wall_s": pl.Float64,
    "cpu_s": pl.Float64,
    "gc_s": pl.Float64,
}
"""One row per decision; `wall_s` and `cpu_s` exclude garbage collection (`gc_s`)."""
Row = tuple[object, ...]
POINT = ("scheduler", "jobs", "machines", "parallel_percent")


@dataclass(frozen=True)
class Grid:
    """All combinations of numbers of jobs, numbers of machines and shares (in percent) of parallel jobs; of
    each `tables` random problems, each decided `repetitions` times after a first."""

    jobs: tuple[int, ...]
    machines: tuple[int, ...]
    shares: tuple[int, ...] = (0,)
    tables: int = 3
    repetitions: int = 5

    @property
    def size(self) -> int:
        return len(self.jobs) * len(self.machines) * len(self.shares) * self.tables


BYTES_OF_A_TIME = 40
"""Memory for an expected time while a problem is made, in bytes."""
Ask = Callable[[int, int, int, int], MappingProblem]
"""Makes a problem, by number of jobs, number of machines, share in percent, and number of the table."""


def random_problem(n: int, m: int, share: int, table: int) -> MappingProblem:
    """Execution times uniform from 1 to 100 s; half of the machines are in clusters of 4, on which parallel
    jobs take a third of that on average."""
    Memory(f"a problem of {n:,} jobs on {m:,} machines").take(BYTES_OF_A_TIME * n * m)
    rng = np.random.default_rng([SEED, n, m, table])
    etc_s = rng.uniform(1.0, 100.0, (n, m))
    clusters = m // 2 // CLUSTER_SIZE
    parallel_s = rng.uniform(1.0, 100.0, (n, clusters)) / 3.0
    can_run = rng.permutation(n) < n * share / 100
    members = np.arange(clusters * CLUSTER_SIZE).reshape(clusters, CLUSTER_SIZE).tolist()
    offered_s = np.where(can_run[:, None], parallel_s, np.inf)
    return MappingProblem.from_matrix(np.hstack([etc_s, offered_s]), None, members)


def problems_of_site(name: str) -> tuple[Ask, int]:
    """Makes problems with jobs of the classes of a site, all equally likely, on its machines and clusters;
    and the number of these machines."""
    experiment = Experiment.model_validate(
        {"name": "overhead", "site": name, "schedulers": ["olb"], "workload": {"jobs": 1}}
    )
    with tempfile.TemporaryDirectory() as folder:
        in_use = SiteSource(experiment, Path.cwd(), None).snapshot(Path(folder) / "site.db")
    if not in_use.site.job_classes:
        raise SchedulerNotLoaded(f"the site '{in_use.site.name}' has no job classes to draw jobs from")
    return partial(_drawn, in_use), in_use.site.n_machines


def _drawn(in_use: SiteInUse, n: int, m: int, share: int, table: int) -> MappingProblem:
    rng = np.random.default_rng([SEED, n, table])
    classes = [job_class.name for job_class in in_use.site.job_classes]
    drawn = rng.integers(0, len(classes), n)
    jobs = [Job(JobId(i), classes[c], 0.0) for i, c in enumerate(drawn)]
    return MappingProblem.from_etc(in_use.expected_times(jobs), None, in_use.site.members)


def measurable(name: str) -> InProcess:
    """The scheduler of a name. Raises SchedulerNotLoaded for one that does not map jobs to machines."""
    return resolve(name).require_in_process("this measurement", Kind.MAPPING)


def measure(
    schedulers: Sequence[str], grid: Grid, ask: Ask, limit_s: float, on_progress: OnProgress
) -> tuple[pl.DataFrame, dict[str, SchedulerFault]]:
    """A table with COLUMNS, and the faults of schedulers that broke a rule, which are not in the table. All
    schedulers get the same problems, in turn and one at a time, each in a process of its own."""
    specs = {name: measurable(name) for name in schedulers}
    rows: dict[str, list[Row]] = {name: [] for name in schedulers}
    faults: dict[str, SchedulerFault] = {}
    points = product(grid.jobs, grid.machines, grid.shares, range(grid.tables))

    def note(item: Item, value: list[Row] | SchedulerFault | Died) -> None:
        if isinstance(value, Died):
            faults[item.key] = SchedulerFault(value.rule, str(value), 0.0)
        elif isinstance(value, SchedulerFault):
            faults[item.key] = value
        else:
            rows[item.key] += value

    with ExitStack() as stack:
        executors = {name: stack.enter_context(Processes(1)) for name in schedulers}
        for done, point in enumerate(points, start=1):
            for name in schedulers:
                if name not in faults:
                    timed = partial(timed_rows, specs[name], ask, point, grid.repetitions, limit_s)
                    executors[name].run([Item(name, timed)], note)
            on_progress(done, grid.size)
    measured = [row for name in schedulers if name not in faults for row in rows[name]]
    return pl.DataFrame(measured, schema=COLUMNS, orient="row"), faults


def timed_rows(
    scheduler: InProcess, ask: Ask, point: tuple[int, int, int, int], repetitions: int, limit_s: float
) -> list[Row] | SchedulerFault:
    """A row for each repetition, or the fault of a scheduler that broke a rule."""
    try:
        return call_isolated(partial(_timed, scheduler.spec, ask, point, repetitions, limit_s), scheduler)
    except SchedulerFault as fault:
        return fault


def _timed(
    scheduler: SchedulerSpec,
    ask: Ask,
    point: tuple[int, int, int, int],
    repetitions: int,
    limit_s: float,
    host: Host,
) -> list[Row]:
    problem = ask(*point)
    n, m, share, table = point
    timings: list[Timing] = []
    guard = Guard(SimClock(), limit_s, timings.append)
    guarded = GuardedScheduler(host.respondent(scheduler, 0, guard), guard)
    gc.collect()
    for _ in range(1 + repetitions):
        schedule = guarded.schedule(problem)
    violation = problem.violation(schedule)
    if violation is not None:
        raise SchedulerFault.of(violation, 0.0)
    places = (scheduler.name, n, m, problem.n_places, share, table)
    return [
        (*places, repetition, decisions, wall_s - gc_s, max(cpu_s - gc_s, 0.0), gc_s)
        for repetition, (_, _, _, decisions, wall_s, cpu_s, gc_s) in enumerate(timings[1:])
    ]


def by_point(measured: pl.DataFrame) -> pl.DataFrame:
    """For each scheduler and point: median and quartiles of the wall times, and mean number of decisions."""
    wanted = {"median_s": 0.5, "low_s": 0.25, "high_s": 0.75}
    return measured.group_by(POINT, maintain_order=True).agg(
        pl.col("decisions").mean(), **{name: quantile(pl.col("wall_s"), at) for name, at in wanted.items()}
    )


def law_of(measured: pl.DataFrame, scheduler: str) -> PowerLaw | None:
    """The growth of a scheduler's decision times with jobs and, if their number varies, resources. Fitted to
    the medians of each table. None if there are too few."""
    medians = (
        measured.filter(pl.col("scheduler") == scheduler)
        .group_by("jobs", "resources", "parallel_percent", "table", maintain_order=True)
        .agg(quantile(pl.col("wall_s"), 0.5))
    )
    columns = ["jobs"] if medians["resources"].n_unique() == 1 else ["jobs", "resources"]
    sizes = [medians[name].to_numpy().astype(np.float64) for name in columns]
    try:
        return fit_power_law(sizes, medians["wall_s"].to_numpy())
    except ValueError:
        return None
