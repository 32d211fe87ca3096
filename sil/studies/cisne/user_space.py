"""Section 3.2 of the paper on CISNE-P: what it costs to coschedule in user space."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import polars as pl

from scheduler.time_shared.scheduler import Loras
from sil.outcome.statistics import Interval, Sample, interval
from sil.report.figures import bars
from sil.runs.on_time_shared import SharedCluster
from sil.studies.cisne.experiments import POLICIES, jobs_of, run, told_of
from sil.studies.findings import Drawing, Findings
from sil.studies.ledger import Claim, Verdict, all_positive, counted, shown
from sil.studies.run_options import Course
from sil.workers.parallel import done_by

JOBS = 90
SCHEDULERS = {"FCFS-FFIT": ("fcfs", "first_fit"), "SJF-JFIRST": ("sjf", "just_first")}
BASIC, NORMAL = "Basic", "Normal"
DEDICATED, SHARED = "dedicated", "non-dedicated"
SHARE_OF_NODES = {DEDICATED: 0.0, SHARED: 0.25}
KERNEL = (0.0, 0.0)
OVERHEADS, LOSSES = (0.02, 0.05, 0.1), (0.0, 0.3, 0.5)
USER_SPACE = tuple(product(OVERHEADS, LOSSES))
"""Share of the CPU for looking at /proc, and loss of communication since the bonus comes late."""
DRAWN = (0.05, 0.3)
CONTROL_DELAY_S = 1.0
MOST_TURNAROUND_PERCENT, MOST_MAKESPAN_PERCENT = 10.0, 30.0

METHOD = (
    "90 jobs {CG.B, IS.B, MG.B, BT.A} on 2, 4 or 8 of 16 nodes, Poisson arrivals 15 s apart (the paper "
    "does not say), under FCFS with First Fit and SJF with Just First, both with Uniform nodes and an MPL"
    " of at most 4; dedicated, and with local users on a quarter of the nodes. What user space costs are "
    "inputs of the model: 2, 5 or 10 % of each CPU, a loss of 0, 0.3 or 0.5 of communication for each "
    "other task that has the CPU, and jobs that stop and restart 1 s late; in the kernel all of these are"
    " zero."
)


@dataclass(frozen=True)
class Case:
    scheduler: str
    where: str
    overhead: float
    loss: float
    replication: int


def study(seeds: int, course: Course) -> Findings:
    cases = [
        *(
            Case(name, where, *costs, seed)
            for seed in range(seeds)
            for name, where, costs in product(SCHEDULERS, SHARE_OF_NODES, (KERNEL, *USER_SPACE))
        ),
        *(
            Case(name, where, *KERNEL, seed)
            for seed in range(seeds)
            for name, where in product((BASIC, NORMAL), SHARE_OF_NODES)
        ),
    ]
    found = pl.DataFrame(done_by(_carry_out, cases, course), infer_schema_length=None)
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


def _carry_out(case: Case) -> dict[str, str | int | float]:
    delay_s = CONTROL_DELAY_S if case.overhead else 0.0
    cluster = (
        SharedCluster()
        .with_local_users(SHARE_OF_NODES[case.where])
        .with_coscheduling(case.loss, case.overhead, delay_s)
    )
    if case.scheduler in SCHEDULERS:
        scheduler = Loras(*SCHEDULERS[case.scheduler], "uniform")
    else:
        scheduler = POLICIES[case.scheduler].scheduler()
        cluster = cluster.with_limits(POLICIES[case.scheduler].most_jobs)
    told = told_of(run(cluster, jobs_of(case.replication, JOBS), scheduler, {}, case.replication))
    return {
        "scheduler": case.scheduler,
        "where": case.where,
        "overhead": case.overhead,
        "loss": case.loss,
        "replication": case.replication,
        "turnaround_s": told["turnaround_s"],
        "makespan_s": told["makespan_s"],
    }


def _sample(
    found: pl.DataFrame, scheduler: str, where: str, costs: tuple[float, float], column: str
) -> Sample:
    chosen = found.filter(
        (pl.col("scheduler") == scheduler)
        & (pl.col("where") == where)
        & (pl.col("overhead") == costs[0])
        & (pl.col("loss") == costs[1])
    )
    return chosen.sort("replication")[column].to_numpy()


def _penalty(
    found: pl.DataFrame, scheduler: str, where: str, costs: tuple[float, float], column: str
) -> Sample:
    """Percent more than in the kernel, seed by seed."""
    kernel = _sample(found, scheduler, where, KERNEL, column)
    return 100 * (_sample(found, scheduler, where, costs, column) / kernel - 1)


def _claims(found: pl.DataFrame) -> list[Claim]:
    points = list(product(SCHEDULERS, SHARE_OF_NODES, USER_SPACE))
    turnaround = [_penalty(found, *point, "turnaround_s") for point in points]
    makespan = [_penalty(found, *point, "makespan_s") for point in points]
    bounded = [
        *(_below(interval(x), MOST_TURNAROUND_PERCENT) for x in turnaround),
        *(_below(interval(x), MOST_MAKESPAN_PERCENT) for x in makespan),
    ]
    more_sensitive = [interval(m - t) for m, t in zip(makespan, turnaround, strict=True)]
    apart = [
        interval(
            _penalty(found, name, SHARED, costs, column) - _penalty(found, name, DEDICATED, costs, column)
        )
        for name, costs, column in product(SCHEDULERS, USER_SPACE, ("turnaround_s", "makespan_s"))
    ]
    furthest = max(apart, key=lambda x: abs(x.mean))
    shorter = {
        (where, column): interval(
            _sample(found, BASIC, where, KERNEL, column) - _sample(found, NORMAL, where, KERNEL, column)
        )
        for where, column in product(SHARE_OF_NODES, ("turnaround_s", "makespan_s"))
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
            f"{counted(more_sensitive)}; from {shown(min(more_sensitive, key=lambda x: x.mean), 1)} to "
            f"{shown(max(more_sensitive, key=lambda x: x.mean), 1)} points",
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
            ", ".join(
                f"{column.removesuffix('_s')} {where}: by {shown(x, 0, 's')}"
                for (where, column), x in shorter.items()
            ),
            all_positive(list(shorter.values())),
        ),
        Claim(
            "The overheads are almost insignificant, and the system has become portable",
            "section 4",
            "none: a statement",
            "see the table of what user space costs",
            Verdict.NOT_TESTABLE,
        ),
    ]


def _below(found: Interval, limit: float) -> Interval:
    return Interval(limit - found.mean, found.half_width)


def _range(samples: list[Sample]) -> str:
    means = [float(x.mean()) for x in samples]
    return f"{min(means):+.1f} to {max(means):+.1f} %"


def _table(found: pl.DataFrame) -> pl.DataFrame:
    rows = [
        (
            name,
            where,
            f"{costs[0]:.0%}",
            costs[1],
            *(
                shown(interval(_penalty(found, name, where, costs, column)), 1)
                for column in ("turnaround_s", "makespan_s")
            ),
        )
        for name, where, costs in product(SCHEDULERS, SHARE_OF_NODES, USER_SPACE)
    ]
    columns = ["scheduler", "cluster", "CPU overhead", "loss", "turnaround", "makespan"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def _drawing(found: pl.DataFrame, number: str, column: str, title: str) -> Drawing:
    spaces = {"kernel": KERNEL, f"user space ({DRAWN[0]:.0%} CPU, loss {DRAWN[1]:g})": DRAWN}
    rows = [
        (f"{name}, {where}", space, float(_sample(found, name, where, costs, column).mean()))
        for name, where in product(SCHEDULERS, SHARE_OF_NODES)
        for space, costs in spaces.items()
    ]
    frame = pl.DataFrame(rows, schema=["scheduler", "coscheduling", "s"], orient="row")
    chart = bars(
        frame, "scheduler", "Scheduler and cluster", "s", f"{title} (s)", "coscheduling", "Coscheduling"
    )
    return Drawing(f"figure-{number}", f"Figure {number}: {title.lower()}, kernel and user space", chart)
