"""What fails: outages, listed or random, as streams in order of time; slow machines; failing jobs; and what
jobs have saved in checkpoints then."""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf, log, log1p, prod

import numpy as np

from scheduler.model import DispatchOrder, Job, JobId, RunId
from scheduler.ports import DrainChanged, JobActedOn
from sil.trace.facts import Fact
from sil.world.events import LocalChanged, NodeNotice, StateChange, Subject

TimedChange = tuple[float, StateChange | LocalChanged | NodeNotice | JobActedOn]


def as_fact(event: NodeNotice) -> tuple[Fact, str]:
    """The fact of a notice about nodes, and its detail."""
    if isinstance(event, DrainChanged):
        return (Fact.NODES_DRAINED if event.is_drained else Fact.NODES_RESUMED), event.reason
    detail = {"name": event.name, "start_s": event.start_s, "end_s": event.end_s}
    return Fact.NODES_RESERVED, json.dumps(detail)


@dataclass(frozen=True, slots=True)
class Outage:
    """A machine (by index) or an interconnect (by name) is down from `from_s` to `to_s` (or infinity)."""

    subject: Subject
    from_s: float
    to_s: float


@dataclass(frozen=True, slots=True)
class RandomFailures:
    """Failures after exponential times of a mean, and repairs after exponential times of another.

    After its repair, what has failed is up for `each_s` and then down for `each_s`, some `times`; then it
    stays up, and the next time between failures begins.
    """

    mean_time_between_failures_s: float
    mean_time_to_repair_s: float
    times: int = 0
    each_s: float = 0.0

    def changes(self, groups: Iterable[Sequence[Subject]], rng: np.random.Generator) -> Iterator[TimedChange]:
        """The changes of each group, without end. What is in one group fails and is repaired together."""
        subjects = [tuple(group) for group in groups]
        first_s = rng.exponential(self.mean_time_between_failures_s, len(subjects))
        pending = [(float(time_s), k, False, 0) for k, time_s in enumerate(first_s)]
        heapq.heapify(pending)
        while pending:
            time_s, k, up, flaps = pending[0]
            yield time_s, StateChange(subjects[k], up)
            if up and flaps == self.times:
                after_s, flaps = float(rng.exponential(self.mean_time_between_failures_s)), 0
            elif up or flaps:
                after_s, flaps = self.each_s, flaps + up
            else:
                after_s = float(rng.exponential(self.mean_time_to_repair_s))
            heapq.heapreplace(pending, (time_s + after_s, k, not up, flaps))


def listed_outages(outages: Iterable[Outage]) -> Iterator[TimedChange]:
    """The changes of outages at known times."""
    changes: list[TimedChange] = []
    for outage in outages:
        changes.append((outage.from_s, StateChange((outage.subject,), False, outage.to_s == inf)))
        changes.append((outage.to_s, StateChange((outage.subject,), True)))
    yield from sorted((change for change in changes if change[0] < inf), key=lambda change: change[0])


def until(time_s: float, changes: Iterable[TimedChange]) -> Iterator[TimedChange]:
    """The changes before a time; what is down then returns at that time."""
    down: dict[Subject, int] = {}
    for change_s, change in changes:
        if change_s >= time_s:
            break
        if isinstance(change, StateChange):
            for subject in change.subjects:
                down[subject] = down.get(subject, 0) + (-1 if change.up else 1)
        yield change_s, change
    for subject, n in down.items():
        yield from n * [(time_s, StateChange((subject,), True))]


def in_order_of_time(*sources: Iterable[TimedChange]) -> Iterator[TimedChange]:
    """Several streams as one."""
    return heapq.merge(*sources, key=lambda change: change[0])


@dataclass(frozen=True, slots=True)
class SlowMachines:
    """A run that starts from `from_s` on and before `to_s` takes `factor` times as long on these machines (by
    index)."""

    machines: frozenset[int]
    factor: float
    from_s: float = 0.0
    to_s: float = inf


@dataclass(frozen=True, slots=True)
class FailingRuns:
    """The first `n` runs of a job fail, after a share of the time that they would take."""

    n: float
    after: float


