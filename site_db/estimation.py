"""Run-time estimates: the statistics that apply to a job class in a place.

The first applicable rule of this table counts:

| rule | on a machine | on a cluster with k members available |
|---|---|---|
| `machine` | 30 or more runs on this machine | |
| `machine_class` | 3 or more runs on machines of its class | |
| `cluster` | | 3 or more runs with k members |
| `members` | | 3 or more runs with any number of members, scaled by that number / k |
| `rating` | 3 or more runs on rated machines, scaled by their rating / its own | the same for rated clusters; a cluster's rating is the sum of its members' |
| `staff` | the time in the site file | the time in the site file, scaled by size / k |
| `elsewhere` | all runs of the job class anywhere, unscaled; without any, the mean of the staff's times | the same |

Without a staff time, fewer runs in the same place precede those elsewhere.

Machines of one class are alike by definition, so a machine has an individual estimate only after many runs: the
standard error of the mean of 30 runs is less than a fifth of their deviation. The estimate of a job with a size
is on the least-squares line of the selected runs if there is one; that of any other job is their mean.
"""  # noqa: E501

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.mapping.etc import EtcMatrix
from scheduler.model import Job
from site_db.history.statistics import RunStatistics, merged
from site_db.site_file.machine_names import Slots

ENOUGH_RUNS = 3
ENOUGH_RUNS_OF_ONE_MACHINE = 30


class PlaceKind(StrEnum):
    MACHINE = "machine"
    MACHINE_CLASS = "machine_class"
    CLUSTER = "cluster"


class RunPlace(NamedTuple):
    """The subject of statistics: a machine, all machines of a class, or a cluster with `members`."""

    kind: PlaceKind
    which: int
    members: int = 0


Cell = tuple[int, RunPlace]
"""A job class (by index) in a place."""


class Rule(StrEnum):
    MACHINE = "machine"
    MACHINE_CLASS = "machine_class"
    CLUSTER = "cluster"
    MEMBERS = "members"
    RATING = "rating"
    STAFF = "staff"
    ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True)
class ExecutionEstimate:
    """The expected run time of a job in a place, the rule, and the number of runs behind it."""

    expected_s: float
    deviation_s: float | None
    rule: Rule
    runs: int
    by_size: bool = False

    @classmethod
    def of(cls, runs: RunStatistics, rule: Rule, size: float | None = None) -> ExecutionEstimate:
        """The estimate that follows from runs."""
        by_size = size is not None and runs.has_line
        return cls(runs.expected_s(size), runs.deviation_s, rule, runs.count, by_size)


@dataclass(frozen=True)
class SiteLayout:
    """The part of a site that estimates depend on, by index in site order.

    `staff_s[c]` has the places where job class c may run (machine classes and whole clusters), each with the
    staff's time, or None. All slots of a machine have its estimates.
    """

    job_classes: tuple[str, ...]
    machines: tuple[str, ...]
    machine_classes: tuple[str, ...]
    class_of_machine: tuple[int, ...]
    rating_of_machine: tuple[float | None, ...]
    clusters: tuple[str, ...]
    members: tuple[tuple[int, ...], ...]
    staff_s: tuple[Mapping[RunPlace, float | None], ...]
    slots: Slots

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """The names of machines, then clusters."""
        return (*self.machines, *self.clusters)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of members of each cluster."""
        return tuple(len(members) for members in self.members)

    def places_of(self, resource: int, n_machines: int) -> tuple[RunPlace, ...]:
        """The places whose statistics include a run on a resource."""
        c = resource - len(self.machines)
        if c >= 0:
            return (RunPlace(PlaceKind.CLUSTER, c, n_machines),)
        k = self.class_of_machine[resource]
        return RunPlace(PlaceKind.MACHINE_CLASS, k), RunPlace(PlaceKind.MACHINE, resource)

    def index_of(self, job: Job) -> int:
        """The index of the job's class. Raises ValueError for an unknown class."""
        try:
            return self._index[job.job_class]
        except KeyError:
            known = ", ".join(self.job_classes) or "none"
            raise ValueError(f"the site has no job class '{job.job_class}'; it has {known}") from None

    @cached_property
    def _index(self) -> Mapping[str, int]:
        return {name: c for c, name in enumerate(self.job_classes)}


