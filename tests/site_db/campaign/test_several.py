"""Several writers at once, each of which is killed and started again, with clocks that jump."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from random import Random

from site_db.store import Address
from tests.site_db.campaign.conftest import Fresh, Recorded, some_or_all
from tests.site_db.campaign.faults import Fault, JumpingClock
from tests.site_db.campaign.oracle import assert_complete, judge
from tests.site_db.campaign.work import Work
from tests.site_db.campaign.writer import started

WORKS = (Work("one", 4), Work("two", 4), Work("one", 4))
"""The third is the same command again, started while the first one runs."""


def recorded_by_several(address: Address, seed: int, most_kills: int) -> int:
    """Returns the number of kills."""
    rng, kills, waiting = Random(seed), 0, Counter(WORKS)
    for k in range(most_kills + 1):
        is_last = k == most_kills
        with ExitStack() as running:
            ends = []
            for work in waiting.elements():
                at = 0 if is_last else rng.randint(10, 90)
                fault = JumpingClock(at, seed=rng.randrange(2**31)) if rng.random() < 0.5 else Fault(at)
                ends.append((work, running.enter_context(started(address, work, fault))))
            judge(address, *WORKS[:2])  # while they run
        recorded = dict(zip(WORKS, judge(address, *WORKS[:2]), strict=False))
        for work, (end,) in ends:
            assert end.acknowledged <= recorded[work]
            assert end.sentences == ()
            kills += end.was_killed
            waiting[work] -= not end.was_killed
    assert_complete(address, *WORKS[:2])
    return kills


@some_or_all(range(1), range(1, 26))
def test_writers_that_run_at_once_and_are_killed_record_each_batch_once(
    seeds: range, fresh: Fresh, record_property: Recorded
) -> None:
    kills = 0
    for seed in seeds:
        with fresh() as address:
            kills += recorded_by_several(address, seed, most_kills=1 if len(seeds) == 1 else 5)
    record_property("kills", kills)
    assert kills > 4 * len(seeds) - 4
