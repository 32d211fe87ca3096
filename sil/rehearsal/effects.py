"""Who wins and who loses under another variant of the controller, job by job and beyond its own scatter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from sil.outcome.statistics import CONFIDENCE, Interval
from sil.rehearsal.reproduction import GROUPS, MAX_OF_A_KIND, largest_groups, mean_difference
from sil.rehearsal.uses import MIN_JOBS

KINDS = {**{kind: title for kind, title in GROUPS.items() if kind != "week"}, "user": "User"}
QUANTITIES = {"waiting_time": "Mean wait", "bounded_slowdown": "Mean bounded slowdown"}
MAX_CHANGED = 20
NOTICEABLE_S = 60.0
"""The least noticeable difference of a mean wait, in seconds: the controller looks around once a minute, and
smaller ones are its phase."""
NOTICEABLE = 0.05
"""The least noticeable difference, as a share of a mean."""


@dataclass(frozen=True)
class MeanDifference:
    """The difference of the means of a quantity, for jobs that have something in common: under a variant,
    less under the present settings. `scatter` is the same for a second run of the latter."""

    kind: str
    name: str
    quantity: str
    jobs: int
    before: float
    difference: Interval
    scatter: Interval

    @property
    def exceeds_scatter(self) -> bool:
        """Whether the difference is noticeable, and larger than two runs of the present settings differ
        by."""
        least = max(NOTICEABLE * self.before, NOTICEABLE_S if self.quantity == "waiting_time" else 0.0)
        return abs(self.difference.mean) > max(self._scatter, least)

    @property
    def is_settled(self) -> bool:
        """Whether the difference is to be expected in other months like this one, too."""
        found = self.difference
        beyond = found.low > self._scatter or found.high < -self._scatter
        return self.exceeds_scatter and found.half_width is not None and beyond

    @property
    def is_worse(self) -> bool:
        return self.exceeds_scatter and self.difference.mean > 0.0

    def as_dict(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in ("kind", "name", "quantity", "jobs", "before")},
            "difference": self.difference.as_dict(),
            "scatter": self.scatter.as_dict(),
            **{name: getattr(self, name) for name in ("exceeds_scatter", "is_settled", "is_worse")},
        }

    @property
    def _scatter(self) -> float:
        return max(abs(self.scatter.low), abs(self.scatter.high))


def effects(
    groups: pl.DataFrame, before: pl.DataFrame, again: pl.DataFrame, variant: pl.DataFrame
) -> list[MeanDifference]:
    """The effects on all jobs, and on each group with enough of them. `groups` has a column for each of
    KINDS; the others are tables like jobs.csv: of the present settings, of a second run with these, of the
    variant.

    The confidence of 95 % is that of all intervals together (Bonferroni)."""
    chosen = [("all", "all", groups["job"])]
    chosen += [
        (kind, name, groups.filter(pl.col(kind) == name)["job"])
        for kind, name in largest_groups(groups, KINDS, MIN_JOBS)
    ]
    confidence = 1.0 - (1.0 - CONFIDENCE) / (len(chosen) * len(QUANTITIES))
    found = []
    for kind, name, jobs in chosen:
        old, same, new = (
            table.filter(pl.col("job_id").is_in(jobs.implode())) for table in (before, again, variant)
        )
        if old.is_empty():
            continue
        for quantity in QUANTITIES:
            change = mean_difference(new, old, quantity, confidence)
            scatter = mean_difference(same, old, quantity, confidence)
            if change is not None and scatter is not None:
                mean = float(old[quantity].mean())  # type: ignore[arg-type]
                n_jobs = len(old.join(new, on="job_id", how="semi"))
                found.append(MeanDifference(kind, name, quantity, n_jobs, mean, change, scatter))
    return found


def most_changed(
    groups: pl.DataFrame, before: pl.DataFrame, again: pl.DataFrame, variant: pl.DataFrame
) -> pl.DataFrame:
    """The jobs whose waits change most, later ones first: job, log_id, user, partition, processors, before_s,
    after_s; without those whose waits differ as much in a second run of the present settings."""
    waits = groups.select("job", "log_id", "user", "partition", "processors")
    for column, table in (("before_s", before), ("again_s", again), ("after_s", variant)):
        waits = waits.join(
            table.select(**{"job": pl.col("job_id"), column: pl.col("waiting_time")}), on="job"
        )
    change, own = pl.col("after_s") - pl.col("before_s"), pl.col("again_s") - pl.col("before_s")
    moved = waits.with_columns(change_s=change).filter(
        (change.abs() > own.abs()) & (change.abs() >= NOTICEABLE_S)
    )
    ranked = moved.sort(pl.col("change_s").abs(), "job", descending=[True, False]).head(MAX_CHANGED)
    return ranked.sort("change_s", "job", descending=[True, False]).drop("again_s")


def usage(groups: pl.DataFrame, before: pl.DataFrame, variant: pl.DataFrame) -> pl.DataFrame:
    """What groups have used until the last submission, in processor-hours: kind, name, before, after; those
    with most usage first."""
    until_s = float(groups["submit_s"].max())  # type: ignore[arg-type]
    used = groups.select("job", "submit_s", *(kind for kind in KINDS if kind != "size"))
    ran_s = pl.min_horizontal("finish_time", pl.lit(until_s)) - pl.min_horizontal(
        "starting_time", pl.lit(until_s)
    )
    hours = ran_s * pl.col("requested_number_of_resources") / 3_600
    for column, table in (("before", before), ("after", variant)):
        used = used.join(table.select(**{"job": pl.col("job_id"), column: hours}), on="job", how="left")
    kinds = [kind for kind in ("partition", "account", "qos", "user") if groups[kind].n_unique() > 1]
    found = [
        used.group_by(name=kind).agg(pl.sum("before", "after")).with_columns(kind=pl.lit(kind))
        .sort("before", "name", descending=[True, False]).head(MAX_OF_A_KIND)
        for kind in kinds
    ]  # fmt: skip
    total = used.select(pl.sum("before", "after")).with_columns(kind=pl.lit("all"), name=pl.lit("all"))
    columns = ("kind", "name", "before", "after")
    return pl.concat([total.select(columns), *(frame.select(columns) for frame in found)])


def differing(before: Mapping[str, str], variant: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Settings as the daemons have read them that differ: the name, and both values. Releases write some
    values in other words."""
    for key in before.keys() | variant.keys():
        old, new = before.get(key, ""), variant.get(key, "")
        if _meaning(old) != _meaning(new):
            yield key, old, new


def _meaning(value: str) -> str:
    text = value.lower()
    return "" if text in ("(null)", "none", "n/a") or text.endswith("/none") else text
