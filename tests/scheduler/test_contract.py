from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from scheduler import registry
from scheduler.mapping.immediate import Mct
from scheduler.mapping.problem import MappingProblem
from scheduler.model import Answer, Schedule
from scheduler.registry import resolve
from scheduler.rules import DETERMINISTIC, RETURNS_IN_TIME, RULES_OF, Kind
from scheduler.testing import CONTRACTS, ContractBroken, check_contract
from scheduler.testing.examination import Caller, Examination, Here
from scheduler.time_shared.loras import Ordering
from sil.world.guard.time_limit import TimeLimitExceeded, time_limit
from tests import faulty, faulty_on_nodes
from tests.examples import up_to

RULES_WITHOUT_ONE_JOB = {
    "returns-a-schedule",
    "right-kind",
    "raises-nothing",
    "returns-in-time",
    "known-job",
    "preempts-running-runs",
    "problem-untouched",
}


SLOW = ("optimal", "pjs_optimal", "gsa")
FAULTY_EXAMPLES = up_to(200, part=2)
"""Most faults show in the first example, some only after fifty."""


def within_limit(rule: str) -> Caller:
    """Ends a call after 1 s where it is expected never to return, else only if it is stuck."""
    limit_s = 1.0 if rule == RETURNS_IN_TIME else 300.0

    def limited(call: Callable[[], Answer]) -> Answer:
        try:
            with time_limit(limit_s):
                return call()
        except TimeLimitExceeded:
            raise TimeoutError(f"{limit_s:g} s was allowed") from None

    return limited


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long) if name == "pjs_optimal" else name
        for name in registry.ON_MACHINES
    ],
)
def test_every_built_in_mapping_scheduler_satisfies_the_contract(name: str) -> None:
    check_contract(resolve(name).make, examples=up_to(200, part=20 if name in SLOW else 10))


@pytest.mark.parametrize("kind", faulty.BROKEN_RULE, ids=lambda kind: kind.__name__)
def test_a_faulty_scheduler_is_reported_with_the_rule_and_the_job(kind: type) -> None:
    with pytest.raises(ContractBroken) as caught:
        check_contract(kind, examples=FAULTY_EXAMPLES, call=within_limit(faulty.BROKEN_RULE[kind]))
    assert caught.value.rule == faulty.BROKEN_RULE[kind]
    assert (caught.value.job is None) == (caught.value.rule in RULES_WITHOUT_ONE_JOB)


@pytest.mark.parametrize(
    "name", [*registry.ON_SHARED_NODES, *(f"loras(ordering={o}, selection=best_fit)" for o in Ordering)]
)
def test_every_built_in_shared_nodes_scheduler_satisfies_the_contract(name: str) -> None:
    check_contract(resolve(name).make, Kind.TIME_SHARED, examples=up_to(200, part=10))


@pytest.mark.parametrize("kind", faulty_on_nodes.BROKEN_RULE, ids=lambda kind: kind.__name__)
def test_a_faulty_shared_nodes_scheduler_is_reported_with_the_rule_it_breaks(kind: type) -> None:
    call = within_limit(faulty_on_nodes.BROKEN_RULE[kind])
    with pytest.raises(ContractBroken) as caught:
        check_contract(kind, Kind.TIME_SHARED, examples=FAULTY_EXAMPLES, call=call)
    assert caught.value.rule == faulty_on_nodes.BROKEN_RULE[kind]
    if kind is faulty_on_nodes.CrowdsTheFirstNodes:
        (outline,) = caught.value.problems
        assert len(outline.jobs) <= 2, "two jobs on a node that allows one, or one where memory is short"  # type: ignore[attr-defined]


def test_every_mapping_rule_is_broken_by_a_faulty_scheduler() -> None:
    assert set(faulty.BROKEN_RULE.values()) == set(RULES_OF[Kind.MAPPING])


def test_the_smallest_example_of_a_forgotten_job_has_one_job_and_one_machine() -> None:
    with pytest.raises(ContractBroken) as caught:
        check_contract(faulty.ForgetsAJob)
    (outline,) = caught.value.problems
    assert (len(outline.job_class_of), len(outline.ready_s)) == (1, 1)


def test_a_scheduler_that_shares_state_across_instances_is_not_deterministic() -> None:
    turns = []

    class TakesTurns(Mct):
        def schedule(self, problem: MappingProblem) -> Schedule:
            turns.append(1)
            decide = Mct() if len(turns) % 2 else resolve("max_min").make()
            made: Schedule = decide.schedule(problem)
            return made

    with pytest.raises(ContractBroken) as caught:
        check_contract(TakesTurns)
    assert caught.value.rule == DETERMINISTIC


def test_rules_that_were_never_tested_are_not_exercised() -> None:
    contract, limit = CONTRACTS[Kind.MAPPING], within_limit("raises-nothing")
    examination = Examination(lambda: Here(faulty.ReturnsNothing(), limit), contract, 50)
    assert [broken.rule for broken in examination.broken_rules()] == ["returns-a-schedule"]
    assert examination.exercised == {"right-kind", "raises-nothing", "returns-in-time"}


def test_a_mapping_scheduler_exercises_all_rules_but_preemption() -> None:
    pjs = resolve("pjs")
    examination = Examination(lambda: Here(pjs.make()), CONTRACTS[Kind.MAPPING], 100)
    examination.run()
    assert set(RULES_OF[Kind.MAPPING]) - examination.exercised == {"preempts-running-runs"}


def test_counterexample_jobs_are_numbered_from_one() -> None:
    with pytest.raises(ContractBroken, match="job 1 is neither mapped nor left waiting"):
        check_contract(faulty.ForgetsAJob)


def test_where_hypothesis_is_missing_a_sentence_says_how_to_install_it() -> None:
    code = "import sys; sys.modules['hypothesis'] = None; import scheduler.testing"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "UserError: the problems for examining a scheduler are drawn by Hypothesis" in done.stderr
    assert "pip install 'sil-testbed[testing]'" in done.stderr
