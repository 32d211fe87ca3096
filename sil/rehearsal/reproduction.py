"""Whether the replay of a month under its own controller and settings reproduces what accounting recorded."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import inf, isfinite
from typing import Any

import numpy as np
import polars as pl

from scheduler.messages import counted
from sil.outcome.paired import MIN_BLOCKS, paired_differences
from sil.outcome.statistics import CONFIDENCE, Interval
from sil.rehearsal.uses import LIMITS, NEAR_S, Agreement, Judgement, Measure, Use
from sil.report.figures import size_class, size_powers
from sil.report.replay.over_time import RUNNING, held
from sil.report.tables import duration_text
from sil.workload.slices import DAY_S

GROUPS = {"partition": "Partition", "account": "Account", "qos": "QOS", "size": "Size", "week": "Week"}
ORDER = {"week": "submit_s", "size": "processors"}
"""The columns by which groups are ordered, where they have an order."""
MAX_OF_A_KIND = 12
"""The most groups of a kind in a table: those with most jobs."""


SENTENCES = {
    Use.JOBS: "The month reproduces: compare settings job by job and by their means.",
    Use.MEANS: "The month reproduces on average: compare means of many jobs, not single jobs.",
    Use.NONE: "The month does not reproduce: a comparison says what the scheduler would do with these jobs, "
    "not what that month would have been.",
}
JUDGED = ("partition", "account", "qos")
"""The kinds of groups whose mean waits are judged."""
HOUR_S = 3_600.0
BLOCKS = 12
"""The blocks into which a period is cut that is too short for blocks of a day."""


NO_DIFFERENCE = Interval(0.0, None)


@dataclass(frozen=True)
class Group:
    """Jobs that have something in common; waits are means in seconds, and `near` the share of starts within
    NEAR_S."""

    kind: str
    name: str
    jobs: int
    recorded_s: float
    replayed_s: float
    near: Interval
    difference: Interval = NO_DIFFERENCE
    """Of the waits, replayed less recorded, of jobs that started."""
    off_s: Interval = NO_DIFFERENCE
    worst_s: float = 0.0
    """By how much starts differ, in either direction: mean and most."""
    not_started: int = 0

    @property
    def agreement(self) -> Agreement:
        """How the mean waits agree."""
        return Agreement(Measure.WAIT, self.difference, self.worst_s, self.recorded_s)

    def sentence(self, waited: str = "") -> str:
        share = f"{100 * self.near.mean:.1f} %"
        near = f"{share} of {counted(self.jobs, 'start')} are within 5 minutes of those recorded"
        waits = f"{duration_text(self.recorded_s)} recorded, {duration_text(self.replayed_s)} replayed"
        return f"{near}{waited}; mean wait {waits}"

    def as_dict(self) -> dict[str, Any]:
        worst_s = self.worst_s if isfinite(self.worst_s) else None  # a job did not start
        intervals = {key: getattr(self, key).as_dict() for key in ("near", "difference", "off_s")}
        return {**asdict(self), **intervals, "worst_s": worst_s}


@dataclass(frozen=True)
class Reproduction:
    """`jobs` has a row for each job that counts: the columns of what was recorded, size, week, recorded_s and
    replayed_s (waits; null if it did not start) and later_s, how much later it started than recorded."""

    jobs: pl.DataFrame
    causes: Mapping[str, frozenset[int]]
    begun: int
    begun_on_time: int
    """The jobs that ran at the beginning, and those that started again within the lead."""
    before: pl.DataFrame
    after: pl.DataFrame
    """What was recorded, and what was replayed, of all jobs: tables like jobs.csv."""
    processors: int
    first_part: pl.DataFrame
    """As `jobs`, of those on which weights were calibrated."""

    @cached_property
    def calibrated(self) -> Group:
        return _group("all", "first part", self.first_part)

    @cached_property
    def all(self) -> Group:
        return _group("all", "all", self.jobs)

    @property
    def not_started(self) -> int:
        return self.all.not_started

    @property
    def waiting_jobs(self) -> pl.DataFrame:
        waits = pl.col("recorded_s", "replayed_s").fill_null(float("inf")) > NEAR_S
        return self.jobs.filter(pl.any_horizontal(waits))

    @cached_property
    def waiting(self) -> Group:
        """The jobs that waited, in the log or in the replay."""
        return _group("all", "waited", self.waiting_jobs)

    def groups(self, kinds: Iterable[str] = GROUPS) -> Iterator[Group]:
        for kind, name in largest_groups(self.jobs, kinds):
            yield _group(kind, str(name), self.jobs.filter(pl.col(kind) == name))

    @cached_property
    def agreements(self) -> Mapping[Measure, Agreement]:
        """All measures, of all jobs."""
        day = pl.col("submit_s") // DAY_S
        days = self.jobs.group_by(job=day).agg(day.first() * DAY_S, pl.mean("recorded_s", "replayed_s"))
        first_s, last_s = float(self.jobs["submit_s"].min()), float(self.jobs["submit_s"].max())  # type: ignore[arg-type]
        edges_s = np.arange(first_s, max(last_s, first_s + HOUR_S) + 1.0, HOUR_S)
        share = pl.col("requested_number_of_resources") / self.processors
        used = [held(each, RUNNING, share, edges_s) for each in (self.before, self.after)]
        off = np.abs(used[1] - used[0])
        hours = pl.DataFrame({"job": range(len(off)), "submit_s": edges_s[:-1], "off": off})
        every = [
            self.all.agreement,
            Agreement(Measure.NEAR, self.all.near),
            Agreement(Measure.NEAR_WAITING, self.waiting.near if self.waiting.jobs else None),
            Agreement(Measure.RANKS, _correlation(self.waiting_jobs)),
            Agreement(Measure.DAYS, _correlation(days.sort("job")) if len(days) >= MIN_BLOCKS else None),
            Agreement(Measure.UTILISATION, _mean(hours, pl.col("off")), float(off.max())),
        ]
        return {each.measure: each for each in every}

    def judged(self, use: Use) -> Judgement:
        agreements = tuple(self.agreements[each] for each in LIMITS[use])
        of_all = self.all.jobs, self.waiting.jobs, self.not_started
        return Judgement(use, "all", "all", *of_all, agreements)

    @property
    def starts(self) -> pl.DataFrame:
        """A row for each job that counts, with its recorded and its replayed start; times in seconds of the
        log."""
        columns = ("partition", "account", "qos", "user", "processors", "submit_s")
        starts = {"recorded_start_s": "start_s", "replayed_start_s": "replayed_start_s"}
        return self.jobs.select("log_id", *columns, **starts).rename({"log_id": "job"})

    @property
    def judgements(self) -> Iterator[Judgement]:
        """The verdict on each use, and on the waits of each partition, account and QOS, if there are
        several."""
        for use in LIMITS:
            yield self.judged(use)
        for group in self.groups(JUDGED):
            of_group = group.jobs, group.jobs, group.not_started
            yield Judgement(Use.WAITS, group.kind, group.name, *of_group, (group.agreement,))

    @property
    def use(self) -> Use:
        """What comparisons of variants may be used for."""
        return next((use for use in (Use.JOBS, Use.MEANS) if self.judged(use).is_within), Use.NONE)

    def explained(self) -> Iterator[tuple[str, Group]]:
        """Causes with the jobs that they are about, those with most jobs that did not reproduce first, then
        the jobs without any."""
        found = [
            (cause, _group("cause", cause, self.jobs.filter(pl.col("job").is_in(list(numbers)))))
            for cause, numbers in self.causes.items()
        ]
        found = [(cause, group) for cause, group in found if group.jobs]
        yield from sorted(found, key=lambda each: (-each[1].jobs * (1 - each[1].near.mean), each[0]))
        of_any = frozenset[int]().union(*self.causes.values())
        without = self.jobs.filter(~pl.col("job").is_in(list(of_any)))
        if found and len(without):
            yield "are modelled, as far as the accounting says", _group("cause", "none", without)

    def as_dict(self) -> dict[str, Any]:
        first_part = [self.calibrated] if len(self.first_part) else []
        groups = (*first_part, self.all, self.waiting, *self.groups())
        causes = [group.as_dict() for _, group in self.explained()]
        return {
            "use": self.use.value,
            "not_started": self.not_started,
            "groups": [group.as_dict() for group in groups],
            "causes": causes,
            "judgements": [each.as_dict() for each in self.judgements],
        }

    def sentences(self) -> Iterator[str]:
        waiting, part = self.waiting, ""
        if len(self.first_part):
            yield f"First part, on which weights were calibrated: {self.calibrated.sentence()}."
            part = "The rest, which alone is judged: "
        waited = f", of the {waiting.jobs:,} jobs that waited {100 * waiting.near.mean:.1f} %"
        yield f"{part}{self.all.sentence(waited if waiting.jobs else '')}."
        yield SENTENCES[self.use]
        if self.not_started:
            yield f"{counted(self.not_started, 'job')} did not start in the replay."
        if self.begun_on_time < self.begun:
            yield (
                f"{self.begun - self.begun_on_time:,} of the {self.begun:,} jobs that ran at the beginning "
                "did not get their nodes again at once."
            )


def reproduction(
    runs: pl.DataFrame,
    replayed: pl.DataFrame,
    causes: Mapping[str, frozenset[int]],
    begun: Collection[int],
    processors: int,
) -> Reproduction:
    """How the recorded `runs` (`sil.rehearsal.month`) are reproduced in a replay on so many processors, with
    the columns of jobs.csv."""
    starts = replayed.select(job="job_id", replayed_start_s="starting_time")
    later_s = pl.col("replayed_start_s") - pl.col("start_s")
    jobs = runs.filter(pl.any_horizontal("counts", "calibrates")).join(
        starts, on="job", how="left", maintain_order="left"
    )
    jobs = jobs.with_columns(
        later_s=later_s,
        recorded_s=pl.col("start_s") - pl.col("submit_s"),
        replayed_s=pl.col("replayed_start_s") - pl.col("submit_s"),
        week=(pl.col("submit_s") // (7 * DAY_S) + 1).cast(pl.Int64).cast(pl.String).str.zfill(2),
        size=sizes(jobs["processors"]),
    )
    of_begun = replayed.filter(pl.col("job_id").is_in(list(begun)))
    on_time = int((of_begun["waiting_time"] < NEAR_S).sum())
    times = {"submission_time": "submit_s", "starting_time": "start_s", "finish_time": "end_s"}
    cpus = runs.select(job_id="job", requested_number_of_resources="processors")
    before = runs.select(**times).hstack(cpus)
    before = before.with_columns(waiting_time=pl.col("starting_time") - pl.col("submission_time"))
    after = replayed.select(*times, "job_id", "waiting_time").join(cpus, on="job_id", maintain_order="left")
    jobs, first_part = jobs.filter("counts"), jobs.filter("calibrates")
    return Reproduction(jobs, causes, len(begun), on_time, before, after, processors, first_part)


def mean_difference(
    jobs: pl.DataFrame, baseline: pl.DataFrame, column: str, confidence: float = CONFIDENCE
) -> Interval | None:
    """The mean of a quantity of `jobs` less that of a baseline, over blocks of days, or of parts of days
    where there are few; None if they have no job in common."""
    submitted = baseline["submission_time"]
    days = float(submitted.max() - submitted.min()) / DAY_S if len(baseline) else 0.0  # type: ignore[operator,arg-type]
    block_days = max(days / BLOCKS, 1e-3) if days < 2 * MIN_BLOCKS else None
    found = paired_differences(jobs, baseline, column, block_days, confidence)
    return None if found is None else found.difference


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


def _mean(jobs: pl.DataFrame, value: pl.Expr) -> Interval:
    """The mean of a value, of the jobs that have it, over blocks of days."""
    known = jobs.select(job_id="job", submission_time="submit_s", value=value).drop_nulls()
    found = mean_difference(known, known.with_columns(value=0.0), "value")
    # The mean of blocks differs by rounding, which decides at a limit.
    return NO_DIFFERENCE if found is None else replace(found, mean=float(known["value"].mean()))  # type: ignore[arg-type]


def _correlation(waits: pl.DataFrame) -> Interval | None:
    """Of the ranks of recorded and replayed waits; None where all are equal. It is a mean over jobs, to the
    first order (delta method): a job whose ranks agree adds nothing to its spread."""
    known = waits.drop_nulls("replayed_s")
    ranks = [known[column].rank().cast(pl.Float64) for column in ("recorded_s", "replayed_s")]
    if any(each.n_unique() < 2 for each in ranks):
        return None
    x, y = ((each - each.mean()) / each.std(ddof=0) for each in ranks)
    share = float((x * y).mean())  # type: ignore[arg-type]
    return _mean(known.with_columns(share=share + x * y - share * (x**2 + y**2) / 2), pl.col("share"))


def _group(kind: str, name: str, jobs: pl.DataFrame) -> Group:
    if jobs.is_empty():
        return Group(kind, name, 0, 0.0, 0.0, Interval(1.0, None))
    later_s, missing = pl.col("later_s"), jobs["later_s"].null_count()
    waits = jobs.select(pl.mean("recorded_s", "replayed_s").fill_null(0.0), later_s.abs().max()).row(0)
    recorded_s, replayed_s, worst_s = waits
    near = _mean(jobs, (later_s.abs() <= NEAR_S).fill_null(False).cast(pl.Float64))
    found = near, _mean(jobs, later_s), _mean(jobs, later_s.abs()), inf if missing else worst_s, missing
    return Group(kind, name, len(jobs), recorded_s, replayed_s, *found)
