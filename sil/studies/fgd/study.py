"""The allocation curves of the paper, for each workload found in a folder, against the published ones."""

from __future__ import annotations

import hashlib
from pathlib import Path

import polars as pl

from sil.outcome.statistics import interval
from sil.report.figures import WIDTH, colour_scale
from sil.report.page import Part
from sil.report.vega_lite import Figure, column
from sil.studies.fgd.cluster_data import COLUMNS, data_files, published, seeds, workloads
from sil.studies.fgd.curves import Case, curves
from sil.studies.fgd.policies import EXACT, POLICIES
from sil.studies.findings import Findings
from sil.studies.ledger import NO_TOLERANCE, Claim, Statement, all_positive, exactly, range_of, within
from sil.workers.runner import Runner

SHOWN = (80, 90, 95, 100, 110, 130)
"""Columns in the table."""
ALL_ARRIVED = 100
"""The column at which the requested GPUs equal the capacity."""
WORKLOAD_OF_THE_PAPER = "default"

METHOD = (
    "Pods arrive one by one at a cluster of 1,213 nodes with 6,212 GPUs, of which they request parts, and "
    "none leaves: how many GPUs can a policy allocate? The policies are the node selections of the scheduler "
    "package, with scores rounded to whole numbers and the tie-breaking ranks of the authors' simulator. "
    "Data: Alibaba's clusterdata (gpu-v2023) and the authors' kubernetes-scheduler-simulator."
)


def study(folder: Path, runner: Runner) -> Findings:
    """All workloads in the folder, with all seeds of which the order of arrivals is known. Raises
    InvalidFile."""
    cases = [
        Case(workload, policy, seed, _digest(folder, workload))
        for workload in workloads(folder)
        for policy in POLICIES
        for seed in seeds(folder, workload)
    ]
    found = _frame(cases, curves(cases, folder, runner))
    by_others = published(folder)
    theirs = [by_others.get((c.workload, c.policy, c.seed), [None] * len(COLUMNS)) for c in cases]
    found = found.with_columns(
        published_pct=pl.Series([y for curve in theirs for y in curve], dtype=pl.Float64)
    )
    return Findings(
        title="Fragmentation gradient descent: allocation of GPUs",
        source="Weng et al., USENIX ATC 2023",
        method=METHOD,
        claims=_claims(found),
        drawings=[_drawing(found, workload) for workload in found["workload"].unique(maintain_order=True)],
        tables={"Allocated GPUs (%), here and as published": _table(found)},
        data={"allocation_curves": found.drop("published_pct")},
    )


def _digest(folder: Path, workload: str) -> str:
    contents = hashlib.sha256()
    for path in data_files(folder, workload):
        contents.update(path.read_bytes())
    return contents.hexdigest()


def _frame(cases: list[Case], found: list[list[float]]) -> pl.DataFrame:
    """A row for each point of each curve."""
    rows = [
        (case.workload, case.policy, int(case.seed), x, y)
        for case, curve in zip(cases, found, strict=True)
        for x, y in zip(COLUMNS, curve, strict=True)
    ]
    columns = ["workload", "policy", "seed", "arrived_pct", "allocated_pct"]
    return pl.DataFrame(rows, schema=columns, orient="row").with_columns(
        pl.col("allocated_pct").fill_nan(None)
    )


def _claims(found: pl.DataFrame) -> list[Claim]:
    return [_exact(found), _random(found), _first(found), *_of_the_paper(found)]


def _exact(found: pl.DataFrame) -> Claim:
    curve = found.filter(pl.col("policy").is_in(EXACT)).group_by("workload", "policy", "seed")
    equal = curve.agg(
        (pl.col("allocated_pct") == pl.col("published_pct")).fill_null(False).all().alias("is")
    )["is"]
    return Claim(
        Statement(
            f"The published curves of {', '.join(EXACT[:-1])} and {EXACT[-1]}",
            "one for each workload and seed, published with the data",
            "whether a curve is equal at each of its 131 points",
            "all are",
            NO_TOLERANCE,
        ),
        f"{equal.sum()} of {len(equal)} curves are equal",
        all_positive([exactly(1 - int((~equal).sum()))], "curves from one that differs"),
    )


