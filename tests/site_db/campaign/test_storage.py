"""Disks that are full or fail, and files that are torn."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from shutil import copyfile
from tempfile import TemporaryDirectory
from time import sleep

import pytest

from site_db import damage, store
from site_db.history.stored_statistics import disagreements
from site_db.store import Address, DatabaseTrouble, parse_address
from tests.postgres import Server
from tests.site_db.campaign.conftest import Fresh, Recorded, some_or_all
from tests.site_db.campaign.faults import Checkpoints, Fault, FileLimit, FullDisk, PageLimit
from tests.site_db.campaign.oracle import assert_complete, judge
from tests.site_db.campaign.work import Work
from tests.site_db.campaign.writer import run, started

LARGE = Work("one", 8, 60)
N_BYTES = 800_000
"""More than a database and its log need for it."""
FULL = "there is no space left for the database"
CANNOT_OPEN = "the database cannot be opened"
NO_SPACE = "could not write init file: No space left on device"
FAILS = "the database cannot be read or written: the disk or the network file system fails"


def recorded_in_spite_of(address: Address, fault: Fault, *expected: str) -> int:
    """A writer has trouble and, when it is over, writes all. Returns the number of its sentences."""
    end = run(address, LARGE, fault)
    assert not end.was_killed
    if end.acknowledged == 0:  # it could not even be opened
        assert judge(address, LARGE) == [0]
        (trouble,) = end.sentences
        run(address, LARGE)
    elif end.sentences:
        late, again = end.sentences
        assert again == f"{address}: the database can be reached again, and has everything"
        trouble, _, rest = late.partition("; ")
        assert rest == "records are kept until they can be written"
    if end.sentences:
        assert trouble.startswith(f"{address}: ")
        assert any(sentence in trouble for sentence in expected)
    assert_complete(address, LARGE)
    return len(end.sentences)


# -- limits that need no disk of our own --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "sentence"), [(PageLimit(n_pages=9), FULL), (FileLimit(n_bytes=100_001), FAILS)]
)
def test_what_was_recorded_while_writes_failed_is_written_later(
    fault: Fault, sentence: str, fresh_file: Fresh
) -> None:
    with fresh_file() as address:
        assert recorded_in_spite_of(address, fault, sentence) == 2


@pytest.mark.long
def test_writes_that_fail_anywhere_lose_nothing(fresh_file: Fresh, record_property: Recorded) -> None:
    sentences = 0
    for n_pages in range(1, 60):
        with fresh_file() as address:
            sentences += recorded_in_spite_of(address, PageLimit(n_pages=n_pages), FULL)
    for seed in range(150):
        with fresh_file() as address:
            n_bytes = Random(seed).randint(1, N_BYTES)
            sentences += recorded_in_spite_of(address, FileLimit(n_bytes=n_bytes), FAILS)
    record_property("sentences", sentences)
    assert sentences > 200


# -- kills in the middle of a page, and logs that are cut ---------------------------------------------------


def killed_while_writing(address: Address, seed: int) -> int:
    """Kill in the middle of writes, sometimes cut the log, and start again. Returns the number of kills."""
    rng, kills = Random(seed), 0
    for _ in range(4):
        end = run(address, LARGE, FileLimit(n_bytes=rng.randint(40_000, N_BYTES // 2), dies=True))
        log, cut = Path(f"{address.path}-wal"), rng.random() < 0.5
        if cut and log.exists() and end.was_killed:
            os.truncate(log, rng.randint(0, log.stat().st_size))
        (recorded,) = judge(address, LARGE)
        assert cut or end.acknowledged <= recorded
        kills += end.was_killed
    run(address, LARGE)
    assert_complete(address, LARGE)
    return kills


@some_or_all(range(1), range(1, 60))
def test_a_writer_killed_in_the_middle_of_a_page_records_each_batch_once(
    seeds: range, fresh_file: Fresh, record_property: Recorded
) -> None:
    kills = 0
    for seed in seeds:
        with fresh_file() as address:
            kills += killed_while_writing(address, seed)
    record_property("kills", kills)
    assert kills > (0 if len(seeds) == 1 else 100)


# -- disks that are really full -----------------------------------------------------------------------------


@contextmanager
def disk(n_bytes: int) -> Iterator[Path]:
    """An empty disk of that size, which a server may use. Skips where none can be mounted."""
    with TemporaryDirectory() as folder:  # not in pytest's, which others may not enter
        Path(folder).chmod(0o755)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={n_bytes},mode=755", "none", folder]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("no disk can be mounted here, which needs root")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder: Path, free_pages: int) -> FullDisk:
    """Leave so many pages of 4,096 bytes free on a disk."""
    filler = folder / "filler"
    with filler.open("wb") as file:
        there = os.statvfs(folder)
        os.posix_fallocate(file.fileno(), 0, (there.f_bavail - free_pages) * there.f_bsize)
    return FullDisk(filler=str(filler))


@pytest.mark.long
def test_a_file_on_a_disk_that_is_full_loses_nothing(
    database_to_copy: Path, record_property: Recorded
) -> None:
    sentences = 0
    with disk(8_000_000) as folder:
        for free_pages in (*range(40), *range(40, 200, 4)):
            path = Path(copyfile(database_to_copy, folder / f"{free_pages}.db"))
            sentences += recorded_in_spite_of(
                parse_address(str(path)), fill(folder, free_pages), FULL, FAILS, CANNOT_OPEN
            )
            path.unlink()
    record_property("sentences", sentences)
    assert sentences > 100


@pytest.mark.long
def test_a_server_whose_disk_is_full_loses_nothing(
    server: Server, server_database_to_copy: Address, record_property: Recorded
) -> None:
    sentences = 0
    with disk(64_000_000) as folder:
        (folder / "space").mkdir()
        with server.tablespace(folder / "space") as space:
            for free_pages in range(0, 120, 6):
                address = server.new_database(server_database_to_copy, space)
                sentences += recorded_in_spite_of(address, fill(folder, free_pages), FULL, NO_SPACE)
                server.drop(address)
    record_property("sentences", sentences)
    assert sentences > 20


# -- copies of a file that is in use ------------------------------------------------------------------------


def torn_copy(of: Path, to: Path, rng: Random) -> Path:
    """A copy of a file, sometimes with its log, made in pieces while the file changes."""
    ends = ["", *["-wal"] * rng.randrange(2)]
    for end in rng.sample(ends, len(ends)):
        if not Path(f"{of}{end}").exists():
            continue
        with Path(f"{of}{end}").open("rb") as original, Path(f"{to}{end}").open("wb") as copy:
            while data := original.read(rng.randint(1, 40) * 4096):
                copy.write(data)
                sleep(rng.choice((0.0, 0.001, 0.01)))
    return to


def is_accepted(copy: Path) -> bool:
    """Whether `sil db check` finds nothing."""
    try:
        with store.opened(parse_address(str(copy))) as session:
            return not list(damage.damages(session)) and disagreements(session, 1) == []
    except DatabaseTrouble:
        return False


def copied_while_recording(address: Address, seed: int) -> tuple[int, int]:
    """A torn copy is refused, or as the file was at some time. Returns how many were accepted and refused."""
    rng, work, accepted, refused = Random(seed), Work("one", 60, 60), 0, 0
    with started(address, work, Checkpoints()):
        for k in range(10):
            copy = torn_copy(address.path, address.path.with_name(f"copy-{k}.db"), rng)
            if is_accepted(copy):
                judge(parse_address(str(copy)), work)
                accepted += 1
            else:
                refused += 1
    assert_complete(address, work)
    return accepted, refused


@pytest.mark.long
def test_torn_copies_of_a_file_are_refused_or_as_it_was_at_some_time(
    fresh_file: Fresh, record_property: Recorded
) -> None:
    accepted = refused = 0
    for seed in range(10):
        with fresh_file() as address:
            some = copied_while_recording(address, seed)
        accepted, refused = accepted + some[0], refused + some[1]
    record_property("accepted", accepted)
    record_property("refused", refused)
    assert accepted > 20
    assert refused > 20
