"""Schedulers for nodes with cores, memory and GPUs that misbehave, each in one way."""

from __future__ import annotations

from abc import abstractmethod

from scheduler import rules
from scheduler.free_nodes.consumable_problem import ConsumableNodesProblem
from scheduler.model import NodeSchedule, Share, Start
from scheduler.node_resources.core.codes import FREE, HAS, NODE
from scheduler.node_resources.selection import FirstFit, Placement
from scheduler.node_resources.state import shares_of
from scheduler.node_set import NodeSet
from tests import faulty_on_free_nodes as on_free_nodes
from tests.faulty import NeverReturns, Raises, ReturnsNothing


class _Wrong(on_free_nodes.Wrong):
    """Something is done to the first start."""

    def spoil(self, problem: ConsumableNodesProblem, good: NodeSchedule) -> NodeSchedule:
        first, *others = good.starts
        return good._replace(starts=(self.spoil_start(problem, first), *others))

    @abstractmethod
    def spoil_start(self, problem: ConsumableNodesProblem, start: Start) -> Start:
        """The first start with one mistake."""


class GivesAChunkTooMany(_Wrong):
    def spoil_start(self, problem: ConsumableNodesProblem, start: Start) -> Start:
        node, chunks, gpus = start.shares[0]
        return start._replace(shares=(Share(node, chunks + 1, gpus), *start.shares[1:]))


class GivesNoChunk(_Wrong):
    def spoil_start(self, problem: ConsumableNodesProblem, start: Start) -> Start:
        node, _, gpus = start.shares[0]
        return start._replace(shares=(Share(node, 0, gpus), *start.shares[1:]))


class NamesOtherNodesThanItsShares(_Wrong):
    def spoil_start(self, problem: ConsumableNodesProblem, start: Start) -> Start:
        nodes = {node for node in range(problem.n_places) if node not in start.nodes} or {*start.nodes, 0}
        return start._replace(nodes=NodeSet.of(nodes))


class UsesAGpuTwice(_Wrong):
    """Where a start has two GPUs, it has the first of them twice."""

    def spoil_start(self, problem: ConsumableNodesProblem, start: Start) -> Start:
        shares = [Share(s.node, s.chunks, s.gpus[:1] * len(s.gpus)) for s in start.shares]
        return start._replace(shares=tuple(shares))


class UsesAGpuThatIsNotThere(_Wrong):
    def spoil_start(self, problem: ConsumableNodesProblem, start: Start) -> Start:
        shares = [Share(s.node, s.chunks, tuple(d + 60 for d in s.gpus)) for s in start.shares]
        return start._replace(shares=tuple(shares))


class StartsEverythingOnTheFirstNode:
    def schedule(self, problem: ConsumableNodesProblem) -> NodeSchedule:
        starts = [Start(i, NodeSet.of([0]), problem.now_s + 1.0) for i in range(problem.n_jobs)]
        return NodeSchedule(tuple(starts))


class TakesTheNodesItself(_Wrong):
    def spoil_start(self, problem: ConsumableNodesProblem, start: Start) -> Start:
        problem.free_nodes.nodes.table.free[:] = 0
        return start


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


BROKEN_RULE = {
    GivesAChunkTooMany: rules.NODES_FREE,
    GivesNoChunk: rules.NODES_FREE,
    NamesOtherNodesThanItsShares: rules.NODES_FREE,
    UsesAGpuTwice: rules.NODES_FREE,
    UsesAGpuThatIsNotThere: rules.NODES_FREE,
    StartsEverythingOnTheFirstNode: rules.NODES_FREE,
    IgnoresTheSitesResources: rules.NODES_FREE,
    TakesTheNodesItself: rules.PROBLEM_UNTOUCHED,
    on_free_nodes.StartsNoJob: rules.MAKES_PROGRESS,
    Raises: rules.RAISES_NOTHING,
    NeverReturns: rules.RETURNS_IN_TIME,
    ReturnsNothing: rules.RETURNS_A_SCHEDULE,
    on_free_nodes.ForgetsAJob: rules.NO_JOB_FORGOTTEN,
    on_free_nodes.StartsAJobTwice: rules.EACH_JOB_ONCE,
    on_free_nodes.StartsAnUnknownJob: rules.KNOWN_JOB,
    on_free_nodes.NamesANodeThatIsNotThere: rules.KNOWN_NODES,
    on_free_nodes.CompletesAtNoFloat: rules.RETURNS_A_SCHEDULE,
    on_free_nodes.MapsToMachines: rules.RETURNS_A_SCHEDULE,
}
