"""Comparison of a live run with its simulation: decisions and turnaround."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from scheduler.model import Site
from sil.outcome.jobs import job_table
from sil.trace.facts import Fact

Decision = tuple[str, int, str]
"""A start or a preemption: fact, job, resource."""


@dataclass(frozen=True)
class LiveComparison:
    """The decisions are ordered by machine, then by time: the order of nearly simultaneous decisions on two
    machines is arbitrary.

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
        """Live and simulated."""
        live, simulated = (self.jobs[name].to_numpy() for name in ("turnaround_s", "simulated_s"))
        return (float(live.mean()), float(simulated.mean())) if len(live) else (0.0, 0.0)


def compare_live(live: pl.DataFrame, simulated: pl.DataFrame, site: Site) -> LiveComparison:
    """The comparison, from the facts of both runs."""
    left, right = (job_table(facts, site.n_machines) for facts in (live, simulated))
    names = pl.col("resource").map_elements(site.resource_names.__getitem__, return_dtype=pl.String)
    jobs = (
        left.rename({"turnaround_time": "turnaround_s"})
        .join(right.select("job_id", simulated_s="turnaround_time"), on="job_id")
        .with_columns(difference=pl.col("turnaround_s") / pl.col("simulated_s") - 1.0, resource=names)
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
    return LiveComparison(_decisions(live, names), _decisions(simulated, names), jobs)


def _decisions(facts: pl.DataFrame, names: pl.Expr) -> list[Decision]:
    decided = pl.col("event").is_in([Fact.RUN_STARTED.value, Fact.RUN_PREEMPTED.value])
    in_order = facts.filter(decided).sort("resource", maintain_order=True)
    return in_order.select(pl.col("event").cast(pl.String), "job", names).rows()
