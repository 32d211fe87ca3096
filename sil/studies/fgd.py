"""The allocation curves of the paper, for each workload found in a folder, against the published ones."""

from __future__ import annotations

import hashlib
from pathlib import Path

import polars as pl

from sil.report.figures import WIDTH, colour_scale
from sil.report.page import Part
from sil.report.vega_lite import Figure, column
from sil.studies.fgd_curves import (
    COLUMNS,
    EXACT,
    POLICIES,
    Curves,
    PublishedCase,
    curves,
    data_files,
    published,
    published_fragmentation,
    seeds,
    workloads,
)
from sil.studies.ledger import Claim, Findings, Study
from sil.studies.rules import Estimate, below, exactly, range_of, within
from sil.workers.runner import Runner

SHOWN = (80, 90, 95, 100, 110, 130)
"""The columns in the table."""
EQUIVALENT_POINTS = 1.0
ALL_ARRIVED = 100
"""The column at which the requested GPUs equal the capacity."""
WORKLOAD_OF_THE_PAPER = "default"
GPUS_OF_THE_PAPER = 6_212
HUNDREDTH = 0.01
STUDY = Study(
    "fgd",
    exact=f"{', '.join(EXACT[:-1])} and {EXACT[-1]}",
    equivalent_points=EQUIVALENT_POINTS,
    hundredth=HUNDREDTH,
)


def study(folder: Path, runner: Runner) -> Findings:
    """All workloads in the folder, with all seeds of which the order of arrivals is known. Raises
    InvalidFile."""
    cases = [
        PublishedCase(workload, policy, seed, _digest(folder, workload))
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
    return STUDY.findings(
        [*_claims(found), _fragmentation(found, published_fragmentation(folder))],
        [_drawing(found, workload) for workload in found["workload"].unique(maintain_order=True)],
        {"Allocated GPUs (%), here and as published": _table(found)},
        {"allocation_curves": found.drop("published_pct")},
    )


def _digest(folder: Path, workload: str) -> str:
    contents = hashlib.sha256()
    for path in data_files(folder, workload):
        contents.update(path.read_bytes())
    return contents.hexdigest()


def _frame(cases: list[PublishedCase], found: list[Curves]) -> pl.DataFrame:
    rows = [
        (case.workload, case.policy, int(case.seed), *at)
        for case, of in zip(cases, found, strict=True)
        for at in zip(COLUMNS, of.allocated, of.fragmented, strict=True)
    ]
    columns = ["workload", "policy", "seed", "arrived_pct", "allocated_pct", "fragmented_pct"]
    return pl.DataFrame(rows, schema=columns, orient="row").with_columns(
        pl.col("allocated_pct", "fragmented_pct").fill_nan(None)
    )


def _claims(found: pl.DataFrame) -> list[Claim]:
    curve = found.filter(pl.col("policy").is_in(EXACT)).group_by("workload", "policy", "seed")
    is_equal = (pl.col("allocated_pct") == pl.col("published_pct")).fill_null(False).all()
    equal = curve.agg(is_equal.alias("is"))["is"]
    at_end = found.filter(arrived_pct=ALL_ARRIVED)
    differences = [
        Estimate((w["allocated_pct"] - w["published_pct"]).to_numpy())
        for w in at_end.filter(policy="Random").drop_nulls().partition_by("workload", maintain_order=True)
    ]
    near = (y for x in differences for y in within(x, -EQUIVALENT_POINTS, EQUIVALENT_POINTS))
    by_policy = at_end.pivot("policy", index=["workload", "seed"], values="allocated_pct")
    ahead = [
        Estimate((w["FGD"] - w[other]).to_numpy())
        for w in by_policy.partition_by("workload", maintain_order=True)
        for other in POLICIES
        if other != "FGD"
    ]
    is_one = [exactly(1 - int((~equal).sum()))]
    points = "percentage points"
    return [
        STUDY.claim("curves", is_one, f"{equal.sum()} of {len(equal)} curves are equal"),
        STUDY.claim("curves-of-random", near, f"differences {range_of(differences, points)}"),
        STUDY.claim("most-gpus", ahead, f"more by {range_of(ahead, points)}"),
        *_of_the_paper(at_end),
    ]


def _of_the_paper(at_end: pl.DataFrame) -> list[Claim]:
    """The claims of the abstract on the trace as it is."""
    at = at_end.filter(workload=WORKLOAD_OF_THE_PAPER)
    if not len(at):
        return []
    left = {name: 100.0 - at.filter(policy=name)["allocated_pct"].to_numpy().mean() for name in POLICIES}
    worst = max((name for name in EXACT if name != "FGD"), key=lambda name: left[name])
    saved = float(left[worst] - left["FGD"])
    reduction, gpus = 100 * saved / float(left[worst]), saved / 100 * GPUS_OF_THE_PAPER
    of_cluster = f"{gpus:.1f} of {GPUS_OF_THE_PAPER:,} GPUs, against {worst}"
    return [
        STUDY.claim("unallocated", within(exactly(reduction), 48, 50), f"{reduction:.1f} %, against {worst}"),
        STUDY.claim("more-gpus", within(exactly(gpus), 285, 295), of_cluster),
    ]


def _fragmentation(found: pl.DataFrame, by_others: dict[tuple[str, str, int], float]) -> Claim:
    means = found.group_by("workload", "policy", "arrived_pct").agg(pl.col("fragmented_pct").mean()).rows()
    ours = {of: mean for *of_mean, mean in means if mean is not None for of in [tuple(of_mean)]}
    pairs = [(ours[of], mean) for of, mean in by_others.items() if of[1] in EXACT and of in ours]
    equal = sum(abs(our - mean) <= 0.5e-4 + 1e-9 for our, mean in pairs)
    furthest = max((abs(our - mean) for our, mean in pairs), default=0.0)
    said = f"{equal} of {len(pairs)} means are equal in all four decimals, all within {furthest:.4f} points"
    near = (below(exactly(abs(our - mean)), HUNDREDTH) for our, mean in pairs)
    return STUDY.claim("fragmentation", near, said if pairs else "the folder has no frag_ratio.csv")


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
