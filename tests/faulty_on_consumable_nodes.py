"""Schedulers for nodes with cores, memory and GPUs that misbehave, each in one way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from scheduler import rules
from scheduler.free_nodes.consumable_problem import ConsumableNodesProblem, Placer
from scheduler.model import NodeSchedule, Share, Start
from scheduler.node_resources.core.codes import FREE, HAS, NODE
from scheduler.node_resources.selection import FirstFit, Placement
from scheduler.node_resources.state import shares_of
from scheduler.node_set import NodeSet
from tests.faulty import spoilt
from tests.faulty_on_free_nodes import ALSO_ON_SHARED_NODES, ON_ANY_NODES, first_start


def first_share(change: Callable[[Share], Share]) -> Callable[[Any, Any], NodeSchedule]:
    return first_start(lambda p, start: start._replace(shares=(change(start.shares[0]), *start.shares[1:])))


def each_share(change: Callable[[Share], Share]) -> Callable[[Any, Any], NodeSchedule]:
    return first_start(lambda p, start: start._replace(shares=tuple(map(change, start.shares))))


def _on_other_nodes(problem: ConsumableNodesProblem, start: Start) -> Start:
    nodes = {node for node in range(problem.n_places) if node not in start.nodes} or {*start.nodes, 0}
    return start._replace(nodes=NodeSet.of(nodes))


def _taking_the_nodes(problem: ConsumableNodesProblem, good: NodeSchedule) -> NodeSchedule:
    problem.free_nodes.nodes.table.free[:] = 0
    return good


LEFT_OUT = {"CompletesBeforeItStarts", "PlacesByPlainTuples", "PutsTwoTasksOnOneNode", "DecidesByChance"}
SPOILT: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "GivesAChunkTooMany": (
        rules.NODES_FREE,
        first_share(lambda share: share._replace(chunks=share.chunks + 1)),
    ),
    "GivesNoChunk": (rules.NODES_FREE, first_share(lambda share: share._replace(chunks=0))),
    "NamesOtherNodesThanItsShares": (rules.NODES_FREE, first_start(_on_other_nodes)),
    # Where a start has two GPUs, it has the first of them twice.
    "UsesAGpuTwice": (
        rules.NODES_FREE,
        each_share(lambda share: share._replace(gpus=share.gpus[:1] * len(share.gpus))),
    ),
    "UsesAGpuThatIsNotThere": (
        rules.NODES_FREE,
        each_share(lambda share: share._replace(gpus=tuple(d + 60 for d in share.gpus))),
    ),
    "TakesTheNodesItself": (rules.PROBLEM_UNTOUCHED, _taking_the_nodes),
    **{name: what for name, what in ALSO_ON_SHARED_NODES.items() if name not in LEFT_OUT},
}


class StartsEverythingOnTheFirstNode:
    def schedule(self, problem: ConsumableNodesProblem) -> NodeSchedule:
        starts = [Start(i, NodeSet.of([0]), problem.now_s + 1.0) for i in range(problem.n_jobs)]
        return NodeSchedule(tuple(starts))


class IgnoresTheSitesResources:
    """All jobs that fit on the nodes, in order of the queue, whatever they request of the site."""

    def schedule(self, problem: ConsumableNodesProblem) -> NodeSchedule:
        waiting, nodes = problem.free_nodes.waiting, problem.free_nodes.nodes.alongside()
        placement, starts, reasons = Placement(nodes, FirstFit()), list[Start](), dict[int, str]()
        for i in range(problem.n_jobs):
            nodes.table.site[FREE] = nodes.table.site[HAS]
            used = placement.place(int(waiting.kinds[i]), int(waiting.chunks[i]))
            if used is None:
                reasons[i] = "it does not fit on the nodes"
                continue
            end_s = problem.now_s + float(waiting.estimates_s[i])
            starts.append(Start(i, NodeSet.of(set(used[:, NODE].tolist())), end_s, shares_of(used)))
        return NodeSchedule(tuple(starts), reasons)


_SPOILT = spoilt(__name__, {name: spoil for name, (_, spoil) in SPOILT.items()})


class IgnoresLimits:
    """All jobs that fit on the nodes, in order of the queue, whatever the policy of the site is."""

    def schedule(self, problem: ConsumableNodesProblem) -> NodeSchedule:
        free_nodes = problem.free_nodes
        free_nodes.claims, claims = None, free_nodes.claims
        try:
            without = Placer(problem)
            for i in range(problem.n_jobs):
                if without.fits(i):
                    without.start(i)
        finally:
            free_nodes.claims = claims
        return without.schedule("it does not fit on the nodes")


class IgnoresReservations:
    """All jobs that fit on the nodes, in order of the queue, whatever is reserved."""

    def schedule(self, problem: ConsumableNodesProblem) -> NodeSchedule:
        with patch.object(problem.free_nodes, "in_the_way", lambda i, now_s: {}):
            without = Placer(problem)
            for i in range(problem.n_jobs):
                if without.fits(i):
                    without.start(i)
        return without.schedule("it does not fit on the nodes")


BROKEN_RULE: dict[type, str] = {
    **{kind: SPOILT[name][0] for name, kind in _SPOILT.items()},
    StartsEverythingOnTheFirstNode: rules.NODES_FREE,
    IgnoresTheSitesResources: rules.NODES_FREE,
    IgnoresLimits: rules.WITHIN_LIMITS,
    IgnoresReservations: rules.OUTSIDE_RESERVATIONS,
    **ON_ANY_NODES,
}
globals().update({kind.__name__: kind for kind in BROKEN_RULE})