def _random(found: pl.DataFrame) -> Claim:
    at = found.filter(policy="Random", arrived_pct=ALL_ARRIVED).drop_nulls()
    of_workload = at.partition_by("workload", maintain_order=True)
    confidence = 1 - 0.05 / max(len(of_workload), 1)
    differences = [
        interval((w["allocated_pct"] - w["published_pct"]).to_numpy(), confidence) for w in of_workload
    ]
    return Claim(
        Statement(
            "The published curves of Random",
            "one for each workload and seed, published with the data; the random draws are not known",
            "the mean difference from ours at 100 % arrived, by workload",
            "no interval excludes zero, at 95 % confidence for all workloads together",
            "chance: the intervals are as wide as that needs",
        ),
        f"differences {range_of(differences, 'percentage points')}",
        all_positive(
            (exactly((x.half_width or 0.0) - abs(x.mean)) for x in differences), "percentage points"
        ),
    )


def _first(found: pl.DataFrame) -> Claim:
    at = found.filter(arrived_pct=ALL_ARRIVED).pivot(
        "policy", index=["workload", "seed"], values="allocated_pct"
    )
    ahead = [
        interval((w["FGD"] - w[other]).to_numpy())
        for w in at.partition_by("workload", maintain_order=True)
        for other in POLICIES
        if other != "FGD"
    ]
    return Claim(
        Statement(
            "FGD allocates more GPUs than the other policies",
            "in all workloads",
            "the share allocated at 100 % arrived, less that of another policy in the same workload",
            "it is above 0 for each other policy and workload",
            NO_TOLERANCE,
        ),
        f"more by {range_of(ahead, 'percentage points')}",
        all_positive(ahead, "percentage points"),
    )


def _of_the_paper(found: pl.DataFrame) -> list[Claim]:
    """What the abstract states of the trace as it is."""
    at = found.filter(workload=WORKLOAD_OF_THE_PAPER, arrived_pct=ALL_ARRIVED)
    if not len(at):
        return []
    left = {name: interval(100.0 - at.filter(policy=name)["allocated_pct"].to_numpy()) for name in POLICIES}
    packing = [left[name].mean for name in EXACT if name != "FGD"]
    saved = max(packing) - left["FGD"].mean
    reduction = 100 * saved / max(packing)
    return [
        Claim(
            Statement(
                "FGD reduces unallocated GPUs by up to 49 %",
                "by up to 49 % (abstract)",
                "the largest reduction against a packing policy at 100 % arrived, mean over seeds",
                "48 to 50 %",
                "one point: the paper rounds to whole percents, and does not say of which moment",
            ),
            f"{reduction:.1f} %",
            all_positive(within(exactly(reduction), 48, 50), "points"),
        ),
    ]


def _table(found: pl.DataFrame) -> pl.DataFrame:
    at = found.filter(pl.col("arrived_pct").is_in(SHOWN)).group_by(
        "workload", "policy", "arrived_pct", maintain_order=True
    )
    pairs = at.agg(
        pl.format(
            "{} / {}", pl.col("allocated_pct").mean().round(2), pl.col("published_pct").mean().round(2)
        ).alias("y")
    )
    return pairs.with_columns(pl.format("{} %", "arrived_pct").alias("arrived")).pivot(
        "arrived", index=["workload", "policy"], values="y", maintain_order=True
    )


def _drawing(found: pl.DataFrame, workload: str) -> Part:
    means = (
        found.filter(workload=workload)
        .group_by("policy", "arrived_pct", maintain_order=True)
        .agg(pl.col("allocated_pct").mean())
        .filter(pl.col("arrived_pct") >= SHOWN[0])
    )
    scale = {"zero": False}
    chart = (
        Figure(means)
        .mark("line")
        .encode(
            x=column(
                "arrived_pct:Q",
                title="Arrived workload (% of GPU capacity)",
                scale=scale,
                axis={"values": list(range(SHOWN[0], COLUMNS[-1] + 1, 5))},
            ),
            y=column("allocated_pct:Q", title="Allocated GPUs (%)", scale=scale),
            color=column("policy:N", title="Policy", scale=colour_scale(POLICIES)),
        )
        .properties(width=WIDTH, height=320)
    )
    return Part(f"Allocated GPUs, workload {workload}", chart, name=f"allocation-{workload}")
