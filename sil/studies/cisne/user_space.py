"""Section 3.2 of the paper on CISNE-P: the cost of coscheduling in user space."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from typing import Any

import polars as pl

from scheduler.time_shared.loras import Loras
from sil.outcome.statistics import Sample, interval
from sil.report.figures import bars
from sil.studies.cisne.experiments import POLICIES, jobs_of, measures, run
from sil.studies.findings import Drawing, Findings, sample, table
from sil.studies.ledger import Claim, Verdict, all_positive, below, counted, shown, spanned
from sil.workers.runner import Runner
from sil.world.time_shared_cluster import TimeSharedCluster

JOBS = 90
SCHEDULERS = {"FCFS-FFIT": ("fcfs", "first_fit"), "SJF-JFIRST": ("sjf", "just_first")}
BASIC, NORMAL = "Basic", "Normal"
DEDICATED, SHARED = "dedicated", "non-dedicated"
SHARE_OF_NODES = {DEDICATED: 0.0, SHARED: 0.25}
KERNEL = (0.0, 0.0)
OVERHEADS, LOSSES = (0.02, 0.05, 0.1), (0.0, 0.3, 0.5)
USER_SPACE = tuple(product(OVERHEADS, LOSSES))
"""Share of the CPU for reading /proc, and loss of communication because the bonus comes late."""
DRAWN = (0.05, 0.3)
CONTROL_DELAY_S = 1.0
MOST_PERCENT = {"turnaround_s": 10.0, "makespan_s": 30.0}

METHOD = (
    "90 jobs {CG.B, IS.B, MG.B, BT.A} on 2, 4 or 8 of 16 nodes, Poisson arrivals 15 s apart (the paper "
    "does not say), under FCFS with First Fit and SJF with Just First, both with Uniform nodes and an MPL "
    "of at most 4; dedicated, and with local users on a quarter of the nodes. The costs of user space are "
    "inputs of the model: 2, 5 or 10 % of each CPU, a loss of 0, 0.3 or 0.5 of communication for each "
    "other task that has the CPU, and jobs that stop and restart 1 s late; in the kernel all of these are "
    "zero."
)


@dataclass(frozen=True)
class Case:
    scheduler: str
    where: str
    overhead: float
    loss: float
    replication: int


def study(seeds: int, runner: Runner) -> Findings:
    points = [
        *product(SCHEDULERS, SHARE_OF_NODES, (KERNEL, *USER_SPACE)),
        *product((BASIC, NORMAL), SHARE_OF_NODES, (KERNEL,)),
    ]
    cases = [Case(name, where, *costs, seed) for seed in range(seeds) for name, where, costs in points]
    found = pl.DataFrame(runner.map(_carry_out, cases), infer_schema_length=None)
    return Findings(
        name="cisnep-user-space",
        title="CISNE-P, section 3.2: coscheduling in the kernel and in user space",
        source="CISNE-P, Figures 6 and 7",
        method=f"{METHOD} {seeds} seeds; 95 % intervals.",
        claims=_claims(found),
        drawings=[
            _drawing(found, "6", "turnaround_s", "Mean turnaround"),
            _drawing(found, "7", "makespan_s", "Makespan"),
        ],
        tables={"What user space costs (%)": _table(found)},
    )


def _carry_out(case: Case) -> dict[str, Any]:
    delay_s = CONTROL_DELAY_S if case.overhead else 0.0
    cluster = (
        TimeSharedCluster()
        .with_local_users(SHARE_OF_NODES[case.where])
        .with_coscheduling(case.loss, case.overhead, delay_s)
    )
    if case.scheduler in SCHEDULERS:
        scheduler = Loras(*SCHEDULERS[case.scheduler], "uniform")
    else:
        scheduler = POLICIES[case.scheduler].scheduler()
        cluster = cluster.with_limits(POLICIES[case.scheduler].most_jobs)
    jobs = jobs_of(case.replication, JOBS)
    return asdict(case) | measures(run(cluster, jobs, scheduler, {}, case.replication))


def _sample(
    found: pl.DataFrame, column: str, scheduler: str, where: str, costs: tuple[float, float]
) -> Sample:
    overhead, loss = costs
    return sample(found, column, scheduler=scheduler, where=where, overhead=overhead, loss=loss)


def _penalty(
    found: pl.DataFrame, column: str, scheduler: str, where: str, costs: tuple[float, float]
) -> Sample:
    """Percent more than in the kernel."""
    kernel = _sample(found, column, scheduler, where, KERNEL)
    return 100 * (_sample(found, column, scheduler, where, costs) / kernel - 1)


def _claims(found: pl.DataFrame) -> list[Claim]:
    penalty = partial(_penalty, found)
    points = list(product(SCHEDULERS, SHARE_OF_NODES, USER_SPACE))
    penalties = {column: [penalty(column, *point) for point in points] for column in MOST_PERCENT}
    bounded = [below(interval(x), MOST_PERCENT[column]) for column, of in penalties.items() for x in of]
    turnaround, makespan = penalties.values()
    more_sensitive = [interval(m - t) for m, t in zip(makespan, turnaround, strict=True)]
    apart = [
        interval(penalty(column, name, SHARED, costs) - penalty(column, name, DEDICATED, costs))
        for name, costs, column in product(SCHEDULERS, USER_SPACE, MOST_PERCENT)
    ]
    furthest = max(apart, key=lambda x: abs(x.mean))
    shorter = {
        f"{column.removesuffix('_s')} {where}": interval(
            _sample(found, column, BASIC, where, KERNEL) - _sample(found, column, NORMAL, where, KERNEL)
        )
        for where, column in product(SHARE_OF_NODES, MOST_PERCENT)
    }
    return [
        Claim(
            "User space costs less than 10 % of the turnaround and at most 30 % of the makespan",
            "Figures 6 and 7",
            "none: it follows from the costs, which are inputs; in how many points of their grid it is so",
            f"{counted(bounded)}; turnaround {_range(turnaround)}, makespan {_range(makespan)}",
            Verdict.CALIBRATION,
        ),
        Claim(
            "The makespan is more sensitive than the turnaround",
            "section 3.2",
            "none: it follows from the costs; in how many points of their grid it is so",
            f"{counted(more_sensitive)}; {spanned(more_sensitive, 'points')}",
            Verdict.CALIBRATION,
        ),
        Claim(
            "It is similar in a dedicated and in a non-dedicated cluster",
            "section 3.2",
            "none: it follows from the costs; the largest difference over their grid is shown",
            f"at most {shown(furthest, 1, 'points')}",
            Verdict.CALIBRATION,
        ),
        Claim(
            "Sharing time as well as space improves performance",
            "sections 1 and 4",
            "Normal with an MPL of 4 has a shorter mean turnaround and makespan than Basic, in both clusters",
            ", ".join(f"{what}: by {shown(x, 0, 's')}" for what, x in shorter.items()),
            all_positive(shorter.values()),
        ),
        Claim(
            "The overheads are almost insignificant, and the system has become portable",
            "section 4",
            "none: a statement",
            "see the table of what user space costs",
            Verdict.NOT_TESTABLE,
        ),
    ]


def _range(samples: list[Sample]) -> str:
    means = [float(x.mean()) for x in samples]
    return f"{min(means):+.1f} to {max(means):+.1f} %"


def _table(found: pl.DataFrame) -> pl.DataFrame:
    rows = []
    for name, where, costs in product(SCHEDULERS, SHARE_OF_NODES, USER_SPACE):
        penalties = (shown(interval(_penalty(found, column, name, where, costs))) for column in MOST_PERCENT)
        rows.append((name, where, f"{costs[0]:.0%}", costs[1], *penalties))
    return table(("scheduler", "cluster", "CPU overhead", "loss", "turnaround", "makespan"), rows)


def _drawing(found: pl.DataFrame, number: str, column: str, title: str) -> Drawing:
    spaces = {"kernel": KERNEL, f"user space ({DRAWN[0]:.0%} CPU, loss {DRAWN[1]:g})": DRAWN}
    rows = [
        (f"{name}, {where}", space, float(_sample(found, column, name, where, costs).mean()))
        for name, where, (space, costs) in product(SCHEDULERS, SHARE_OF_NODES, spaces.items())
    ]
    chart = bars(rows, "Scheduler and cluster", f"{title} (s)", "Coscheduling")
    return Drawing(f"figure-{number}", f"Figure {number}: {title.lower()}, kernel and user space", chart)