class Estimator:
    """Estimates from statistics by the table above. Rows of the ETC matrix are cached until the statistics of
    their job class change."""

    def __init__(self, layout: SiteLayout, statistics: Mapping[Cell, RunStatistics]) -> None:
        self._layout = layout
        self._statistics: dict[Cell, RunStatistics] = {}
        self._individual_runs: defaultdict[int, dict[int, RunStatistics]] = defaultdict(dict)
        """The machines with individual estimates, by job class."""
        ratings = [[layout.rating_of_machine[j] for j in members] for members in layout.members]
        self._ratings = [None if None in some else sum(filter(None, some)) for some in ratings]
        """The rating of each cluster."""
        self._merged: dict[tuple[int, PlaceKind | None], RunStatistics] = {}
        """The runs of a job class on rated machines, on rated clusters, and (None) anywhere."""
        self._rows: dict[tuple[str, float | None], NDArray[np.float64]] = {}
        self._members: tuple[int, ...] = layout.sizes
        self._members_of_runs: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
        """The numbers of members of the runs of a job class on a cluster."""
        self._classes = [
            {place.which for place in staff if place.kind is PlaceKind.MACHINE_CLASS}
            for staff in layout.staff_s
        ]
        self._individual: set[int] = set()
        self._make_columns()
        self.replace(statistics)

    def learn(self, job_class: int, resource: int, n_machines: int, runs: RunStatistics) -> None:
        """Add runs of a job class on a resource."""
        places = self._layout.places_of(resource, n_machines)
        self.replace({(job_class, p): self.statistics_of(job_class, p).merged(runs) for p in places})

    def replace(self, statistics: Mapping[Cell, RunStatistics]) -> None:
        """Replace the statistics of these cells."""
        self._statistics.update(statistics)
        individual: set[int] = set()
        for (job_class, place), seen in statistics.items():
            if place.kind is PlaceKind.MACHINE and seen.count >= ENOUGH_RUNS_OF_ONE_MACHINE:
                self._individual_runs[job_class][place.which] = seen
                individual.add(place.which)
            elif place.kind is PlaceKind.CLUSTER:
                self._members_of_runs[job_class, place.which].add(place.members)
        changed = {job_class for job_class, _ in statistics}
        for job_class in changed:
            for kind in (None, *PlaceKind):
                self._merged.pop((job_class, kind), None)
        names = {self._layout.job_classes[job_class] for job_class in changed}
        self._rows = {key: row for key, row in self._rows.items() if key[0] not in names}
        if not individual <= self._individual:
            self._individual |= individual
            self._make_columns()

    def matrix(self, jobs: Sequence[Job], members: Sequence[int]) -> EtcMatrix:
        """Expected seconds of `jobs` on all slots, then clusters, with the number of `members` (machines) of
        each.

        Resources with equal estimates share a column. Raises ValueError for an unknown job class."""
        if tuple(members) != self._members:
            self._members = tuple(members)
            self._rows.clear()
        keys: dict[tuple[str, float | None], int] = {}
        job_class_of = [keys.setdefault((job.job_class, job.size), len(keys)) for job in jobs]
        for job in jobs if not keys.keys() <= self._rows.keys() else ():
            if (job.job_class, job.size) not in self._rows:
                self._rows[job.job_class, job.size] = self._row(self._layout.index_of(job), job.size)
        table = np.array([self._rows[key] for key in keys]).reshape(len(keys), len(self._names))
        if len(self._rows) > MAX_ROWS_KEPT:
            self._rows.clear()
        return EtcMatrix(table, np.array(job_class_of, dtype=np.int64), self._column_of, self._names)

    def estimate(
        self, job_class: int, resource: int, size: float | None = None, members: int | None = None
    ) -> ExecutionEstimate | None:
        """The estimate for a job class on one resource; None if it may not run there.

        `members` are those available of a cluster (default: all).
        """
        cluster = resource - len(self._layout.machines)
        if cluster < 0:
            return self._on_machine(job_class, resource, size)
        available = self._layout.sizes[cluster] if members is None else members
        return self._on_cluster(job_class, cluster, available, size)

    def statistics_of(self, job_class: int, place: RunPlace) -> RunStatistics:
        """The statistics of a job class in a place."""
        return self._statistics.get((job_class, place), RunStatistics())

    def _make_columns(self) -> None:
        """Group machines into columns: those of one class and rating without individual estimates."""
        layout = self._layout
        groups: dict[tuple[int, float | None, int], list[int]] = {}
        for j, (k, rating) in enumerate(zip(layout.class_of_machine, layout.rating_of_machine, strict=True)):
            individual = j if j in self._individual else -1
            groups.setdefault((k, rating, individual), []).append(j)
        ordered = sorted(groups.items(), key=lambda item: (item[0][2] >= 0, item[0][0], item[1][0]))
        self._machine_of_column = [machines[0] for _, machines in ordered]
        column_of = np.empty(len(layout.machines), dtype=np.int64)
        for column, (_, machines) in enumerate(ordered):
            column_of[machines] = column
        of_slots = np.repeat(column_of, layout.slots.of_machine)
        of_clusters = np.arange(len(ordered), len(ordered) + len(layout.clusters))
        self._column_of = np.concatenate([of_slots, of_clusters])
        kinds = [
            layout.machines[individual] if individual >= 0 else layout.machine_classes[k]
            for (k, _, individual), _ in ordered
        ]
        self._names = (*kinds, *layout.clusters)
        self._rows.clear()

    def _row(self, c: int, size: float | None) -> NDArray[np.float64]:
        runs, allowed, class_of = self._individual_runs[c], self._classes[c], self._layout.class_of_machine
        row = [
            # A fast path, which nearly all machines take after a long history.
            runs[j].expected_s(size)
            if j in runs and class_of[j] in allowed
            else _seconds(self._on_machine(c, j, size))
            for j in self._machine_of_column
        ]
        row += [_seconds(self._on_cluster(c, x, n, size)) for x, n in enumerate(self._members)]
        return np.array(row)

    def _on_machine(self, c: int, j: int, size: float | None) -> ExecutionEstimate | None:
        whole_class = RunPlace(PlaceKind.MACHINE_CLASS, self._layout.class_of_machine[j])
        own = self.statistics_of(c, RunPlace(PlaceKind.MACHINE, j))
        if own.count >= ENOUGH_RUNS_OF_ONE_MACHINE and whole_class in self._layout.staff_s[c]:
            return ExecutionEstimate.of(own, Rule.MACHINE, size)
        alike = [(self.statistics_of(c, whole_class), Rule.MACHINE_CLASS)]
        return self._by_rules(c, whole_class, alike, self._layout.rating_of_machine[j], size)

    def _on_cluster(self, c: int, x: int, available: int, size: float | None) -> ExecutionEstimate | None:
        # A cluster that is unavailable now is estimated with all members.
        n = self._layout.sizes[x]
        k = available or n
        same = self.statistics_of(c, RunPlace(PlaceKind.CLUSTER, x, k))
        runs = [(same, Rule.CLUSTER)]
        if same.count < ENOUGH_RUNS:
            sizes = sorted(self._members_of_runs.get((c, x), ()))
            seen = ((self._statistics[c, RunPlace(PlaceKind.CLUSTER, x, m)], m / k) for m in sizes)
            runs.append((merged([one.scaled(factor) for one, factor in seen]), Rule.MEMBERS))
        return self._by_rules(c, RunPlace(PlaceKind.CLUSTER, x), runs, self._ratings[x], size, slower=n / k)

    def _by_rules(
        self,
        c: int,
        place: RunPlace,
        runs: Sequence[tuple[RunStatistics, Rule]],
        rating: float | None,
        size: float | None,
        slower: float = 1.0,
    ) -> ExecutionEstimate | None:
        """The rules after that of one machine; `runs` are of a place `slower` than with all its members."""
        staff = self._layout.staff_s[c]
        if place not in staff:
            return None
        for seen, rule in runs:
            if seen.count >= ENOUGH_RUNS:
                return ExecutionEstimate.of(seen, rule, size)
        if rating is not None and (rated := self._rated_runs(c, place.kind)).count >= ENOUGH_RUNS:
            return ExecutionEstimate.of(rated.scaled(slower / rating), Rule.RATING, size)
        staff_s = staff[place]
        if staff_s is not None:
            return ExecutionEstimate(staff_s * slower, None, Rule.STAFF, 0)
        for seen, rule in (*runs, (self._runs_anywhere(c), Rule.ELSEWHERE)):
            if seen.count:
                return ExecutionEstimate.of(seen, rule, size)
        given = [time_s for time_s in staff.values() if time_s is not None]
        return ExecutionEstimate(sum(given) / len(given), None, Rule.ELSEWHERE, 0) if given else None

    def _rated_runs(self, c: int, kind: PlaceKind) -> RunStatistics:
        """All runs on rated machines or clusters, scaled to a rating of 1."""
        is_cluster = kind is PlaceKind.CLUSTER
        kind = PlaceKind.CLUSTER if is_cluster else PlaceKind.MACHINE
        if (c, kind) not in self._merged:
            ratings = self._ratings if is_cluster else self._layout.rating_of_machine
            sizes = self._layout.sizes if is_cluster else (0,) * len(ratings)
            self._merged[c, kind] = merged(
                [
                    seen.scaled(rating)
                    for which, (rating, size) in enumerate(zip(ratings, sizes, strict=True))
                    if rating is not None and (seen := self._statistics.get((c, RunPlace(kind, which, size))))
                ]
            )
        return self._merged[c, kind]

    def _runs_anywhere(self, c: int) -> RunStatistics:
        if (c, None) not in self._merged:
            of_class = [place for job_class, place in self._statistics if job_class == c]
            places = sorted(place for place in of_class if place.kind is not PlaceKind.MACHINE)
            self._merged[c, None] = merged([self._statistics[c, place] for place in places])
        return self._merged[c, None]


MAX_ROWS_KEPT = 10_000


def _seconds(estimate: ExecutionEstimate | None) -> float:
    return inf if estimate is None else estimate.expected_s
