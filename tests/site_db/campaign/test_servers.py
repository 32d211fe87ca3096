from __future__ import annotations
from tests.site_db.campaign.faults import *
from tests.site_db.campaign.oracle import assert_complete, judge
from tests.site_db.campaign.work import Work
from tests.site_db.campaign.writer import End, run

def test_x(server, server_database_to_copy):
    for seed in range(10):
        with server.copy_of(server_database_to_copy) as address:
            try:
                e=run(address,Work("live",6,live=True),LostAnswers(seed=seed)); print(e)
                assert_complete(address,Work("live",6,live=True))
            except AssertionError as error:
                print(seed, str(error)[:1000])
    assert 0
