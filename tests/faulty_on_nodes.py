"""Schedulers for time-shared nodes that misbehave, each in one way: `tests.faulty_on_nodes:Class`."""

from __future__ import annotations

from typing import Any

from scheduler import rules
from scheduler.model import NodeSchedule, Start
from scheduler.time_shared.problem import TimeSharedProblem
from tests.faulty import spoilt
from tests.faulty_on_free_nodes import ALSO_ON_SHARED_NODES, ON_ANY_NODES, LooksForMachines


def _writing_into_the_nodes(problem: TimeSharedProblem, good: NodeSchedule) -> Any:
    problem.shared_nodes.nodes.most_jobs[:] = 99
    return good


SPOILT = {**ALSO_ON_SHARED_NODES, "WritesIntoTheNodes": (rules.PROBLEM_UNTOUCHED, _writing_into_the_nodes)}


class CrowdsTheFirstNodes:
    """Puts every job on the first nodes, even if they are full."""

    def schedule(self, problem: TimeSharedProblem) -> NodeSchedule:
        n_tasks = [problem.shared_nodes.requirement(i).n_tasks for i in range(problem.n_jobs)]
        end_s = problem.now_s + 1.0
        return NodeSchedule([Start(i, tuple(range(n)), end_s) for i, n in enumerate(n_tasks)])


_SPOILT = spoilt(__name__, {name: spoil for name, (_, spoil) in SPOILT.items()})

BROKEN_RULE: dict[type, str] = {
    **{kind: SPOILT[name][0] for name, kind in _SPOILT.items()},
    LooksForMachines: rules.RIGHT_KIND,
    CrowdsTheFirstNodes: rules.SOCIAL_CONTRACT,
    **ON_ANY_NODES,
}
globals().update({kind.__name__: kind for kind in BROKEN_RULE})
