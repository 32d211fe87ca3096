"""Whether the replay of a month under its own controller and settings reproduces what accounting recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import polars as pl

from scheduler.messages import counted
from sil.report.figures import size_class, size_powers
from sil.report.tables import duration_text
from sil.workload.slices import DAY_S

NEAR_S = 300.0
"""A start within this of the recorded one counts as reproduced."""
GROUPS = {"partition": "Partition", "account": "Account", "qos": "QOS", "size": "Size", "week": "Week"}
ORDER = {"week": "submit_s", "size": "processors"}
"""The columns by which groups are ordered, where they have an order."""
MAX_OF_A_KIND = 12
"""The most groups of a kind in a table: those with most jobs."""


class Use(StrEnum):
    """What comparisons of variants may be used for."""

    JOBS = "jobs"
    MEANS = "means"
    NONE = "none"


MIN_NEAR = {Use.JOBS: 0.9, Use.MEANS: 0.5}
MIN_NEAR_WAITING = {Use.JOBS: 0.75, Use.MEANS: 0.25}
"""The least share of reproduced starts among the jobs that waited longer than NEAR_S in either, which say
something."""
MAX_OFF = {Use.JOBS: 0.1, Use.MEANS: 0.25}
"""The largest difference of the mean waits, as a share of the recorded one; NEAR_S is always allowed. These
limits are a convention, which was fixed before any month was looked at."""
SENTENCES = {
    Use.JOBS: "The month reproduces: compare variants job by job and by their means.",
    Use.MEANS: "The month reproduces on average: compare means of many jobs, not single jobs.",
    Use.NONE: "The month does not reproduce: a comparison says what the controller would do with these jobs, "
    "not what that month would have been.",
}


@dataclass(frozen=True)
class Group:
    """Jobs that have something in common; waits are means in seconds."""

    kind: str
    name: str
    jobs: int
    recorded_s: float
    replayed_s: float
    near: float


@dataclass(frozen=True)
class Reproduction:
    """`jobs` has a row for each job that counts: the columns of what was recorded, size, week, recorded_s and
    replayed_s (waits; null if it did not start) and later_s, how much later it started than recorded."""

    jobs: pl.DataFrame
    causes: Mapping[str, frozenset[int]]
    begun: int
    begun_on_time: int
    """The jobs that ran at the beginning, and those that started again within the lead."""

    @property
    def all(self) -> Group:
        return _group("all", "all", self.jobs)

    @property
    def not_started(self) -> int:
        return int(self.jobs["replayed_s"].null_count())

    @property
    def waiting(self) -> Group:
        """The jobs that waited, in the log or in the replay."""
        waits = pl.col("recorded_s", "replayed_s").fill_null(float("inf")) > NEAR_S
        return _group("all", "waited", self.jobs.filter(pl.any_horizontal(waits)))

    def groups(self) -> Iterator[Group]:
        for kind, name in largest_groups(self.jobs, GROUPS):
            yield _group(kind, str(name), self.jobs.filter(pl.col(kind) == name))

    @property
    def use(self) -> Use:
        found, waiting = self.all, self.waiting
        for use in (Use.JOBS, Use.MEANS):
            off_s = max(NEAR_S, MAX_OFF[use] * found.recorded_s)
            if (
                found.near >= MIN_NEAR[use]
                and (not waiting.jobs or waiting.near >= MIN_NEAR_WAITING[use])
                and abs(found.replayed_s - found.recorded_s) <= off_s
            ):
                return use
        return Use.NONE

    def explained(self) -> Iterator[tuple[str, Group]]:
        """Causes with the jobs that they are about, those with most jobs that did not reproduce first, then
        the jobs without any."""
        found = [
            (cause, _group("cause", cause, self.jobs.filter(pl.col("job").is_in(list(numbers)))))
            for cause, numbers in self.causes.items()
        ]
        found = [(cause, group) for cause, group in found if group.jobs]
        yield from sorted(found, key=lambda each: (-each[1].jobs * (1 - each[1].near), each[0]))
        of_any = frozenset[int]().union(*self.causes.values())
        without = self.jobs.filter(~pl.col("job").is_in(list(of_any)))
        if found and len(without):
            yield "nothing is known that is not modelled", _group("cause", "none", without)

    def as_dict(self) -> dict[str, Any]:
        groups = (self.all, self.waiting, *self.groups())
        causes = [asdict(group) for _, group in self.explained()]
        return {
            "use": self.use.value,
            "not_started": self.not_started,
            "groups": [asdict(group) for group in groups],
            "causes": causes,
        }

    def sentences(self) -> Iterator[str]:
        found, waiting = self.all, self.waiting
        near, of_waiting = f"{100 * found.near:.1f} %", f"{100 * waiting.near:.1f} %"
        waited = f", of the {waiting.jobs:,} jobs that waited {of_waiting}" if waiting.jobs else ""
        waits = f"{duration_text(found.recorded_s)} recorded, {duration_text(found.replayed_s)} replayed"
        yield (
            f"{near} of {counted(found.jobs, 'start')} are within 5 minutes of those recorded{waited}; mean "
            f"wait {waits}."
        )
        yield SENTENCES[self.use]
        if self.not_started:
            yield f"{counted(self.not_started, 'job')} did not start in the replay."
        if self.begun_on_time < self.begun:
            yield (
                f"{self.begun - self.begun_on_time:,} of the {self.begun:,} jobs that ran at the beginning "
                "did not get their nodes again at once."
            )


def reproduction(
    recorded: pl.DataFrame, replayed: pl.DataFrame, causes: Mapping[str, frozenset[int]], begun: Iterable[int]
) -> Reproduction:
    """How the jobs `recorded` (`sil.rehearsal.month`) are reproduced in a replay with the columns of
    jobs.csv."""
    starts = replayed.select(job="job_id", replayed_start_s="starting_time")
    later_s = pl.col("replayed_start_s") - pl.col("start_s")
    jobs = recorded.join(starts, on="job", how="left", maintain_order="left").with_columns(
        later_s=later_s,
        recorded_s=pl.col("start_s") - pl.col("submit_s"),
        replayed_s=pl.col("replayed_start_s") - pl.col("submit_s"),
        week=(pl.col("submit_s") // (7 * DAY_S) + 1).cast(pl.Int64).cast(pl.String).str.zfill(2),
        size=sizes(recorded["processors"]),
    )
    of_begun = replayed.filter(pl.col("job_id").is_in(list(begun)))
    on_time = int((of_begun["waiting_time"] < NEAR_S).sum())
    return Reproduction(jobs, causes, len([*begun]), on_time)


def largest_groups(jobs: pl.DataFrame, kinds: Iterable[str], fewest: int = 1) -> Iterator[tuple[str, Any]]:
    """Kind and name of the groups with most jobs of each kind that has several, and at least the `fewest`
    jobs: those of a kind that has an order in this, the others by number of jobs."""
    for kind in kinds:
        sizes = jobs.group_by(kind).len().sort("len", kind, descending=[True, False])
        if len(sizes) < 2:
            continue
        names = sizes.filter(pl.col("len") >= fewest)[kind].head(MAX_OF_A_KIND)
        if kind in ORDER:
            in_order = jobs.filter(pl.col(kind).is_in(names.implode())).sort(ORDER[kind])
            names = in_order[kind].unique(maintain_order=True)
        yield from ((kind, name) for name in names)


def sizes(processors: pl.Series) -> pl.Series:
    """The class of each size: 1, 2, 3-4, 5-8 and so on."""
    return pl.Series(map(size_class, size_powers(processors).tolist()), dtype=pl.String)


def _group(kind: str, name: str, jobs: pl.DataFrame) -> Group:
    if jobs.is_empty():
        return Group(kind, name, 0, 0.0, 0.0, 1.0)
    near = (pl.col("later_s").abs() <= NEAR_S).fill_null(False).mean()
    row = jobs.select(pl.mean("recorded_s"), pl.mean("replayed_s"), near=near).row(0)
    recorded_s, replayed_s, share = (0.0 if value is None else float(value) for value in row)
    return Group(kind, name, len(jobs), recorded_s, replayed_s, share)
