"""The contract for schedulers that map jobs to machines and clusters."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cache

import numpy as np

from scheduler import rules
from scheduler.mapping.etc import EtcMatrix, ReadyTimes, read_only
from scheduler.mapping.problem import MappingProblem
from scheduler.model import Answer, Job, JobId, RunId, Schedule
from scheduler.problem import Running
from scheduler.testing.examination import Outline, exactly, st


@dataclass(frozen=True)
class MappingOutline(Outline[MappingProblem]):
    """A small mapping problem.

    Machines with `ready_s` infinite are down; each `busy` one has a run that lasts until its ready time.
    """

    now_s: float
    etc_s: tuple[tuple[float, ...], ...]
    """Per job class: seconds on each machine, then on each cluster."""
    job_class_of: tuple[int, ...]
    ready_s: tuple[float, ...]
    members: tuple[tuple[int, ...], ...]
    busy: frozenset[int]

    @property
    def summary(self) -> tuple[int, str]:
        return len(self.job_class_of), f"{len(self.ready_s)} machines"

    @property
    def n_jobs(self) -> int:
        return len(self.job_class_of) + len(self.busy)

    def build(self, first_id: int) -> MappingProblem:
        resources = range(len(self.ready_s) + len(self.members))
        etc = EtcMatrix(np.array(self.etc_s), np.array(self.job_class_of), np.array(resources))
        n = len(self.job_class_of)
        jobs = [
            Job(JobId(first_id + i), f"class-{c}", self.now_s * i / n)
            for i, c in enumerate(self.job_class_of)
        ]
        running = {
            RunId(j): Running(Job(JobId(number), "class-0", 0.0), j, (j,), self.ready_s[j])
            for number, j in enumerate(sorted(self.busy), start=first_id + n)
        }

        def read(victims: frozenset[RunId]) -> ReadyTimes:
            freed = [self.now_s if j in victims else ready_s for j, ready_s in enumerate(self.ready_s)]
            return ReadyTimes(read_only(freed), self.members)

        return MappingProblem(self.now_s, tuple(jobs), etc, read, running)

    def state(self, problem: MappingProblem) -> Mapping[str, object]:
        ready = problem.ready_times
        found = {"etc": problem.etc.dense(), "ready_times": ready.machine_s, "clusters": ready.members}
        return {**super().state(problem), **found}

    def startable(self, problem: MappingProblem) -> JobId | None:
        ready_s = problem.ready_times.machine_s
        if not np.isin(ready_s, (problem.now_s, np.inf)).all():
            return None  # something is running or reserved, after which the scheduler is called again
        able = np.isfinite(problem.machine_etc_s[:, np.isfinite(ready_s)]).any(axis=1)
        return problem.jobs[int(able.argmax())].id if able.any() else None

    def exercised(self, problem: MappingProblem, answer: Answer) -> Set[str]:
        assert isinstance(answer, Schedule)
        n_machines = len(self.ready_s)
        tried = {
            rules.CLASS_CAN_RUN_THERE: np.isinf(self.etc_s).any(),
            rules.RESOURCE_AVAILABLE: np.isinf(self.ready_s).any(),
            rules.CLUSTER_MEMBERS_FREE: (answer.assignments.resources >= n_machines).any(),
            rules.PREEMPTS_RUNNING_RUNS: len(answer.preemptions) > 0,
        }
        return super().exercised(problem, answer) - {
            rule for rule, was_tried in tried.items() if not was_tried
        }


SECONDS = st.one_of(st.integers(1, 9).map(float), st.floats(0.5, 50.0, width=32))
CELL = st.one_of(SECONDS, SECONDS, SECONDS, st.just(np.inf))
UNTIL_READY = st.one_of(st.just(0.0), st.just(0.0), st.integers(0, 20).map(float), st.just(np.inf))


@cache
def _row(n_machines: int, n_clusters: int) -> st.SearchStrategy[list[float]]:
    row = exactly(n_machines + n_clusters, CELL)
    return row.filter(lambda cells: min(cells[:n_machines]) < np.inf)


@cache
def _cluster(n_machines: int) -> st.SearchStrategy[set[int]]:
    return st.sets(st.integers(0, n_machines - 1), min_size=1, max_size=n_machines)


@cache
def _classes_of_jobs(n_classes: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, n_classes - 1), min_size=1, max_size=12)


@st.composite
def mapping_outlines(draw: st.DrawFn) -> MappingOutline:
    """Small problems with ties, clusters that share machines, machines that are down, and places that cannot
    run a class; every class can run on some machine."""
    n_machines = draw(st.integers(1, 5))
    n_clusters = draw(st.integers(0, 2)) if n_machines > 1 else 0
    n_classes = draw(st.integers(1, 3))
    now_s = draw(st.sampled_from([0.0, 10.0, 1234.5]))
    ready_s = [now_s + later_s for later_s in draw(exactly(n_machines, UNTIL_READY))]
    busy = {j for j in range(n_machines) if now_s < ready_s[j] < np.inf and draw(st.booleans())}
    members = draw(exactly(n_clusters, _cluster(n_machines)))
    return MappingOutline(
        now_s,
        tuple(map(tuple, draw(exactly(n_classes, _row(n_machines, n_clusters))))),
        tuple(draw(_classes_of_jobs(n_classes))),
        tuple(ready_s),
        tuple(tuple(sorted(machines)) for machines in members),
        frozenset(busy),
    )


def larger_on_machines() -> tuple[MappingOutline, ...]:
    rng = np.random.default_rng(1)
    outlines = []
    for n_jobs, n_machines, n_classes in ((60, 12, 5), (7, 40, 3), (200, 5, 40)):
        etc_s = rng.uniform(1.0, 100.0, (n_classes, n_machines + 2))
        etc_s[:, 1:][rng.random((n_classes, n_machines + 1)) < 0.1] = np.inf
        ready_s = rng.choice([0.0, 0.0, 5.0, 30.0], n_machines)
        ready_s[-1] = np.inf
        half = n_machines // 2
        outline = MappingOutline(
            0.0,
            tuple(map(tuple, etc_s.tolist())),
            tuple(rng.integers(0, n_classes, n_jobs).tolist()),
            tuple(ready_s.tolist()),
            (tuple(range(half)), tuple(range(half, n_machines - 1))),
            frozenset(),
        )
        outlines.append(outline)
    return tuple(outlines)
