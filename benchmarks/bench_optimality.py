"""How far is each scheduler from the minimal sum of completion times?

Random ETC matrices as in Braun et al. 2001 (range-based: a base time per job times a factor per machine),
small enough for the exact optimum of `tests.scheduler.bounds`. A consistent matrix is sorted row by row: a
machine that is faster for one job is faster for all. Run with `python -m benchmarks.bench_optimality`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.record import keep
from scheduler import registry
from scheduler.mapping.problem import MappingProblem
from sil.outcome.statistics import interval
from sil.report.tables import interval_text
from tests.scheduler.bounds import least_sum_of_completions

SEED = 2001
INSTANCES = 50
JOBS, MACHINES = 50, 8
KINDS = ("consistent", "inconsistent")
TASK_RANGE, MACHINE_RANGE = 3000.0, 1000.0


def random_matrix(kind: str, rng: np.random.Generator) -> NDArray[np.float64]:
    """ETC (JOBS, MACHINES) of high heterogeneity in jobs and machines."""
    base = rng.uniform(1.0, TASK_RANGE, JOBS)
    etc_s = base[:, None] * rng.uniform(1.0, MACHINE_RANGE, (JOBS, MACHINES))
    return np.sort(etc_s, axis=1) if kind == "consistent" else etc_s


def percent_above_optimum(kind: str) -> dict[str, NDArray[np.float64]]:
    """Per scheduler: 100 (sum / least sum - 1) on each instance."""
    rng = np.random.default_rng([SEED, KINDS.index(kind)])
    above: dict[str, list[float]] = {name: [] for name in registry.ON_MACHINES}
    for _ in range(INSTANCES):
        etc_s = random_matrix(kind, rng)
        least_s = least_sum_of_completions(etc_s, np.zeros(MACHINES))
        for name, values in above.items():
            made = registry.resolve(name).make().schedule(MappingProblem.from_matrix(etc_s))
            values.append(100.0 * (made.sum_completion_s / least_s - 1.0))
    return {name: np.array(values) for name, values in above.items()}


def main() -> None:
    found = {kind: percent_above_optimum(kind) for kind in KINDS}
    title = f"Sum of completion times above the optimum (%), {JOBS} jobs x {MACHINES} machines"
    table = Table(title=title, title_justify="left")
    table.add_column("scheduler")
    for kind in KINDS:
        table.add_column(kind, justify="right")
    for name in registry.ON_MACHINES:
        table.add_row(name, *(interval_text(interval(found[kind][name]), 1) for kind in KINDS))
    Console().print(table)
    means = {
        name: {kind: round(float(found[kind][name].mean()), 3) for kind in KINDS}
        for name in registry.ON_MACHINES
    }
    size = {"jobs": JOBS, "machines": MACHINES, "instances": INSTANCES}
    path = keep("optimality", SEED, {**size, "percent_above_optimum": means})
    print(f"{INSTANCES} instances each, mean and half-width of the 95 % interval. Kept in {path.name}.")


if __name__ == "__main__":
    main()
