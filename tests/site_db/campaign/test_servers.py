"""Connections to a server that break, and servers that stop at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from time import sleep

import pytest

from site_db.store import Address
from tests.postgres import Server
from tests.site_db.campaign.conftest import Fresh, Recorded, some_or_all
from tests.site_db.campaign.faults import LostAnswers
from tests.site_db.campaign.oracle import assert_complete, judge
from tests.site_db.campaign.proxy import Fate, Trouble, troubled
from tests.site_db.campaign.work import Work
from tests.site_db.campaign.writer import End, run, started
from tests.site_db.conftest import put_small_site

LIVE = Work("live", 5, live=True)
"""Only its recorder knows what of it is recorded."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One of its own, since the sequences of a server that crashed go on elsewhere."""
    server = Server()
    yield server
    server.close()


@pytest.fixture(scope="module")
def server_database_to_copy(server: Server, shared_folder: Path) -> Address:
    address = server.new_database()
    put_small_site(address, shared_folder)
    return address


@pytest.fixture
def fresh(server: Server, server_database_to_copy: Address) -> Fresh:
    return lambda: server.copy_of(server_database_to_copy)


def assert_plain(end: End) -> None:
    """Of a writer that could begin: a sentence when records begin to wait, one when they are written."""
    for k, sentence in enumerate(end.sentences):
        assert sentence.startswith("postgresql://")
        assert ("records are kept until", "can be reached again, and has everything")[k % 2] in sentence


# -- answers that are lost ---------------------------------------------------------------------------------


def lose_answers(address: Address, seed: int) -> int:
    end = run(address, LIVE, LostAnswers(seed=seed))
    assert_plain(end)
    assert_complete(address, LIVE)
    return len(end.sentences)


@some_or_all(range(1), range(1, 100))
def test_commits_whose_answers_are_lost_again_and_again_are_not_repeated(
    seeds: range, fresh: Fresh, record_property: Recorded
) -> None:
    lost = 0
    for seed in seeds:
        with fresh() as address:
            lost += lose_answers(address, seed)
    record_property("lost", lost)
    assert lost > 2 * len(seeds) - 2


# -- the network -------------------------------------------------------------------------------------------


def cut(address: Address, seed: int) -> int:
    rng = Random(seed)
    # To record all takes some 40,000 bytes in either direction.
    fates = [
        Fate(rng.choice(list(Trouble)), int(10 ** rng.uniform(3.0, 4.6))) for _ in range(rng.randint(1, 5))
    ]
    with troubled(address, fates) as behind:
        end = run(behind, LIVE)
        for _ in fates:
            if end.acknowledged:
                break
            assert judge(address, LIVE) == [0]
            assert "does not answer" in end.sentences[0]
            end = run(behind, LIVE)
    assert_plain(end)
    assert_complete(address, LIVE)
    return len(fates)


@some_or_all(range(1, 2), range(100, 250))
def test_over_a_network_that_cuts_connections_each_batch_is_recorded_once(
    seeds: range, fresh: Fresh, record_property: Recorded
) -> None:
    troubles = 0
    for seed in seeds:
        with fresh() as address:
            troubles += cut(address, seed)
    record_property("troubles", troubles)


# -- the server --------------------------------------------------------------------------------------------


def stopped_while_recording(
    server: Server, address: Address, work: Work, stop: Callable[[], object], seed: int
) -> int:
    """Returns how often it was stopped. Those who find no server when they begin are started again."""
    rng, stops = Random(seed), 0
    server.keep_commits(address)
    for _ in range(40):
        with started(address, work) as ends:
            for _ in range(rng.randint(0, 3)):
                sleep(rng.uniform(0.01, 0.15))
                stop()
                stops += 1
        if ends[0].acknowledged:
            assert_plain(ends[0])
        if ends[0].acknowledged == work.batches:
            break
        assert ends[0].acknowledged <= judge(address, work)[0]
    assert_complete(address, work)
    return stops


def test_a_server_whose_processes_are_killed_records_each_batch_once(server: Server, fresh: Fresh) -> None:
    with fresh() as address:
        stop = partial(server.crash_backend, address)
        assert stopped_while_recording(server, address, Work("one", 8), stop, 0) > 0


@pytest.mark.long
def test_a_server_that_is_stopped_at_once_records_each_batch_once(
    server: Server, fresh: Fresh, record_property: Recorded
) -> None:
    stops = 0
    for seed in range(1, 21):
        for stop in (lambda _: server.crash(), server.crash_backend):
            with fresh() as address:
                stops += stopped_while_recording(
                    server, address, Work("one", 30), partial(stop, address), seed
                )
    record_property("stops", stops)
    assert stops > 60
