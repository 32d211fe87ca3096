"""The studies of the paper on CISNE-P: what dynamic coscheduling gains, and what it costs in user space."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise, product
from math import inf
from typing import Any

import polars as pl

from scheduler.model import Job, JobId
from scheduler.time_shared.loras import JobChoice, NodeChoice
from sil.outcome.statistics import Sample
from sil.report.figures import bars
from sil.report.page import Part
from sil.studies.cisne.experiments import POLICIES, Composition, jobs_of, measures, run
from sil.studies.ledger import Claim, Findings, Study
from sil.studies.rules import Estimate, GridSamples, below, inside, table, text
from sil.workers.runner import Runner
from sil.world.time_shared_cluster import MEMORY_MB, TimeSharedCluster

MAX_PERCENT = {"turnaround_s": 10.0, "makespan_s": 30.0}
SIMILAR_POINTS = 5.0
DYNAMIC = Study("cisnep-dyn")
USER_SPACE = Study("cisnep-user-space", similar_points=SIMILAR_POINTS)

DEDICATED, SHARED = "dedicated", "non-dedicated"
SHARE_OF_NODES = {DEDICATED: 0.0, SHARED: 0.25}
"""The share of nodes on which there are local users."""

# Dynamic coscheduling
WORKLOADS = {"B": ("MG.A", "LU.A"), "C": ("SP.A", "CG.A"), "D": ("IS.A", "FT.A")}
MPLS = (2, 3, 4)
TASKS = 8
LOSSES = (0.3, 0.6, 1.0)
"""Without coscheduling, communication takes longer by this share for each other task that has the CPU."""
DRAWN_LOSS = 0.6

# User space
JOBS = 90
SCHEDULERS = {
    "FCFS-FFIT": Composition(JobChoice.FIRST_FIT, NodeChoice.UNIFORM),
    "SJF-JFIRST": Composition(JobChoice.JUST_FIRST, NodeChoice.UNIFORM, ordering="sjf"),
}
BASIC, NORMAL = "Basic", "Normal"
Costs = tuple[float, float]
"""Share of the CPU for reading /proc, and loss of communication because the bonus comes late."""
KERNEL: Costs = (0.0, 0.0)
COSTS: tuple[Costs, ...] = tuple(product((0.02, 0.05, 0.1), (0.0, 0.3, 0.5)))
DRAWN_COSTS: Costs = (0.05, 0.3)
CONTROL_DELAY_S = 1.0


def _samples(
    cases: Sequence[tuple[Any, ...]], measured: Iterable[dict[str, float]], *axes: str
) -> GridSamples:
    """What runs measured; their cases are a seed and a point."""
    labels = table(("replication", *axes), cases)
    return GridSamples(pl.concat([labels, pl.DataFrame(measured)], how="horizontal"), *axes)


# -- Section 3.1: dynamic coscheduling ---------------------------------------------------------------------


def dynamic(seeds: int, runner: Runner) -> Findings:
    cases = list(product(range(seeds), WORKLOADS, MPLS, SHARE_OF_NODES, (0.0, *LOSSES)))
    found = _samples(cases, runner.map(_run_dynamic, cases), "workload", "mpl", "where", "loss")
    rows = [
        (*point, *(text(Estimate(_saving(found, *point, loss))) for loss in LOSSES))
        for point in product(WORKLOADS, MPLS, SHARE_OF_NODES)
    ]
    columns = ("workload", "MPL", "cluster", *(f"loss {loss:g}" for loss in LOSSES))
    tables = {"What coscheduling saves of the makespan (%)": table(columns, rows)}
    drawings = [_makespans(found, where) for where in SHARE_OF_NODES]
    return DYNAMIC.findings(_dynamic_claims(partial(_saving, found)), drawings, tables, seeds=seeds)


def _run_dynamic(case: tuple[int, str, int, str, float]) -> dict[str, float]:
    seed, workload, mpl, where, loss = case
    names = WORKLOADS[workload]
    jobs = [Job(JobId(i), names[i % len(names)], 0.0, n_tasks=TASKS) for i in range(mpl)]
    cluster = TimeSharedCluster((MEMORY_MB,) * TASKS).with_local_users(SHARE_OF_NODES[where])
    return measures(run(cluster.with_coscheduling(loss), jobs, POLICIES[NORMAL], {}, seed, inf))


def _saving(found: GridSamples, workload: str, mpl: int, where: str, loss: float) -> Sample:
    """The saving in percent of the makespan without coscheduling."""
    with_it, without = (found("makespan_s", workload, mpl, where, x) for x in (0.0, loss))
    return 100 * (1 - with_it / without)


def _dynamic_claims(saving: Callable[..., Sample]) -> list[Claim]:
    points = list(product(MPLS, SHARE_OF_NODES, LOSSES))
    in_general = [saving(w, *point) for w, point in product(WORKLOADS, points)]
    most_for_d = [saving("D", *point) - saving(other, *point) for other, point in product("BC", points)]
    with_mpl = [
        saving(w, more, where, loss) - saving(w, fewer, where, loss)
        for w, (fewer, more), where, loss in product(WORKLOADS, pairwise(MPLS), SHARE_OF_NODES, LOSSES)
    ]
    less_dedicated = [
        saving(w, mpl, SHARED, loss) - saving(w, mpl, DEDICATED, loss)
        for w, mpl, loss in product(WORKLOADS, MPLS, LOSSES)
    ]
    found = {
        "effective": in_general,
        "most-for-d": most_for_d,
        "grows-with-mpl": with_mpl,
        "less-if-dedicated": less_dedicated,
    }
    return [
        *(DYNAMIC.claim(name, map(Estimate, cases)) for name, cases in found.items()),
        DYNAMIC.without_rule("drawn-by-lot"),
        DYNAMIC.without_rule("local-users-wait"),
    ]


def _makespans(found: GridSamples, where: str) -> Part:
    losses = {"with coscheduling": 0.0, f"without, loss {DRAWN_LOSS:g}": DRAWN_LOSS}
    rows = [
        (f"{w}, MPL {mpl}", name, found.mean("makespan_s", w, mpl, where, loss))
        for w, mpl, (name, loss) in product(WORKLOADS, MPLS, losses.items())
    ]
    chart = bars(rows, "Workload", "Makespan (s)", "Dynamic coscheduling")
    return Part(f"Figure 5: makespan, {where} cluster", chart, name=f"figure-5-{where}")


# -- Section 3.2: the cost of user space -------------------------------------------------------------------


def user_space(seeds: int, runner: Runner) -> Findings:
    grid = [
        *product(SCHEDULERS, SHARE_OF_NODES, (KERNEL, *COSTS)),
        *product((BASIC, NORMAL), SHARE_OF_NODES, (KERNEL,)),
    ]
    cases = [(seed, name, where, *costs) for seed in range(seeds) for name, where, costs in grid]
    axes = ("scheduler", "where", "overhead", "loss")
    found = _samples(cases, runner.map(_run_in_user_space, cases), *axes)
    rows = []
    for name, where, costs in product(SCHEDULERS, SHARE_OF_NODES, COSTS):
        penalties = (text(Estimate(_penalty(found, measure, name, where, costs))) for measure in MAX_PERCENT)
        rows.append((name, where, f"{costs[0]:.0%}", costs[1], *penalties))
    columns = ("scheduler", "cluster", "CPU overhead", "loss", "turnaround", "makespan")
    drawings = [
        _kernel_and_user_space(found, "6", "turnaround_s", "Mean turnaround"),
        _kernel_and_user_space(found, "7", "makespan_s", "Makespan"),
    ]
    tables = {"What user space costs (%)": table(columns, rows)}
    return USER_SPACE.findings(_user_space_claims(found), drawings, tables, seeds=seeds)


def _run_in_user_space(case: tuple[int, str, str, float, float]) -> dict[str, float]:
    seed, scheduler, where, overhead, loss = case
    cluster = TimeSharedCluster().with_local_users(SHARE_OF_NODES[where])
    cluster = cluster.with_coscheduling(loss, overhead, CONTROL_DELAY_S if overhead else 0.0)
    return measures(run(cluster, jobs_of(seed, JOBS), (SCHEDULERS | POLICIES)[scheduler], {}, seed))


def _penalty(found: GridSamples, measure: str, scheduler: str, where: str, costs: Costs) -> Sample:
    """The percentage by which a measure is larger than in the kernel."""
    return 100 * (found(measure, scheduler, where, *costs) / found(measure, scheduler, where, *KERNEL) - 1)


def _user_space_claims(found: GridSamples) -> list[Claim]:
    penalty = partial(_penalty, found)
    points = list(product(SCHEDULERS, SHARE_OF_NODES, COSTS))
    penalties = {measure: [penalty(measure, *point) for point in points] for measure in MAX_PERCENT}
    turnaround, makespan = penalties.values()
    differences = [
        Estimate(penalty(measure, name, SHARED, costs) - penalty(measure, name, DEDICATED, costs))
        for name, costs, measure in product(SCHEDULERS, COSTS, MAX_PERCENT)
    ]
    over_grid = {
        "bounded": [
            below(Estimate(x), MAX_PERCENT[measure]) for measure, of in penalties.items() for x in of
        ],
        "makespan-is-sensitive": [Estimate(m - t) for m, t in zip(makespan, turnaround, strict=True)],
        "similar": [inside(x, -SIMILAR_POINTS, SIMILAR_POINTS) for x in differences],
    }
    shorter = {
        f"{measure.removesuffix('_s')} {where}": Estimate(
            found(measure, BASIC, where, *KERNEL) - found(measure, NORMAL, where, *KERNEL)
        )
        for where, measure in product(SHARE_OF_NODES, MAX_PERCENT)
    }
    return [
        *(USER_SPACE.claim(name, cases) for name, cases in over_grid.items()),
        USER_SPACE.claim(
            "sharing-helps",
            shorter.values(),
            ", ".join(f"{what}: by {text(x, 0, 's')}" for what, x in shorter.items()),
        ),
        USER_SPACE.without_rule("insignificant", "see the table of what user space costs"),
    ]


def _kernel_and_user_space(found: GridSamples, number: str, measure: str, title: str) -> Part:
    overhead, loss = DRAWN_COSTS
    spaces = {"kernel": KERNEL, f"user space ({overhead:.0%} CPU, loss {loss:g})": DRAWN_COSTS}
    rows = [
        (f"{name}, {where}", space, found.mean(measure, name, where, *costs))
        for name, where, (space, costs) in product(SCHEDULERS, SHARE_OF_NODES, spaces.items())
    ]
    chart = bars(rows, "Scheduler and cluster", f"{title} (s)", "Coscheduling")
    title = f"Figure {number}: {title.lower()}, kernel and user space"
    return Part(title, chart, name=f"figure-{number}")
