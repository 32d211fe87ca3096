"""What the invariants and the cases of a swarm find, measured with bugs that were put in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sil.swarm.case import Case, SiteKind, drawn
from sil.swarm.faults import Fault
from sil.swarm.simulation import verdict_on
from sil.trace.facts import Fact
from tests.sil.swarm.seeded_bugs import BUGS, Bug
from tests.sil.swarm.seeds_needed import first_violation

FOUND_SOON = [
    *("an order is sent once", "only news are acknowledged", "an order is retried as another run"),
    *("arrivals are not written", "confirmations are not written"),
    *("a lost run asks for no round", "the last reading to arrive counts"),
    *("an acknowledged run is forgotten", "notices do not survive a reboot"),
    *("jobs leave their queue when the scheduler is asked", "displacements count twice"),
    *("the newest job is served first", "a lost job arrives anew", "only planned runs are displaced"),
    *("in every seventh round a run is displaced for nothing", "eight answers are remembered"),
    *("an overdue run keeps its estimate", "a late decision moves no estimate", "starts are not kept"),
]


@pytest.mark.parametrize("name", FOUND_SOON)
def test_a_bug_is_found_within_sixty_seeds(name: str) -> None:
    (bug,) = (bug for bug in BUGS if bug.name == name)
    assert first_violation(bug, 60) is not None, bug.faulty.__doc__


@pytest.mark.long
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_each_bug_is_found_within_ten_thousand_seeds(bug: Bug) -> None:
    assert first_violation(bug) is not None, bug.faulty.__doc__


@pytest.mark.long
@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug.needs_a_fault], ids=lambda bug: bug.name)
def test_each_bug_needs_a_fault_to_be_seen(bug: Bug) -> None:
    """A bug that every simulation shows would say nothing about swarms; those of policies are others."""
    with bug.seeded():
        violations = {seed: verdict_on(drawn(seed, kinds=())).violation for seed in range(200)}
    assert not {seed: violation for seed, violation in violations.items() if violation is not None}


def test_there_are_thirty_bugs_in_all_parts_of_a_manager() -> None:
    modules = {bug.where.__module__.split(".")[1] for bug in BUGS}
    assert len(BUGS) >= 30
    assert modules == {"durability", "free_nodes", "managers", "resource_manager", "world"}
    assert all(bug.faulty.__doc__ for bug in BUGS)


def _with_an_outage_of_the_interconnect() -> Case:
    seeds = (drawn(seed, kinds=()) for seed in range(100))
    case = next(case for case in seeds if case.machines is SiteKind.DIFFERENT and case.n_machines > 1)
    outage = Fault("interconnect", {"from_s": 1.0, "for_s": 100.0})
    return replace(case, faults=(outage,))


def test_an_interconnect_that_is_to_be_down_is_down() -> None:
    verdict = verdict_on(_with_an_outage_of_the_interconnect())
    changes = [(time_s, event) for time_s, event, *_ in verdict.facts if event.startswith("interconnect")]
    assert changes == [(1.0, Fact.INTERCONNECT_DOWN), (101.0, Fact.INTERCONNECT_UP)]


def test_at_the_end_of_a_case_each_machine_is_used() -> None:
    for seed in range(12):
        case = drawn(seed)
        facts = verdict_on(case).facts
        last_s = max(time_s for time_s, event, *_ in facts if event == Fact.JOB_ARRIVED)
        started = [row for row in facts if row[1] == Fact.RUN_STARTED and row[0] >= last_s]
        used = {node for row in started for first, last in row[5] for node in range(first, last + 1)}
        assert used == {*range(case.n_machines)}, seed
