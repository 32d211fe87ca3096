"""Section 3.1 of the paper on CISNE-P: what dynamic coscheduling gains for jobs that share their nodes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise, product
from typing import Any

import polars as pl

from scheduler.model import Job, JobId
from scheduler.time_shared.loras import Loras
from sil.outcome.statistics import Interval, Sample, interval
from sil.report.figures import bars
from sil.studies.cisne.experiments import measures, run
from sil.studies.findings import Drawing, Findings, sample, table
from sil.studies.ledger import Claim, Verdict, counted, shown, spanned
from sil.workers.runner import Runner
from sil.world.time_shared_cluster import MEMORY_MB, TimeSharedCluster

WORKLOADS = {"B": ("MG.A", "LU.A"), "C": ("SP.A", "CG.A"), "D": ("IS.A", "FT.A")}
MPLS = (2, 3, 4)
TASKS = 8
LOSSES = (0.3, 0.6, 1.0)
"""Without coscheduling, communication takes longer by this share for each other task that has the CPU."""
DRAWN = 0.6
DEDICATED, SHARED = "dedicated", "non-dedicated"
SHARE_OF_NODES = {DEDICATED: 0.0, SHARED: 0.25}

METHOD = (
    "2 to 4 jobs of 8 tasks at once on the same 8 nodes, chosen in turn from the workloads B {MG, LU}, C "
    "{SP, CG} and D {IS, FT} of class A, which communicate more and more; dedicated, and with local users "
    "on a quarter of the nodes. Dynamic coscheduling is an input of the model: with it, communication "
    "takes as long as alone; without it, longer by a loss of 0.3, 0.6 or 1.0 of itself for each other task "
    "that has the CPU. The paper's numbers are in its charts only, not in its text, so this study shows "
    "what follows from the losses and tests no claim."
)


@dataclass(frozen=True)
class Case:
    workload: str
    mpl: int
    where: str
    loss: float
    replication: int


def study(seeds: int, runner: Runner) -> Findings:
    cases = [
        Case(*point, seed)
        for seed in range(seeds)
        for point in product(WORKLOADS, MPLS, SHARE_OF_NODES, (0.0, *LOSSES))
    ]
    found = pl.DataFrame(runner.map(_carry_out, cases), infer_schema_length=None)
    return Findings(
        name="cisnep-dyn",
        title="CISNE-P, section 3.1: dynamic coscheduling",
        source="CISNE-P, Figure 5",
        method=f"{METHOD} {seeds} seeds; 95 % intervals.",
        claims=_claims(found),
        drawings=[_drawing(found, where) for where in SHARE_OF_NODES],
        tables={"What coscheduling saves of the makespan (%)": _table(found)},
    )


def _carry_out(case: Case) -> dict[str, Any]:
    names = WORKLOADS[case.workload]
    jobs = [Job(JobId(i), names[i % len(names)], 0.0, n_tasks=TASKS) for i in range(case.mpl)]
    cluster = (
        TimeSharedCluster((MEMORY_MB,) * TASKS)
        .with_local_users(SHARE_OF_NODES[case.where])
        .with_coscheduling(case.loss)
    )
    return asdict(case) | measures(run(cluster, jobs, Loras(), {}, case.replication))


def _makespan_s(found: pl.DataFrame, workload: str, mpl: int, where: str, loss: float) -> Sample:
    return sample(found, "makespan_s", workload=workload, mpl=mpl, where=where, loss=loss)


def _saving(found: pl.DataFrame, workload: str, mpl: int, where: str, loss: float) -> Sample:
    """Percent of the makespan without coscheduling."""
    without = _makespan_s(found, workload, mpl, where, loss)
    return 100 * (1 - _makespan_s(found, workload, mpl, where, 0.0) / without)


def _claims(found: pl.DataFrame) -> list[Claim]:
    saving = partial(_saving, found)
    return [
        _calibration(
            "Dynamic coscheduling is effective in general",
            [interval(saving(*point)) for point in product(WORKLOADS, MPLS, SHARE_OF_NODES, LOSSES)],
        ),
        _calibration(
            "It does most for the workload that communicates most (D)",
            [
                interval(saving("D", *point) - saving(other, *point))
                for other in ("B", "C")
                for point in product(MPLS, SHARE_OF_NODES, LOSSES)
            ],
        ),
        _calibration(
            "Its gain grows with the MPL",
            [
                interval(saving(w, more, where, loss) - saving(w, fewer, where, loss))
                for w, (fewer, more), where, loss in product(
                    WORKLOADS, pairwise(MPLS), SHARE_OF_NODES, LOSSES
                )
            ],
        ),
        _calibration(
            "It gains less in a dedicated cluster",
            [
                interval(saving(w, mpl, SHARED, loss) - saving(w, mpl, DEDICATED, loss))
                for w, mpl, loss in product(WORKLOADS, MPLS, LOSSES)
            ],
        ),
        Claim(
            "The reason is that tasks with as many packets get the same priority, and one is drawn by lot",
            "section 3.1",
            "none: the model has no packets and no priorities",
            "not tried",
            Verdict.NOT_TESTABLE,
        ),
        Claim(
            "At L = 0.5 and MPL 4 local users wait no longer than 400 ms",
            "cited from another paper",
            "none: the model is fluid, without time slices to wait for",
            "not tried",
            Verdict.NOT_TESTABLE,
        ),
    ]


def _calibration(claim: str, found: list[Interval]) -> Claim:
    rule = "none: it follows from the losses, which are inputs; in how many points of their grid it is so"
    return Claim(
        claim, "Figure 5", rule, f"{counted(found)}; {spanned(found, 'points')}", Verdict.CALIBRATION
    )


def _table(found: pl.DataFrame) -> pl.DataFrame:
    rows = [
        (*point, *(shown(interval(_saving(found, *point, loss))) for loss in LOSSES))
        for point in product(WORKLOADS, MPLS, SHARE_OF_NODES)
    ]
    return table(("workload", "MPL", "cluster", *(f"loss {loss:g}" for loss in LOSSES)), rows)


def _drawing(found: pl.DataFrame, where: str) -> Drawing:
    losses = {"with coscheduling": 0.0, f"without, loss {DRAWN:g}": DRAWN}
    rows = [
        (f"{w}, MPL {mpl}", name, float(_makespan_s(found, w, mpl, where, loss).mean()))
        for w, mpl, (name, loss) in product(WORKLOADS, MPLS, losses.items())
    ]
    chart = bars(rows, "Workload", "Makespan (s)", "Dynamic coscheduling")
    return Drawing(f"figure-5-{where}", f"Figure 5: makespan, {where} cluster", chart)
