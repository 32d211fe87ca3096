"""Policies of a meta-scheduler that misbehave, each in one way: `tests.faulty_on_clusters:Class`."""

from __future__ import annotations

from typing import Any

from scheduler import rules
from scheduler.meta_scheduling.policies import ClustersProblem
from scheduler.model import NodeSchedule
from tests.faulty import spoilt
from tests.faulty_on_free_nodes import ALSO_ON_SHARED_NODES, ON_ANY_NODES, LooksForMachines, StartsNoJob


def _emptying_a_cluster(problem: ClustersProblem, good: NodeSchedule) -> Any:
    problem.clusters = tuple(each._replace(load_s=each.load_s + 1.0) for each in problem.clusters)
    return good


def _adding_a_cluster(problem: ClustersProblem, good: NodeSchedule) -> Any:
    problem.n_places += 1
    return problem.sent_to(problem.n_places - 1)


SPOILT = {
    **ALSO_ON_SHARED_NODES,
    "SendsAJobNowhere": (rules.NO_JOB_FORGOTTEN, lambda p, good: p.sent_to()),
    "NamesAClusterThatIsNotThere": (rules.KNOWN_NODES, lambda p, good: p.sent_to(p.n_places)),
    "NamesAClusterTwice": (rules.ONE_TASK_ON_EACH_NODE, lambda p, good: p.sent_to(0, 0)),
    "CountsFromTheEnd": (rules.KNOWN_NODES, lambda p, good: p.sent_to(-1)),
    "EmptiesACluster": (rules.PROBLEM_UNTOUCHED, _emptying_a_cluster),
    "AddsACluster": (rules.KNOWN_NODES, _adding_a_cluster),
}
_SPOILT = spoilt(__name__, {name: spoil for name, (_, spoil) in SPOILT.items()})

BROKEN_RULE: dict[type, str] = {
    **{kind: SPOILT[name][0] for name, kind in _SPOILT.items()},
    LooksForMachines: rules.RIGHT_KIND,
    **ON_ANY_NODES,
    StartsNoJob: rules.NO_JOB_FORGOTTEN,
}
globals().update({kind.__name__: kind for kind in BROKEN_RULE})
