"""Section 3.1 of the paper on CISNE-P: what dynamic coscheduling does for jobs that share their nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import polars as pl

from scheduler.model import Job, JobId
from scheduler.time_shared.scheduler import Loras
from sil.outcome.statistics import Interval, Sample, interval
from sil.report.figures import bars
from sil.runs.on_time_shared import MEMORY_MB, SharedCluster
from sil.studies.cisne.experiments import run, told_of
from sil.studies.findings import Drawing, Findings
from sil.studies.ledger import Claim, Verdict, counted, shown
from sil.studies.run_options import Course
from sil.workers.parallel import done_by

WORKLOADS = {"B": ("MG.A", "LU.A"), "C": ("SP.A", "CG.A"), "D": ("IS.A", "FT.A")}
MPLS = (2, 3, 4)
TASKS = 8
LOSSES = (0.3, 0.6, 1.0)
"""Without coscheduling, so much longer communication takes for each other task that holds the CPU."""
DRAWN = 0.6
DEDICATED, SHARED = "dedicated", "non-dedicated"
SHARE_OF_NODES = {DEDICATED: 0.0, SHARED: 0.25}

METHOD = (
    "2 to 4 jobs of 8 tasks at once on the same 8 nodes, chosen in turn from the workloads B {MG, LU}, C "
    "{SP, CG} and D {IS, FT} of class A, which communicate more and more; dedicated, and with local users"
    " on a quarter of the nodes. Dynamic coscheduling is an input of the model: with it, communication "
    "takes as long as alone; without it, longer by a loss for each other task that has the CPU, 0.3, 0.6 "
    "or 1.0 of itself. The paper gives no numbers but those in its charts, which the text does not carry;"
    " so what follows from the losses is shown, and no claim is tested."
)


@dataclass(frozen=True)
class Case:
    workload: str
    mpl: int
    where: str
    loss: float
    replication: int


def study(seeds: int, course: Course) -> Findings:
    cases = [
        Case(*point, seed)
        for seed in range(seeds)
        for point in product(WORKLOADS, MPLS, SHARE_OF_NODES, (0.0, *LOSSES))
    ]
    found = pl.DataFrame(done_by(_carry_out, cases, course), infer_schema_length=None)
    return Findings(
        name="cisnep-dyn",
        title="CISNE-P, section 3.1: dynamic coscheduling",
        source="CISNE-P, Figure 5",
        method=f"{METHOD} {seeds} seeds; 95 % intervals.",
        claims=_claims(found),
        drawings=[_drawing(found, where) for where in SHARE_OF_NODES],
        tables={"What coscheduling saves of the makespan (%)": _table(found)},
    )


def _carry_out(case: Case) -> dict[str, str | int | float]:
    names = WORKLOADS[case.workload]
    jobs = [Job(JobId(i), names[i % len(names)], 0.0, n_tasks=TASKS) for i in range(case.mpl)]
    cluster = (
        SharedCluster((MEMORY_MB,) * TASKS)
        .with_local_users(SHARE_OF_NODES[case.where])
        .with_coscheduling(case.loss)
    )
    told = told_of(run(cluster, jobs, Loras(), {}, case.replication))
    return {
        "workload": case.workload,
        "mpl": case.mpl,
        "where": case.where,
        "loss": case.loss,
        "replication": case.replication,
        "makespan_s": told["makespan_s"],
    }


def _makespan_s(found: pl.DataFrame, workload: str, mpl: int, where: str, loss: float) -> Sample:
    chosen = found.filter(
        (pl.col("workload") == workload)
        & (pl.col("mpl") == mpl)
        & (pl.col("where") == where)
        & (pl.col("loss") == loss)
    )
    return chosen.sort("replication")["makespan_s"].to_numpy()


def _saving(found: pl.DataFrame, workload: str, mpl: int, where: str, loss: float) -> Sample:
    """Percent of the makespan without coscheduling, seed by seed."""
    without = _makespan_s(found, workload, mpl, where, loss)
    return 100 * (1 - _makespan_s(found, workload, mpl, where, 0.0) / without)


def _claims(found: pl.DataFrame) -> list[Claim]:
    def saving(workload: str, mpl: int, where: str, loss: float) -> Sample:
        return _saving(found, workload, mpl, where, loss)

    effective = [interval(saving(*point)) for point in product(WORKLOADS, MPLS, SHARE_OF_NODES, LOSSES)]
    best_for_d = [
        interval(saving("D", *point) - saving(other, *point))
        for other in ("B", "C")
        for point in product(MPLS, SHARE_OF_NODES, LOSSES)
    ]
    grows = [
        interval(saving(w, mpl + 1, where, loss) - saving(w, mpl, where, loss))
        for w, mpl, where, loss in product(WORKLOADS, MPLS[:-1], SHARE_OF_NODES, LOSSES)
    ]
    less_alone = [
        interval(saving(w, mpl, SHARED, loss) - saving(w, mpl, DEDICATED, loss))
        for w, mpl, loss in product(WORKLOADS, MPLS, LOSSES)
    ]
    return [
        _calibration("Dynamic coscheduling is effective in general", "Figure 5", effective),
        _calibration("It does most for the workload that communicates most (D)", "Figure 5", best_for_d),
        _calibration("Its gain grows with the MPL", "Figure 5", grows),
        _calibration("It gains less in a dedicated cluster", "Figure 5", less_alone),
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
            "none: the model is fluid, so nobody waits for a time slice",
            "not tried",
            Verdict.NOT_TESTABLE,
        ),
    ]


def _calibration(claim: str, paper: str, found: list[Interval]) -> Claim:
    low, high = min(found, key=lambda x: x.mean), max(found, key=lambda x: x.mean)
    return Claim(
        claim,
        paper,
        "none: it follows from the losses, which are inputs; in how many points of their grid it is so",
        f"{counted(found)}; from {shown(low, 1)} to {shown(high, 1)} points",
        Verdict.CALIBRATION,
    )


def _table(found: pl.DataFrame) -> pl.DataFrame:
    rows = [
        (w, mpl, where, *(shown(interval(_saving(found, w, mpl, where, loss)), 1) for loss in LOSSES))
        for w, mpl, where in product(WORKLOADS, MPLS, SHARE_OF_NODES)
    ]
    columns = ["workload", "MPL", "cluster", *(f"loss {loss:g}" for loss in LOSSES)]
    return pl.DataFrame(rows, schema=columns, orient="row")


def _drawing(found: pl.DataFrame, where: str) -> Drawing:
    cells: dict[str, Callable[[str, int], Sample]] = {
        "with coscheduling": lambda w, mpl: _makespan_s(found, w, mpl, where, 0.0),
        f"without, loss {DRAWN:g}": lambda w, mpl: _makespan_s(found, w, mpl, where, DRAWN),
    }
    rows = [
        (f"{w}, MPL {mpl}", name, float(cell(w, mpl).mean()))
        for w, mpl in product(WORKLOADS, MPLS)
        for name, cell in cells.items()
    ]
    frame = pl.DataFrame(rows, schema=["workload", "coscheduling", "makespan"], orient="row")
    chart = bars(
        frame, "workload", "Workload", "makespan", "Makespan (s)", "coscheduling", "Dynamic coscheduling"
    )
    return Drawing(f"figure-5-{where}", f"Figure 5: makespan, {where} cluster", chart)
