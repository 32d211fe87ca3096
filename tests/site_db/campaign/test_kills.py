"""Writers that are killed, and started again until they are done."""

from __future__ import annotations

from random import Random

import pytest

from site_db.store import Address
from tests.site_db.campaign.conftest import Fresh
from tests.site_db.campaign.faults import Fault
from tests.site_db.campaign.oracle import assert_complete, judge
from tests.site_db.campaign.work import Work
from tests.site_db.campaign.writer import run

MANY = 120
"""Experiments, each of which is killed until it is done."""


def killed_until_done(address: Address, work: Work, moments: list[int]) -> int:
    """Returns the number of kills, after each of which the database is judged."""
    before = kills = 0
    for at in [*moments, 0]:
        end = run(address, work, Fault(at))
        (recorded,) = judge(address, work)
        assert max(before, end.acknowledged) <= recorded <= max(before, end.acknowledged) + 1
        assert end.sentences == ()
        before, kills = recorded, kills + end.was_killed
        if not end.was_killed:
            break
    assert_complete(address, work)
    return kills


@pytest.mark.parametrize("seed", range(1))
def test_a_writer_killed_at_several_moments_records_each_batch_once(seed: int, fresh: Fresh) -> None:
    rng = Random(seed)
    with fresh() as address:
        assert killed_until_done(address, Work("one", 4), [rng.randint(20, 80) for _ in range(4)]) > 1


@pytest.mark.long
def test_a_writer_can_be_killed_between_any_two_statements(fresh: Fresh) -> None:
    work = Work("one", 3)
    with fresh() as address:
        n = run(address, work).moments
        assert n > 60
    for at in range(1, n + 1):
        with fresh() as address:
            assert killed_until_done(address, work, [at]) == 1


@pytest.mark.long
def test_writers_that_are_killed_again_and_again_record_each_batch_once(fresh: Fresh) -> None:
    kills = 0
    for seed in range(MANY):
        rng = Random(seed)
        with fresh() as address:
            kills += killed_until_done(address, Work("one", 6), [rng.randint(10, 150) for _ in range(20)])
    assert kills > 3 * MANY
