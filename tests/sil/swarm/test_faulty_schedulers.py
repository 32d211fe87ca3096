"""Schedulers that make mistakes, and that a manager carries out nothing of these."""

from __future__ import annotations

from math import inf

import pytest

from scheduler.free_nodes.rigid import Rigid
from scheduler.mapping.greedy import MinMin
from scheduler.mapping.problem import MappingProblem
from scheduler.resource_manager import ManagerDecorator
from scheduler.rules import (
    EACH_JOB_ONCE,
    KNOWN_JOB,
    NO_JOB_FORGOTTEN,
    RETURNS_A_SCHEDULE,
    ScheduleRejected,
    Violation,
)
from scheduler.testing.rigid import FreeNodesOutline
from sil.swarm.sites import Mistakes, RetryOnViolation, WrongScheduler

ON_MACHINES = MinMin(), MappingProblem.from_matrix([[3.0, 5.0], [4.0, 2.0], [6.0, inf]])
ON_NODES = Rigid(), FreeNodesOutline(4, 0, (), ((1, 5.0), (2, 5.0), (4, 5.0)), 0.0).build(1)


@pytest.mark.parametrize(("scheduler", "problem"), [ON_MACHINES, ON_NODES])
def test_mistakes_are_of_four_kinds(scheduler, problem) -> None:  # type: ignore[no-untyped-def]
    mistakes = Mistakes(share=1.0, until_s=1.0, seed=1)
    wrong = WrongScheduler(scheduler, mistakes)
    broken = {problem.violation(wrong.schedule(problem)).rule for _ in range(50)}
    assert broken == {RETURNS_A_SCHEDULE, NO_JOB_FORGOTTEN, EACH_JOB_ONCE, KNOWN_JOB}
    assert mistakes.last_was_wrong


@pytest.mark.parametrize(("scheduler", "problem"), [ON_MACHINES, ON_NODES])
def test_there_are_none_after_the_faults_of_a_case(scheduler, problem) -> None:  # type: ignore[no-untyped-def]
    mistakes = Mistakes(share=1.0, until_s=0.0, seed=1)
    wrong = WrongScheduler(scheduler, mistakes)
    assert problem.violation(wrong.schedule(problem)) is None
    assert not mistakes.last_was_wrong


class Rejects(ManagerDecorator):
    """A manager whose first rounds end with an answer that is rejected."""

    def __init__(self, times: int) -> None:
        self.left = times

    def run_round(self) -> None:
        if self.left:
            self.left -= 1
            raise ScheduleRejected(Violation(KNOWN_JOB, None, "job index 7 is named, but there are 2 jobs"))


def test_a_scheduler_is_asked_again_until_it_makes_no_mistake() -> None:
    manager = Rejects(times=3)
    RetryOnViolation(manager, Mistakes(0.5, 1.0, 1, last_was_wrong=True)).run_round()
    assert manager.left == 0


def test_what_is_rejected_without_a_seeded_mistake_remains_a_fault() -> None:
    with pytest.raises(ScheduleRejected, match="job index 7"):
        RetryOnViolation(Rejects(times=1), Mistakes(0.5, 1.0, 1)).run_round()
