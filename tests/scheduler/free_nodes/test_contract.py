from __future__ import annotations

from typing import Any

import pytest

from scheduler import registry
from scheduler.free_nodes.consumable_problem import ConsumableNodesProblem
from scheduler.free_nodes.placer import Placer
from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.free_nodes.rigid import Backfilling
from scheduler.model import NodeSchedule, Start
from scheduler.registry import resolve
from scheduler.rules import NODES_FREE, RULES_OF, Kind
from scheduler.testing import ContractBroken, check_contract
from tests import faulty_on_consumable_nodes, faulty_on_free_nodes
from tests.examples import up_to
from tests.scheduler.test_contract import FAULTY_EXAMPLES, within_limit

SJF_WITH_BACKFILLING = [
    f"rigid(ordering=sjf, backfilling={b})" for b in (Backfilling.EASY, Backfilling.EASY_SJBF)
]


@pytest.mark.parametrize("name", [*registry.ON_FREE_NODES, *SJF_WITH_BACKFILLING])
def test_every_built_in_free_nodes_scheduler_satisfies_the_contract(name: str) -> None:
    check_contract(resolve(name).make, Kind.FREE_NODES, examples=up_to(60))


@pytest.mark.parametrize(
    "name",
    [
        *registry.ON_FREE_NODES,
        "rigid(backfilling=easy, selection=best_fit)",
        "rigid(backfilling=easy_sjbf, selection=fgd)",
        "conservative(selection=worst_fit)",
    ],
)
def test_every_built_in_scheduler_satisfies_the_contract_on_consumable_nodes(name: str) -> None:
    check_contract(resolve(name).make, "consumable-nodes", examples=up_to(60))


class WhileTheyFit:
    """Any job that fits, in order."""

    def schedule(self, problem: FreeNodesProblem | ConsumableNodesProblem) -> NodeSchedule:
        placer = Placer(problem)
        for i in range(problem.n_jobs):
            if placer.fits(i):
                placer.start(i)
        return placer.schedule("it does not fit")


def test_a_job_that_gets_what_is_not_free_is_reported_on_consumable_nodes() -> None:
    with pytest.raises(ContractBroken) as caught:
        check_contract(faulty_on_consumable_nodes.StartsEverythingOnTheFirstNode, "consumable-nodes")
    assert caught.value.rule == NODES_FREE
    *_, outline = caught.value.problems
    # Two jobs on one node, or one job of two chunks that each need another node.
    assert len(outline.nodes) + len(outline.waiting) == 3  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["free-nodes", "consumable-nodes"])
def test_one_class_with_a_placer_serves_identical_and_consumable_nodes(kind: str) -> None:
    check_contract(WhileTheyFit, kind, examples=up_to(60))


@pytest.mark.parametrize("kind", faulty_on_free_nodes.BROKEN_RULE, ids=lambda kind: kind.__name__)
def test_a_faulty_free_nodes_scheduler_is_reported_with_the_rule_it_breaks(kind: type[Any]) -> None:
    call = within_limit(faulty_on_free_nodes.BROKEN_RULE[kind])
    with pytest.raises(ContractBroken) as caught:
        check_contract(kind, Kind.FREE_NODES, examples=FAULTY_EXAMPLES, call=call)
    assert caught.value.rule == faulty_on_free_nodes.BROKEN_RULE[kind]


@pytest.mark.parametrize("kind", faulty_on_consumable_nodes.BROKEN_RULE, ids=lambda kind: kind.__name__)
@pytest.mark.long
def test_a_faulty_scheduler_is_reported_with_the_rule_it_breaks_on_consumable_nodes(kind: type[Any]) -> None:
    rule = faulty_on_consumable_nodes.BROKEN_RULE[kind]
    with pytest.raises(ContractBroken) as caught:
        check_contract(kind, "consumable-nodes", examples=FAULTY_EXAMPLES, call=within_limit(rule))
    assert caught.value.rule == rule


def test_every_placement_and_conduct_rule_is_broken_by_a_faulty_scheduler() -> None:
    broken = set(faulty_on_free_nodes.BROKEN_RULE.values())
    assert broken >= set(RULES_OF[Kind.FREE_NODES])


def test_the_smallest_example_of_a_doubly_assigned_node_has_two_jobs_and_one_node() -> None:
    with pytest.raises(ContractBroken) as caught:
        check_contract(faulty_on_free_nodes.GivesANodeToTwoJobs, "free_nodes")
    # What Hypothesis draws, and so whether a problem is left before it, depends on which tests are loaded.
    *_, outline = caught.value.problems
    assert (outline.n_nodes, len(outline.waiting)) == (1, 2)  # type: ignore[attr-defined]


def test_placements_may_list_nodes_in_any_order_and_sequence_type() -> None:
    class ListsNodesInReverse:
        """FCFS whose nodes are tuples, in descending order."""

        def schedule(self, problem: FreeNodesProblem) -> NodeSchedule:
            good: NodeSchedule = resolve("fcfs").make().schedule(problem)
            backwards = [Start(p.job, tuple(reversed(p.nodes)), p.completion_s) for p in good.starts]
            return good._replace(starts=tuple(backwards))

    check_contract(ListsNodesInReverse, Kind.FREE_NODES, examples=up_to(50))
