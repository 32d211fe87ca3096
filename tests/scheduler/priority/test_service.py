"""In which order waiting jobs are served, and which of them a limit refuses or lets wait."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduler.core.arrays import MIN_SIZE
from scheduler.core.codes import NONE
from scheduler.node_request import Node, Request
from scheduler.priority.claims import Claimant, Claims
from scheduler.priority.policy import (
    Association,
    Multifactor,
    PartitionPolicy,
    QualityOfService,
    ResourceLimits,
    SitePolicy,
    Weights,
)

NODES = [Node(cores=16, memory_mib=0, partitions=frozenset({"p", "q"}))]
PERIOD_S = 60.0


def site(
    limits: ResourceLimits,
    more: ResourceLimits | None = None,
    enforces: tuple[str, ...] = ("limits",),
    half_life_s: float = 7 * 86_400.0,
    **weights: Any,
) -> Claims:
    """One account with users, whose jobs all have the limits together; those of QOS "high" have others."""
    how = Multifactor(Weights(**weights), half_life_s, max_age_s=1_000.0, period_s=PERIOD_S)
    high = {} if more is None else {"high": QualityOfService("high", group=more, priority=5)}
    tree = (Association("a", group=limits), *(Association("a", name, "a") for name in ("ann", "bob")))
    return Claims(SitePolicy(how, tree, high, {"q": PartitionPolicy(tier=2)}, enforces), NODES)


def arrives(
    claims: Claims, slot: int, at_s: float = 0.0, cores: int = 4, qos: str = "", within: str = "p"
) -> bool:
    """A job of ann arrives in a slot, unless it is refused. Returns whether it is not."""
    request = Request(1, cores, partitions=frozenset({within}))
    claim: Any = claims.of(Claimant("ann", "a", qos), request, 600.0)
    if claims.refusing(claim) is not None:
        return False
    claims.service.arrives(slot, at_s)
    return True


def starts(claims: Claims, slot: int, at_s: float = 0.0) -> bool:
    """A waiting job starts, unless it has to wait for a limit. Returns whether it does not."""
    if claims.service.reached(slot) != NONE:
        return False
    claims.service.take(slot, 1)
    claims.service.begins(slot, at_s)
    return True


def ends(claims: Claims, slot: int, at_s: float) -> None:
    claims.service.ends(slot, at_s)
    claims.service.take(slot, -1)


def test_jobs_wait_for_a_limit_until_runs_have_ended() -> None:
    claims = site(ResourceLimits({"cpu": 10}))
    assert [arrives(claims, slot) for slot in range(3)] == [True] * 3
    assert [starts(claims, slot) for slot in range(3)] == [True, True, False]
    ends(claims, 0, 30.0)
    assert starts(claims, 2, 30.0)


def test_a_limit_may_be_used_up_to_the_last_bit() -> None:
    claims = site(ResourceLimits({"cpu": 8}, running=2))
    assert [arrives(claims, slot) for slot in range(2)] == [True] * 2
    assert [starts(claims, slot) for slot in range(2)] == [True] * 2


def test_a_limit_of_submitted_jobs_counts_those_that_wait_and_run_and_lets_none_wait() -> None:
    claims = site(ResourceLimits(submitted=2))
    assert [arrives(claims, slot) for slot in range(3)] == [True, True, False]
    assert starts(claims, 0)
    assert not arrives(claims, 2)
    ends(claims, 0, 30.0)
    assert arrives(claims, 2)
    assert [starts(claims, slot) for slot in (1, 2)] == [True, True]


def test_a_node_counts_once_for_a_limit_of_nodes_however_many_run_there() -> None:
    claims = site(ResourceLimits({"node": 2}))
    limits = claims.service.limits
    limits.on = np.zeros((0, 3), np.int64)
    assert arrives(claims, 0)
    claim = limits.claim[0]

    def exceeds(*nodes: int) -> bool:
        return limits.first_exceeded_on(claim, np.array(nodes, np.int64), 0, len(nodes)) != NONE

    for node in (0, 0, 1):
        limits.count_on(claim, node, 1)
    limits.count_on(claim, 0, -1)
    assert limits.used[0] == 2
    assert [exceeds(0), exceeds(0, 1), exceeds(2), exceeds()] == [False, False, True, True]
    limits.count_on(claim, 0, -1)
    assert limits.used[0] == 1
    assert [exceeds(2, 2), exceeds(0, 1), exceeds(0, 2), exceeds()] == [False, False, True, False]


def test_what_runs_have_left_by_their_time_limits_counts_from_calculation_to_calculation() -> None:
    claims = site(ResourceLimits(minutes_to_run={"cpu": 75}))  # each of the jobs has 40 minutes of CPUs
    assert [arrives(claims, slot) for slot in range(3)] == [True] * 3
    assert [starts(claims, slot) for slot in range(2)] == [True, False]
    claims.service.calculate(60.0)  # 36 are left
    assert not starts(claims, 1)
    claims.service.calculate(119.0)
    assert not starts(claims, 1)
    claims.service.calculate(120.0)  # 32
    assert starts(claims, 1, 120.0)
    ends(claims, 0, 130.0)
    assert claims.service.limits.used[0] == pytest.approx(40.0)
    ends(claims, 1, 1_000.0)
    assert claims.service.limits.used[0] == pytest.approx(0.0)


def test_what_was_used_decays_and_lets_jobs_start_until_it_has_reached_its_limit() -> None:
    claims = site(ResourceLimits(minutes={"cpu": 4}), half_life_s=600.0)
    assert [arrives(claims, slot) for slot in range(3)] == [True] * 3
    assert [starts(claims, slot) for slot in range(2)] == [True, True]
    claims.service.calculate(60.0)  # 2 jobs * 4 CPUs * 1 minute, of which some decays
    assert not starts(claims, 2)
    for slot in range(2):
        ends(claims, slot, 60.0)
    claims.service.calculate(540.0)
    assert not starts(claims, 2)
    claims.service.calculate(600.0)
    assert starts(claims, 2)


def test_safely_a_job_starts_only_if_what_runs_and_its_time_limit_will_not_exceed_the_limit() -> None:
    claims = site(ResourceLimits(minutes={"cpu": 90}), enforces=("limits", "safe"), half_life_s=float("inf"))
    assert [arrives(claims, slot) for slot in range(3)] == [True] * 3
    assert [starts(claims, slot) for slot in range(3)] == [True, True, False]
    ends(claims, 0, 150.0)  # used 10 of its 40 minutes
    assert starts(claims, 2, 150.0)
    used, past = claims.service.limits.used, claims.service.limits.past
    assert (round(used[0]), round(past[0])) == (40 - 8 + 40, 10 + 8)


def test_a_job_that_a_limit_does_not_bind_counts_for_it() -> None:
    claims = site(ResourceLimits({"cpu": 8}), more=ResourceLimits({"cpu": 100}))
    assert arrives(claims, 0, qos="high", cores=16)
    assert arrives(claims, 1)
    assert [starts(claims, slot) for slot in (0, 1)] == [True, False]


def test_more_jobs_and_limits_than_there_is_room_for_at_first_are_kept() -> None:
    claims = site(ResourceLimits({"cpu": 30}), more=ResourceLimits({"cpu": 8}))
    for slot in range(3 * MIN_SIZE):  # each with a claim of its own
        request = Request(1, 1, others={f"x{slot}": 1}, partitions=frozenset({"p"}))
        claim = claims.of(Claimant("ann", "a", ("high", "")[slot % 2]), request, 600.0)
        assert claim == slot
        claims.refusing(slot)
        claims.service.arrives(slot, 0.0)
    started = [slot for slot in range(3 * MIN_SIZE) if starts(claims, slot)]
    assert [slot for slot in started if slot % 2 == 0] == [*range(0, 16, 2)]
    assert [slot for slot in started if slot % 2 == 1] == [*range(1, 44, 2)]


def test_a_priority_is_the_sum_of_the_factors_within_slurms_bounds_and_a_higher_tier_comes_first() -> None:
    claims = site(ResourceLimits(), age=100, fair_share=1_000, more=ResourceLimits(), qos=30)
    service = claims.service
    arrives(claims, 0, qos="high")
    arrives(claims, 1, at_s=-500.0)
    arrives(claims, 2, at_s=-5_000.0, within="q")
    service.calculate(0.0)
    assert [service.priority(slot) for slot in range(3)] == [1_030, 1_050, 1_100]
    assert service.order(2) - service.order(1) == 2**32 + 50
    nothing, much = site(ResourceLimits()), site(ResourceLimits(), fair_share=1e12)
    for claims in (nothing, much):
        arrives(claims, 0)
        claims.service.calculate(0.0)
    assert [each.service.priority(0) for each in (nothing, much)] == [1, 2**32 - 1]


def test_priorities_change_with_each_period_and_with_what_was_used() -> None:
    claims = site(ResourceLimits(), age=1_000, fair_share=10_000)
    service = claims.service
    service.calculate(0.0)
    arrives(claims, 0)
    arrives(claims, 1)
    starts(claims, 0)
    assert [(service.calculate(s), service.priority(1)) for s in (59.0, 60.0, 61.0)] == [
        (False, 10_000), (True, 5_060), (False, 5_060)
    ]  # fmt: skip
    assert service.next_s() == 120.0
    ends(claims, 0, 61.0)


@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_what_a_run_uses_counts_for_its_association_from_its_begin_to_its_end(factor: float) -> None:
    how = Multifactor(half_life_s=float("inf"), period_s=PERIOD_S)
    tree = (Association("a"), Association("a", "ann", "a"))
    qos = {"x": QualityOfService("x", usage_factor=factor)}
    claims = Claims(SitePolicy(how, tree, qos), NODES)
    arrives(claims, 0, qos="x")
    starts(claims, 0, 20.0)
    ends(claims, 0, 50.0)
    claims.service.calculate(600.0)
    assert [float(each) for each in claims.service.fair.usage] == [4 * 30 * factor] * 3