def failing_runs(probability: float, after: float, draw: float) -> FailingRuns:
    """The failing runs of a job of which each run fails with this probability; 1: all its runs.

    `draw` is uniform in [0, 1): one for each job, so that it fails as often under every scheduler, and no
    less often with a greater probability. At least n runs fail with probability ** n."""
    return FailingRuns(inf if probability == 1.0 else log1p(-draw) // log(probability), after)


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """A job saves what it has done after each `interval_s` of work, except at its end, in `cost_s`."""

    interval_s: float
    cost_s: float = 0.0

    def run_s(self, work_s: float) -> float:
        """The run time of a job that works for `work_s`, with its checkpoints."""
        return work_s + self.cost_s * max(ceil(work_s / self.interval_s) - 1, 0) if work_s < inf else inf


class SavedWork:
    """What jobs have saved in checkpoints. A job starts again from its last complete checkpoint; on machines
    with another run time, from the same share of it."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self.checkpoints = checkpoints
        self._active: dict[int, tuple[float, float, float, float]] = {}
        """The seconds of a run; how many times as long it takes as usual; the seconds that its job had saved,
        and of how many."""
        self._saved: dict[int, tuple[float, float]] = {}

    def saved_s(self, job: int, usual_s: float) -> float:
        """What a job has saved of the seconds that it usually takes."""
        saved_s, of_s = self._saved.get(job, (0.0, usual_s))
        return saved_s if of_s == usual_s else saved_s * usual_s / of_s

    def begin(self, run: int, run_s: float, slowness: float, saved_s: float, usual_s: float) -> None:
        self._active[run] = run_s, slowness, saved_s, usual_s

    def lost_s(self, run: int, job: int, left_s: float) -> float:
        """The seconds since the last checkpoint of a run that is interrupted `left_s` before its end."""
        run_s, slowness, saved_s, of_s = self._active.pop(run)
        period_s, ran_s = self.checkpoints.interval_s + self.checkpoints.cost_s, run_s - left_s
        n = ran_s // (period_s * slowness)
        more, before = (saved_s + n * period_s, of_s), self._saved.get(job, (0.0, of_s))
        if more[0] * before[1] > before[0] * of_s:  # an abandoned run may have saved more
            self._saved[job] = more
        return ran_s - n * period_s * slowness


class Hindrances:
    """The slow machines, failing runs and checkpoints of one run of the harness. `most_s` is the time limit
    of a job, at which its runs end; usual run times include checkpoints.

    A run is as slow as the slowest of its machines when it starts. A run that is lost or preempted before it
    would fail does not count as one that has failed."""

    def __init__(
        self,
        slow: Sequence[SlowMachines] = (),
        failing: Mapping[JobId, FailingRuns] | None = None,
        most_s: Callable[[Job], float] = lambda job: inf,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        self._slow = slow
        self._failing = failing or {}
        self._most_s = most_s
        self.checkpoints = checkpoints
        self._saved = None if checkpoints is None else SavedWork(checkpoints)
        self._failed: Counter[JobId] = Counter()
        self._will_fail: set[RunId] = set()

    def run_s(self, order: DispatchOrder, usual_s: float, now_s: float) -> float:
        """Seconds until a run that starts now ends or fails; without hindrances, the whole job would end
        after `usual_s`."""
        saved_s = 0.0 if self._saved is None else self._saved.saved_s(order.job.id, usual_s)
        run_s, slowness = usual_s - saved_s, 1.0
        if self._slow:
            slowness = self._slowness(order.machines, now_s)
            run_s = min(run_s * slowness, max(run_s, self._most_s(order.job)))
        fails = self._failing.get(order.job.id)
        if fails is not None and self._failed[order.job.id] < fails.n:
            self._will_fail.add(order.run)
            run_s *= fails.after
        if self._saved is not None:
            self._saved.begin(order.run, run_s, slowness, saved_s, usual_s)
        return run_s

    def lost_s(self, order: DispatchOrder, left_s: float) -> float | None:
        """The seconds since the last checkpoint of a run that is interrupted `left_s` before its end; None
        without checkpoints."""
        return None if self._saved is None else self._saved.lost_s(order.run, order.job.id, left_s)

    def has_failed(self, run: RunId, job: JobId) -> bool:
        """Whether a run that has come to its end has failed."""
        if run not in self._will_fail:
            return False
        self._failed[job] += 1
        return True

    def _slowness(self, machines: Sequence[int], now_s: float) -> float:
        slow = [each for each in self._slow if each.from_s <= now_s < each.to_s]
        return max(prod(each.factor for each in slow if machine in each.machines) for machine in machines)
