"""Writers that are killed, and started again until they are done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from site_db import store
from site_db.store import Address, parse_address
from tests.postgres import Server
from tests.site_db.campaign.conftest import Fresh, Recorded, some_or_all
from tests.site_db.campaign.faults import Fault
from tests.site_db.campaign.oracle import assert_complete, judge
from tests.site_db.campaign.work import Work
from tests.site_db.campaign.writer import create, run
from tests.site_db.conftest import STORES


def killed_until_done(address: Address, work: Work, moments: Iterator[int]) -> int:
    """Kill a writer so many moments after those that it needs to skip what is recorded, and start it again,
    until it was not killed. Returns the number of kills, after each of which the database is judged."""
    recorded = kills = 0
    for at in moments:
        end = run(address, work, Fault(at + MOMENTS_TO_SKIP_A_BATCH * recorded))
        if not end.was_killed:
            break
        kills += 1
        assert end.sentences == ()
        # One more than it said: a commit had happened, but not its message.
        before, (recorded,) = max(recorded, end.acknowledged), judge(address, work)
        assert before <= recorded <= before + 1 or end.acknowledged == 0
    end = run(address, work)
    assert (end.acknowledged, end.sentences) == (work.batches, ())
    assert_complete(address, work)
    return kills


MOMENTS_TO_SKIP_A_BATCH = 6


def some(rng: Random, n: int) -> Iterator[int]:
    return (rng.randint(5, 60) for _ in range(n))


@some_or_all(range(1), range(42))
def test_a_writer_that_is_killed_again_and_again_records_each_batch_once(
    seeds: range, fresh: Fresh, record_property: Recorded
) -> None:
    kills, n = 0, 4 if len(seeds) == 1 else 20
    for seed in seeds:
        with fresh() as address:
            kills += killed_until_done(address, Work("one", n + 1, 4), some(Random(seed), n))
    record_property("kills", kills)
    assert kills > (1 if n == 4 else 700)


@pytest.mark.long
def test_a_writer_can_be_killed_between_any_two_statements(fresh: Fresh, record_property: Recorded) -> None:
    """Among them its first one, which adds users and statistics, and one that takes snapshots."""
    work = Work("one", 4, 16)
    with fresh() as address:
        moments = run(address, work).moments
    record_property("kills", moments)
    for at in range(1, moments + 1):
        with fresh() as address:
            assert killed_until_done(address, work, iter([at])) == 1


# -- databases that are made ------------------------------------------------------------------------------


@pytest.fixture(params=STORES)
def new_address(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Address]:
    """A database that is to be created."""
    if request.param == "sqlite":
        return lambda: parse_address(str(tmp_path / "new.db"))
    server: Server = request.getfixturevalue("server")
    return server.new_database


def created_in_spite_of_a_kill(address: Address, at: int) -> bool:
    """Returns whether it was killed before it was done."""
    end = run(address, create, Fault(at))
    again = run(address, create)
    if not end.was_killed or again.sentences:  # killed at its very end
        assert again.sentences[0].endswith(("the file already exists; choose another name or delete it",
                                            "a site database already exists"))  # fmt: skip
    engine = store.open_database(address)
    engine.dispose()
    if address.path is not None:
        address.path.unlink()
    return end.was_killed


@some_or_all(range(1, 31, 29), range(1, 1000, 4))
def test_a_database_whose_creation_was_killed_can_be_created(
    seeds: range, new_address: Callable[[], Address]
) -> None:
    """Every fourth moment is enough where all statements are in one transaction."""
    for at in seeds:
        if not created_in_spite_of_a_kill(new_address(), at):
            break
    assert at >= min(max(seeds), 50)
