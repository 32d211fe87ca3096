"""Built-in schedulers keep their contracts, and faulty ones are reported with the rules that they break."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from scheduler import registry
from scheduler.free_nodes.rigid import Backfilling
from scheduler.mapping.immediate import Mct
from scheduler.mapping.problem import MappingProblem
from scheduler.model import Answer, Schedule
from scheduler.registry import resolve
from scheduler.rules import DETERMINISTIC, RETURNS_IN_TIME, RULES_OF, Kind
from scheduler.testing import CONSUMABLE, CONTRACTS, ContractBroken, check_contract, examination
from scheduler.testing.examination import Caller, Examination, LocalCandidate
from scheduler.time_shared.loras import OrderChoice
from sil.world.guard.decision_time import TimeLimitExceeded, time_limit
from tests import (
    faulty,
    faulty_on_clusters,
    faulty_on_consumable_nodes,
    faulty_on_free_nodes,
    faulty_on_nodes,
)
from tests.examples import up_to
from tests.scheduler.fakes import WhileTheyFit

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
ON_FREE_NODES = sorted(registry.ON_FREE_NODES.keys() - {"rigid", "slurm_backfill"})
"""By default, the first left out is fcfs; the second is for nodes of which jobs use parts."""
BUILT_IN = {
    Kind.MAPPING: [*registry.ON_MACHINES],
    Kind.TIME_SHARED: [
        *registry.ON_SHARED_NODES,
        *(f"loras(ordering={o}, selection=best_fit)" for o in OrderChoice),
    ],
    Kind.FREE_NODES: [
        *ON_FREE_NODES,
        *(f"rigid(ordering=sjf, backfilling={b})" for b in (Backfilling.EASY, Backfilling.EASY_SJBF)),
    ],
    CONSUMABLE: [
        *ON_FREE_NODES,
        "rigid(backfilling=easy, selection=best_fit)",
        "rigid(backfilling=easy_sjbf, selection=fgd)",
        "conservative(selection=worst_fit)",
        "slurm_backfill",
        "slurm_backfill(bf_interval=0, bf_resolution=0, reserve=parts, selection=best_fit)",
    ],
    Kind.CLUSTERS: [*registry.AMONG_CLUSTERS, "ranked(cost=start, copies=2)"],
}
FAULTY: dict[str, dict[type, str]] = {
    Kind.MAPPING: faulty.BROKEN_RULE,
    Kind.TIME_SHARED: faulty_on_nodes.BROKEN_RULE,
    Kind.FREE_NODES: faulty_on_free_nodes.BROKEN_RULE,
    Kind.CLUSTERS: faulty_on_clusters.BROKEN_RULE,
    CONSUMABLE: faulty_on_consumable_nodes.BROKEN_RULE,
}
FAULTY_EXAMPLES = up_to(200, part=2)
"""Most faults show in the first example, some only after fifty."""


def within_limit(rule: str) -> Caller:
    """Ends a call at once where it is expected never to return, else only if it is stuck."""
    limit_s = 0.2 if rule == RETURNS_IN_TIME else 300.0

    def limited(call: Callable[[], Answer]) -> Answer:
        try:
            with time_limit(limit_s):
                return call()
        except TimeLimitExceeded:
            raise TimeoutError(f"{limit_s:g} s was allowed") from None

    return limited


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(kind, name, marks=[pytest.mark.long] if name == "pjs_optimal" else [])
        for kind, names in BUILT_IN.items()
        for name in names
    ],
)
def test_every_built_in_scheduler_satisfies_the_contract(kind: str, name: str) -> None:
    part = 20 if name in SLOW else 10
    on_free_nodes = kind in (Kind.FREE_NODES, CONSUMABLE)
    check_contract(resolve(name).make, kind, examples=up_to(60) if on_free_nodes else up_to(200, part=part))


@pytest.mark.parametrize(
    ("kind", "scheduler"),
    [
        pytest.param(kind, scheduler, marks=[pytest.mark.long] if kind == CONSUMABLE else [])
        for kind, broken in FAULTY.items()
        for scheduler in broken
    ],
)
def test_a_faulty_scheduler_is_reported_with_the_rule_it_breaks(
    kind: str, scheduler: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = FAULTY[kind][scheduler]
    monkeypatch.setattr(examination, "NO_SMALLER_EXAMPLE", {rule for of in RULES_OF.values() for rule in of})
    examples = FAULTY_EXAMPLES * (4 if kind == CONSUMABLE else 1)  # few jobs start with two GPUs
    with pytest.raises(ContractBroken) as caught:
        check_contract(scheduler, kind, examples=examples, call=within_limit(rule))
    assert caught.value.rule == rule
    if kind == Kind.MAPPING:
        assert (caught.value.job is None) == (rule in RULES_WITHOUT_ONE_JOB)


@pytest.mark.parametrize("kind", [*Kind])
def test_every_rule_is_broken_by_a_faulty_scheduler(kind: Kind) -> None:
    broken = {*FAULTY[kind].values(), *(FAULTY[CONSUMABLE].values() if kind == Kind.FREE_NODES else ())}
    assert broken == set(RULES_OF[kind])


@pytest.mark.parametrize(
    ("kind", "scheduler", "is_smallest"),
    [
        (Kind.MAPPING, "ForgetsAJob", lambda jobs, machines: jobs == machines == 1),
        (Kind.FREE_NODES, "GivesANodeToTwoJobs", lambda jobs, nodes: (jobs, nodes) == (2, 1)),
        # Two jobs on one node, or one job of two chunks that each need another node.
        (CONSUMABLE, "StartsEverythingOnTheFirstNode", lambda jobs, nodes: jobs + nodes == 3),
        # Two jobs on a node that allows one, or one where memory is short.
        (Kind.TIME_SHARED, "CrowdsTheFirstNodes", lambda jobs, nodes: jobs <= 2),
    ],
)
def test_the_smallest_problem_is_found(
    kind: str, scheduler: str, is_smallest: Callable[[int, int], bool]
) -> None:
    (found,) = (each for each in FAULTY[kind] if each.__name__ == scheduler)
    with pytest.raises(ContractBroken) as caught:
        check_contract(found, kind)
    # What Hypothesis draws, and so whether a problem is left before it, depends on which tests are loaded.
    *_, outline = caught.value.problems
    n_jobs, places = outline.summary
    assert is_smallest(n_jobs, int(places.split()[0])), outline


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
    examination = Examination(lambda: LocalCandidate(faulty.ReturnsNothing(), limit), contract, 50)  # type: ignore[attr-defined]
    assert [broken.rule for broken in examination.broken_rules()] == ["returns-a-schedule"]
    assert examination.exercised == {"right-kind", "raises-nothing", "returns-in-time"}


def test_a_mapping_scheduler_exercises_all_rules_but_preemption() -> None:
    pjs = resolve("pjs")
    examination = Examination(lambda: LocalCandidate(pjs.make()), CONTRACTS[Kind.MAPPING], 100)
    examination.run()
    assert set(RULES_OF[Kind.MAPPING]) - examination.exercised == {"preempts-running-runs"}


def test_counterexample_jobs_are_numbered_from_one() -> None:
    with pytest.raises(ContractBroken, match="job 1 is neither mapped nor left waiting"):
        check_contract(faulty.ForgetsAJob)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["free_nodes", CONSUMABLE])
def test_one_class_with_a_placer_serves_identical_and_consumable_nodes(kind: str) -> None:
    check_contract(WhileTheyFit, kind, examples=up_to(60))


def test_where_hypothesis_is_missing_a_sentence_says_how_to_install_it() -> None:
    code = "import sys; sys.modules['hypothesis'] = None; import scheduler.testing"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "UserError: the problems for examining a scheduler are drawn by Hypothesis" in done.stderr
    assert "pip install 'sil-testbed[testing]'" in done.stderr
