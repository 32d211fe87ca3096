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
class Twins:
    """The decisions are ordered by machine, then by time: the order of nearly simultaneous decisions on two
    machines is arbitrary.

    `jobs` has a row per job that ended in both: job_id, job_class, queue, attempts, resource, turnaround_s,
    simulated_s and difference (of the simulated, as a share of it).
    """

    live: list[Decision]
    simulated: list[Decision]
    jobs: pl.DataFrame

    @property
    def parted_at(self) -> int | None:
        """The index of the first decision that differs; None if all are equal."""
        if self.live == self.simulated:
            return None
        pairs = zip(self.live, self.simulated, strict=False)
        shorter = min(len(self.live), len(self.simulated))
        return next((place for place, (one, other) in enumerate(pairs) if one != other), shorter)

    @property
    def mean_turnaround_s(self) -> tuple[float, float]:
        """Live and simulated."""
        return _mean(self.jobs["turnaround_s"]), _mean(self.jobs["simulated_s"])


def twins(live: pl.DataFrame, simulated: pl.DataFrame, site: Site) -> Twins:
    """The comparison, from the facts of both runs."""
    left, right = (job_table(facts, site.n_machines) for facts in (live, simulated))
    resources = (
        live.filter(pl.col("event") == Fact.RUN_STARTED).group_by("job").agg(pl.col("resource").last())
    )
    jobs = (
        left.join(right.select("job_id", simulated_s="turnaround_time"), on="job_id")
        .join(resources.rename({"job": "job_id"}), on="job_id")
        .select(
            "job_id",
            "job_class",
            "queue",
            "attempts",
            "resource",
            turnaround_s="turnaround_time",
            simulated_s="simulated_s",
        )
        .with_columns(difference=pl.col("turnaround_s") / pl.col("simulated_s") - 1.0)
        .sort("job_id")
    )
    names = pl.col("resource").map_elements(site.resource_names.__getitem__, return_dtype=pl.String)
    return Twins(_decisions(live, names), _decisions(simulated, names), jobs.with_columns(names))


def _decisions(facts: pl.DataFrame, names: pl.Expr) -> list[Decision]:
    decided = pl.col("event").is_in([Fact.RUN_STARTED.value, Fact.RUN_PREEMPTED.value])
    in_order = facts.filter(decided).sort("resource", maintain_order=True)
    return in_order.select(pl.col("event").cast(pl.String), "job", names).rows()


def _mean(column: pl.Series) -> float:
    return float(column.to_numpy().mean()) if len(column) else 0.0
