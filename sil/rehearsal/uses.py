"""What a replay of recorded jobs may be used for: the limits of each use, which were fixed before any log was
looked at, and never depend on one; and the verdicts of a validation, as replays and plans of the site cite
them, unless they are of other nodes, another policy or another scheduler."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel

from scheduler import UserError
from scheduler.messages import counted
from sil.experiment.provenance import code_under_test
from sil.outcome.statistics import Interval
from sil.report.page import Notice
from sil.report.tables import duration_text, signed_duration
from sil.runs.under_test import SlurmProgram, UnderTest
from site_db.files.access import read_text
from site_db.site_file.cluster import SiteNodes

NEAR_S = 300.0
"""A start within this of the recorded one counts as reproduced; a difference of mean waits up to this is
always allowed."""
MIN_JOBS = 20
"""The fewest jobs of a group that is judged or compared."""
MAX_NOT_STARTED = 0.01
"""The largest share of jobs that do not start in the replay, for any use."""


class Use(StrEnum):
    """What the results of replays may be used for; NONE of single jobs and means."""

    WAITS = "waits"
    UTILISATION = "utilisation"
    MEANS = "means"
    JOBS = "jobs"
    PURCHASES = "purchases"
    NONE = "none"


TITLES = {
    Use.WAITS: "Mean waits",
    Use.UTILISATION: "Utilisation",
    Use.MEANS: "Choosing between two settings, by means of many jobs",
    Use.JOBS: "Choosing between two settings, job by job",
    Use.PURCHASES: "Purchases",
}


class Measure(StrEnum):
    """How a replay is compared with what was recorded."""

    WAIT = "difference of the mean waits"
    NEAR = "share of starts within 5 minutes"
    NEAR_WAITING = "of jobs that waited longer in either"
    RANKS = "rank correlation of their waits"
    DAYS = "rank correlation of the mean waits of days"
    UTILISATION = "mean difference of the utilisation of an hour"


AT_LEAST = (Measure.NEAR, Measure.NEAR_WAITING, Measure.RANKS, Measure.DAYS)
OF_WAITING = AT_LEAST[1:]
"""Measures that say nothing where hardly any job waits."""
LIMITS: Mapping[Use, Mapping[Measure, float]] = {
    Use.WAITS: {Measure.WAIT: 0.1},
    Use.UTILISATION: {Measure.UTILISATION: 0.05},
    Use.MEANS: {Measure.WAIT: 0.25, Measure.NEAR: 0.5, Measure.NEAR_WAITING: 0.25, Measure.RANKS: 0.8},
    Use.JOBS: {Measure.WAIT: 0.1, Measure.NEAR: 0.9, Measure.NEAR_WAITING: 0.75},
    Use.PURCHASES: {Measure.WAIT: 0.25, Measure.DAYS: 0.8, Measure.UTILISATION: 0.05},
}
"""The least of AT_LEAST, and the largest differences: of waits as a share of the recorded mean."""


class Grade(StrEnum):
    """Whether a replay is good enough for a use."""

    GOOD = "good enough"
    THIS_PERIOD = "good enough in this period"
    NOT = "not good enough"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class Agreement:
    """How a replay agrees with what was recorded; `found` is None where that cannot be said."""

    measure: Measure
    found: Interval | None
    worst: float = float("inf")
    """The largest difference of a single job or hour."""
    mean: float = 1.0
    """What limits of differences are a share of."""

    def limit(self, use: Use) -> float:
        limit = LIMITS[use][self.measure]
        return max(limit * self.mean, NEAR_S) if self.measure is Measure.WAIT else limit

    def is_within(self, use: Use) -> bool:
        if self.found is None:
            return True
        limit = self.limit(use)
        return self.found.mean >= limit if self.measure in AT_LEAST else abs(self.found.mean) <= limit

    def is_settled(self, use: Use) -> bool:
        """Whether other periods like this one are within the limit, too: the interval is, or there is no
        larger difference."""
        if self.found is None:
            return False
        limit, found = self.limit(use), self.found
        if self.measure in AT_LEAST:
            return found.mean == 1.0 or (found.half_width is not None and found.low >= limit)
        within = found.half_width is not None and -limit <= found.low and found.high <= limit
        return within or self.worst <= limit

    def text(self, use: Use) -> str:
        """The measure, what was found, and the limit."""
        if self.found is None:
            return f"{self.measure}: not known"
        if self.measure is Measure.WAIT:
            limit = duration_text(self.limit(use))
            return f"{self.measure}: {signed_duration(self.found)} (at most ±{limit})"
        bound = "least" if self.measure in AT_LEAST else "most"
        return f"{self.measure}: {self.found.text('.3f')} (at {bound} {LIMITS[use][self.measure]:g})"


@dataclass(frozen=True)
class Judgement:
    """The verdict on one use; `kind` and `name` are of a group of jobs, or both "all"."""

    use: Use
    kind: str
    name: str
    jobs: int
    waiting: int
    not_started: int
    agreements: tuple[Agreement, ...]

    @property
    def is_within(self) -> bool:
        start = self.not_started <= MAX_NOT_STARTED * self.jobs
        return start and all(each.is_within(self.use) for each in self.agreements)

    @property
    def grade(self) -> Grade:
        if self.jobs < MIN_JOBS:
            return Grade.NOT_JUDGED
        if not self.is_within:
            return Grade.NOT
        if self.waiting < MIN_JOBS and any(each.measure in OF_WAITING for each in self.agreements):
            return Grade.NOT_JUDGED
        is_settled = all(each.is_settled(self.use) for each in self.agreements)
        return Grade.GOOD if is_settled else Grade.THIS_PERIOD

    @property
    def why(self) -> list[str]:
        if self.jobs < MIN_JOBS:
            return [f"fewer than {MIN_JOBS} jobs"]
        few = [f"fewer than {MIN_JOBS} jobs waited"] if self.grade is Grade.NOT_JUDGED else []
        few += [f"{counted(self.not_started, 'job')} did not start"] if self.not_started else []
        return [*few, *(each.text(self.use) for each in self.agreements)]

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("use", "kind", "name", "jobs", "grade", "why")}


VERDICTS = "verdicts.json"
POLICY = "another policy"


class Subject(BaseModel):
    """What a validation is about: the scheduler, and digests of the nodes with their partitions, and of the
    policy."""

    scheduler: str
    nodes: str
    policy: str

    @classmethod
    def of(cls, cluster: SiteNodes | None, scheduler: UnderTest) -> Self:
        """Slurm's controller has the policy of its own files."""
        cluster = cluster or SiteNodes({}, {}, {})
        policy = None if cluster.policy is None else asdict(replace(cluster.policy, notes=()))
        files = code_under_test(scheduler) if isinstance(scheduler, SlurmProgram) else ""
        nodes = {
            name: replace(node, memory_mib=cluster.has_memory and node.memory_mib)
            for name, node in cluster.nodes.items()
        }
        of_nodes = asdict(replace(cluster, nodes=nodes, policy=None, notes=()))
        return cls(scheduler=scheduler.label, nodes=_digest(of_nodes), policy=_digest([policy, files]))


