"""Planned and running runs on the timelines of their machines, and ready times from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.managers.commitments import Commitments, Run
from scheduler.model import Job, JobId, RunId
from tests.examples import up_to

LOW = frozenset({"low"})
NONE: frozenset[str] = frozenset()


def run(
    number: int, machines: Sequence[int], start_s: float, completion_s: float, queue: str = "high"
) -> Run:
    job = Job(JobId(number), "work", 0.0, queue=queue)
    return Run(RunId(number), job, queue, machines[0], tuple(machines), start_s, completion_s)


def committed(*runs: Run) -> Commitments:
    """Three machines, on which `runs` are planned."""
    commitments = Commitments(3, [LOW])
    for added in runs:
        commitments.add(added)
    return commitments


def started(commitments: Commitments, *runs: Run) -> None:
    """`runs` start at their planned times."""
    for first in runs:
        commitments.start(first, first.start_s)


def times(*runs: Run) -> list[tuple[float, float]]:
    return [(each.start_s, each.completion_s) for each in runs]


# -- ready times -------------------------------------------------------------------------------------------


def test_ready_times_without_victims_also_exclude_ignored_queues() -> None:
    commitments = committed(run(0, [0], 0, 10), run(1, [0], 10, 30, "low"), run(2, [0], 30, 45))
    assert commitments.ready_s_without(0, frozenset({RunId(2)}), NONE) == 30
    assert commitments.ready_s_without(0, frozenset({RunId(2)}), LOW) == 10
    assert commitments.ready_s_without(0, frozenset({RunId(0), RunId(2)}), LOW) == 0


# -- the line ----------------------------------------------------------------------------------------------


def test_no_run_is_inserted_before_a_started_run() -> None:
    there, early = run(0, [0], 10, 20), run(1, [0], 9.9999999, 20)
    commitments = committed(there)
    started(commitments, there)
    commitments.add(early)
    assert commitments.on(0) == (there, early)


def test_a_run_that_starts_at_another_time_keeps_its_planned_duration() -> None:
    early = run(0, [0], 10, 30)
    commitments = committed(early)
    commitments.start(early, 4.0)
    assert times(early) == [(4, 24)]
    assert commitments.ready_s()[0] == 24


def test_a_run_being_preempted_occupies_its_machines_until_now_and_stays_first() -> None:
    victim, behind = run(0, [0, 1], 0, 50), run(1, [0], 50, 60)
    commitments = committed(victim, behind)
    started(commitments, victim)
    commitments.cut(victim, 7.0)
    assert commitments.ready_s().tolist() == [60, 7, 0]
    assert commitments.first_on(0) is victim
    assert not commitments.is_first_everywhere(behind)


# -- what overlaps -----------------------------------------------------------------------------------------


def overlapping(commitments: Commitments, new: Run, now_s: float = 0.0) -> list[int]:
    return [other.id for other in commitments.overlapping(new, LOW, now_s)]


@pytest.mark.parametrize(
    ("there", "new", "expected"),
    [
        ([([0, 1], 10, 20), ([2], 10, 20), ([1], 20, 40)], ([0, 1], 15, 25), [0, 2]),
        ([([0], 12, 20), ([1], 11, 20)], ([0, 1], 10, 25), [1, 0]),
        ([([0], 0, 10), ([0], 20, 30)], ([0], 10, 20), []),
        ([([0], 0, 10, "high"), ([0], 10, 30)], ([0], 5, 15), [1]),
    ],
    ids=["once each", "in order of start", "not adjacent ones", "only those of displaced queues"],
)
def test_runs_that_overlap_a_new_one_are_listed(
    there: list[tuple[Any, ...]], new: tuple[Any, ...], expected: list[int]
) -> None:
    commitments = committed(*(run(n, *each[:3], *(each[3:] or ["low"])) for n, each in enumerate(there)))
    assert overlapping(commitments, run(9, *new)) == expected
    assert commitments.overlapping(run(9, *new), NONE, 0.0) == []


def test_an_overdue_run_overlaps_a_run_that_starts_now() -> None:
    there = run(0, [0], 0, 10, "low")
    commitments = committed(there)
    started(commitments, there)
    assert overlapping(commitments, run(9, [0], 10, 20), now_s=10.0) == [0]
    assert overlapping(commitments, run(9, [0], 10, 20), now_s=5.0) == []


def test_a_run_being_preempted_no_longer_overlaps() -> None:
    victim = run(0, [0], 0, 50, "low")
    commitments = committed(victim)
    started(commitments, victim)
    commitments.cut(victim, 7.0)
    assert overlapping(commitments, run(9, [0], 7, 20), now_s=7.0) == []


# -- beliefs that prove wrong ------------------------------------------------------------------------------


def test_an_early_end_moves_only_the_runs_behind_it() -> None:
    first, second, third, elsewhere = (
        run(0, [0], 0, 10),
        run(1, [0], 10, 20),
        run(2, [0], 20, 25),
        run(3, [1], 40, 50),
    )
    commitments = committed(first, second, third, elsewhere)
    started(commitments, first)
    commitments.end(first, 4.0)
    assert commitments.replan(6.0) == []
    assert times(second, third, elsewhere) == [(6, 16), (16, 21), (40, 50)]
    assert commitments.ready_s().tolist() == [21, 50, 0]


def test_an_end_at_the_estimated_time_moves_nothing() -> None:
    first, second = run(0, [0], 0, 10), run(1, [0], 30, 40)
    commitments = committed(first, second)
    started(commitments, first)
    commitments.end(first, 10.0)
    commitments.replan(10.0)
    assert times(second) == [(30, 40)]


def test_a_late_run_is_estimated_to_end_now_until_it_ends() -> None:
    late, behind = run(0, [0], 0, 10), run(1, [0], 10, 20)
    commitments = committed(late, behind)
    started(commitments, late)
    assert commitments.replan(10.0) == []
    assert commitments.replan(12.0) == [late]
    assert times(late, behind) == [(0, 12), (12, 22)]
    assert commitments.replan(15.0) == [late]
    assert times(late, behind) == [(0, 15), (15, 25)]
    commitments.end(late, 15.0)
    assert commitments.replan(20.0) == []


def test_a_preempted_run_without_an_end_notice_is_late() -> None:
    victim, behind = run(0, [0], 0, 50), run(1, [0], 7, 17)
    commitments = committed(victim)
    started(commitments, victim)
    commitments.cut(victim, 7.0)
    commitments.add(behind)
    assert commitments.replan(60.0) == [victim]
    assert times(behind) == [(60, 70)]
    assert commitments.replan(60.0) == []


def test_a_late_run_delays_a_cluster_run_and_the_runs_behind_its_other_members() -> None:
    late, pair, behind, last = (
        run(0, [0], 0, 10),
        run(1, [0, 1], 10, 16),
        run(2, [1], 16, 26),
        run(3, [1, 2], 26, 30),
    )
    commitments = committed(late, pair, behind, last)
    started(commitments, late)
    commitments.replan(40.0)
    assert times(pair, behind, last) == [(40, 46), (46, 56), (56, 60)]
    assert commitments.ready_s().tolist() == [46, 60, 60]


def test_a_cluster_run_moves_up_only_to_when_all_its_members_are_free() -> None:
    early, other, pair = run(0, [0], 0, 30), run(1, [1], 0, 20), run(2, [0, 1], 30, 36)
    commitments = committed(early, other, pair)
    started(commitments, early, other)
    commitments.end(early, 5.0)
    commitments.replan(5.0)
    assert times(pair) == [(20, 26)]


def test_a_late_start_moves_the_runs_behind_it_at_the_next_replan() -> None:
    first, behind = run(0, [0], 0, 10), run(1, [0], 10, 20)
    commitments = committed(first, behind)
    commitments.start(first, 3.0)
    commitments.replan(3.0)
    assert times(first, behind) == [(3, 13), (13, 23)]


def test_replanning_a_machine_keeps_later_planned_gaps() -> None:
    first, second, third = run(0, [0], 0, 10), run(1, [0], 10, 20), run(2, [0], 30, 40)
    commitments = committed(first, second)
    started(commitments, first)
    commitments.end(first, 4.0)
    commitments.replan(4.0)
    commitments.add(third)
    commitments.replan(5.0)
    assert times(second, third) == [(4, 14), (30, 40)]


def test_a_run_held_for_another_reason_is_replanned_to_now() -> None:
    held, behind = run(0, [0], 5, 15), run(1, [0], 15, 25)
    commitments = committed(held, behind)
    commitments.replan(9.0)
    assert times(held, behind) == [(5, 15), (15, 25)]
    commitments.replan(9.0, [held])
    assert times(held, behind) == [(9, 19), (19, 29)]


# -- in general --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Step:
    """`kind` of thing that happens, to the `which`-th run that it can happen to."""

    kind: str
    which: int
    machines: frozenset[int]
    seconds: int


steps = st.builds(
    Step,
    st.sampled_from(("add high", "add high", "add low", "add low", "start", "start", "end", "take back")),
    st.integers(0, 5),
    st.frozensets(st.integers(0, 2), min_size=1, max_size=3),
    st.integers(1, 12),
)


class CommitmentModel:
    """Commitments as a manager uses them: what is planned lies after what its queue can see."""

    def __init__(self) -> None:
        self.commitments = Commitments(3, [LOW])
        self.now_s = 0.0
        self.alive: list[Run] = []
        self._numbers = count()

    def take(self, step: Step) -> None:
        self.now_s += step.which
        match step.kind.split():
            case ["add", queue]:
                self._plan(queue, step)
            case ["start"]:
                for first in self._some(self._can_start(), step):
                    self.commitments.start(first, self.now_s)
            case ["end"]:
                for over in self._some([each for each in self.alive if each.started], step):
                    self.commitments.end(over, self.now_s)
                    self.alive.remove(over)
            case _:
                for planned in self._some([each for each in self.alive if not each.started], step):
                    self._take_back(planned)

    def _plan(self, queue: str, step: Step) -> None:
        self.commitments.replan(self.now_s)
        self.check_plan()
        ignored = LOW if queue == "high" else NONE
        machines = sorted(step.machines)
        ready_s = max(self.commitments.ready_s(ignored)[j] for j in machines)
        start_s = max(ready_s, self.now_s) + max(0, step.which - 3)
        new = run(next(self._numbers), machines, start_s, start_s + step.seconds, queue)
        for other in self.commitments.overlapping(new, ignored, self.now_s):
            if other.started:
                self.commitments.cut(other, self.now_s)
            else:
                self._take_back(other)
        self.commitments.add(new)
        self.alive.append(new)
        self.check_plan()

    def _take_back(self, planned: Run) -> None:
        self.commitments.remove(planned)
        self.alive.remove(planned)

    def _can_start(self) -> list[Run]:
        return [
            each for each in self.alive if not each.started and self.commitments.is_first_everywhere(each)
        ]

    def _some(self, runs: list[Run], step: Step) -> list[Run]:
        return [runs[step.which % len(runs)]] if runs else []

    def check_books(self) -> None:
        for j in range(3):
            line = self.commitments.on(j)
            assert set(line) == {each for each in self.alive if j in each.machines}
            assert list(line) == sorted(line, key=lambda each: each.place_in_line)
            for ignored in (NONE, LOW):
                ends_s = [each.completion_s for each in line if each.queue not in ignored]
                assert self.commitments.ready_s(ignored)[j] == max(ends_s, default=0.0)
                assert self.commitments.ready_s_without(j, frozenset(), ignored) == max(ends_s, default=0.0)

    def check_plan(self) -> None:
        """True between a replan and the next start or end."""
        for j in range(3):
            line = self.commitments.on(j)
            assert all(each.completion_s >= self.now_s for each in line if each.started)
            for before, after in pairwise(line):
                assert after.start_s >= before.completion_s


@settings(max_examples=up_to(300), deadline=None, derandomize=True)
@given(st.lists(steps, max_size=25))
def test_plans_stay_sorted_without_overlap_and_never_deadlock(steps_taken: Sequence[Step]) -> None:
    simulated = CommitmentModel()
    for step in steps_taken:
        simulated.take(step)
        simulated.check_books()
    simulated.commitments.replan(simulated.now_s)
    before = times(*simulated.alive)
    assert simulated.commitments.replan(simulated.now_s) == []
    assert times(*simulated.alive) == before
    for ending in [each for each in simulated.alive if each.started]:
        simulated.commitments.end(ending, simulated.now_s)
        simulated.alive.remove(ending)
    while simulated.alive:
        first = simulated._can_start()
        assert first, "all wait for each other"
        simulated.commitments.start(first[0], simulated.now_s)
        simulated.commitments.end(first[0], simulated.now_s)
        simulated.alive.remove(first[0])
