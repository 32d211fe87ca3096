"""Disks that are full or fail, and files that are torn."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from shutil import copyfile

import pytest

from site_db import integrity, store
from site_db.history.as_of import disagreements
from site_db.store import Address, DatabaseTrouble, parse_address
from tests.postgres import Server
from tests.site_db.campaign.conftest import Fresh
from tests.site_db.campaign.faults import Fault, FileLimit, FullDisk, PageLimit
from tests.site_db.campaign.oracle import assert_complete, judge
from tests.site_db.campaign.work import Work
from tests.site_db.campaign.writer import run, started

LARGE = Work("one", 8, 60)
N_BYTES = 800_000
"""More than a database and its log need for it."""
FULL = "there is no space left for the database"
FAILS = "the database cannot be read or written: the disk or the network file system fails"


def recorded_in_spite_of(address: Address, fault: Fault, expected: str) -> int:
    """A writer has trouble and, when it is over, writes all. Returns the number of its sentences."""
    end = run(address, LARGE, fault)
    assert not end.was_killed
    (recorded,) = judge(address, LARGE)
    if end.acknowledged == 0:  # the file could not even be opened
        assert end.sentences == (f"{address}: {expected}",)
        end = run(address, LARGE)
    elif end.sentences:
        late, again = end.sentences
        assert late == f"{address}: {expected}; records are kept until they can be written"
        assert again == f"{address}: the database can be reached again, and has everything"
    assert_complete(address, LARGE)
    return len(end.sentences)


# -- limits that need no disk of our own ---------------------------------------------------------------------


@pytest.mark.parametrize("n_pages", [0, 9])
def test_what_was_recorded_while_the_disk_was_full_is_written_later(n_pages: int, fresh_file: Fresh) -> None:
    with fresh_file() as address:
        assert recorded_in_spite_of(address, PageLimit(n_pages=n_pages), FULL) == 2


def test_what_was_recorded_while_writes_failed_is_written_later(fresh_file: Fresh) -> None:
    with fresh_file() as address:
        assert recorded_in_spite_of(address, FileLimit(n_bytes=100_001), FAILS) == 2


@pytest.mark.long
def test_writes_that_fail_anywhere_lose_nothing(fresh_file: Fresh) -> None:
    sentences = 0
    for n_pages in range(1, 60):
        with fresh_file() as address:
            sentences += recorded_in_spite_of(address, PageLimit(n_pages=n_pages), FULL)
    for seed in range(150):
        with fresh_file() as address:
            n_bytes = Random(seed).randint(1, N_BYTES)
            sentences += recorded_in_spite_of(address, FileLimit(n_bytes=n_bytes), FAILS)
    assert sentences > 200


# -- kills in the middle of a page, and logs that are cut ------------------------------------------------------


def killed_while_writing(address: Address, seed: int) -> int:
    """Kill in the middle of writes, sometimes cut the log, start again until it is done. Returns the kills."""
    rng, kills = Random(seed), 0
    for _ in range(4):
        end = run(address, LARGE, FileLimit(n_bytes=rng.randint(40_000, N_BYTES), dies=True))
        log, cut = Path(f"{address.path}-wal"), rng.random() < 0.5
        if cut and log.exists() and end.was_killed:
            os.truncate(log, rng.randint(0, log.stat().st_size))
        (recorded,) = judge(address, LARGE)
        assert cut or end.acknowledged <= recorded
        kills += end.was_killed
    run(address, LARGE)
    assert_complete(address, LARGE)
    return kills


def test_a_writer_killed_in_the_middle_of_a_page_records_each_batch_once(fresh_file: Fresh) -> None:
    with fresh_file() as address:
        assert killed_while_writing(address, 0) > 0


@pytest.mark.long
def test_writers_killed_in_the_middle_of_any_page_record_each_batch_once(fresh_file: Fresh) -> None:
    kills = 0
    for seed in range(1, 60):
        with fresh_file() as address:
            kills += killed_while_writing(address, seed)
    assert kills > 100