def _digest(value: object) -> str:
    """A digest that is equal for equal values; sets have no order."""
    return hashlib.sha256(json.dumps(value, default=sorted, sort_keys=True).encode()).hexdigest()


def cited(
    folder: str | Path | None, cluster: SiteNodes | None, schedulers: Sequence[UnderTest], uses: Sequence[Use]
) -> Notice:
    """What the validation in a folder says of these uses of simulations under these schedulers: a "refusal"
    if it is not good enough for one, or of something else. Raises UserError."""
    if folder is None:
        none = "No validation says how near simulations of this site are to what happened"
        return Notice("note", f"{none}: `sil validate` makes one, and --validation names its folder.")
    try:
        found = json.loads(read_text(Path(folder) / VERDICTS))
        subject, about = Subject(**found["subject"]), f"{found['log']}, {counted(found['jobs'], 'job')}"
        judged = {
            Use(each["use"]): (Grade(each["grade"]), "; ".join(each["why"]))
            for each in found["reproduction"]["judgements"]
            if each["kind"] == "all"
        }
    except (OSError, ValueError, LookupError, TypeError, UserError):
        raise UserError(
            f"--validation {folder}: there is no {VERDICTS} of a validation; expected the folder of "
            f"`sil validate --out {folder}`"
        ) from None
    here = {each.label: Subject.of(cluster, each) for each in schedulers}.get(subject.scheduler)
    by = f"the validation in {folder} ({about}, under {subject.scheduler})"
    if here is None:
        differs = ["another scheduler"]
    else:
        others = {"other nodes": here.nodes != subject.nodes, POLICY: here.policy != subject.policy}
        differs = [what for what, is_other in others.items() if is_other]
    if differs == [POLICY] and Use.MEANS in uses:
        uses, by = (Use.MEANS, Use.JOBS), f"{by}, for changes of the policy that it is of"
    elif differs:
        text = f"{by} is of {' and '.join(differs)}, and says nothing here: repeat it."
        return Notice("refusal", text[:1].upper() + text[1:])
    grades = [(use, *judged[use]) for use in uses if use in judged]
    texts = [
        f"{grade} for {TITLES[use][:1].lower()}{TITLES[use][1:]}{f' ({why})' if grade is Grade.NOT else ''}"
        for use, grade, why in grades
    ]
    is_missed = any(grade is Grade.NOT for _, grade, _ in grades)
    missed = "Simulations miss the site's own past. " if is_missed else ""
    kind = "refusal" if is_missed else "note"
    return Notice(kind, f"{missed}By {by}, simulations are {'; '.join(texts)}.")
