"""The database of a journal: changed, damaged, foreign, full."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import text

from scheduler import UserError
from site_db.journals import DatabaseJournal
from site_db.store import Address, Unreachable
from tests.postgres import Server
from tests.site_db.journals.places import entry
from tests.site_db.journals.test_file_journal import files_of_at_most

N = 3


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal with N entries."""
    path = tmp_path / "journal.db"
    with DatabaseJournal(Address.of_file(path)) as journal:
        for n in range(N):
            journal.append(entry(n))
    return path


def sentence(path: Path) -> str:
    """What is said of a journal that cannot be opened."""
    with pytest.raises(UserError) as caught:
        DatabaseJournal(Address.of_file(path))
    return str(caught.value)


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("UPDATE journal_entry SET entry = replace(entry, '1', '2') WHERE number = 2", 2),
        ("UPDATE journal_entry SET entry = x'00ff' WHERE number = 2", 2),
        ("UPDATE journal_entry SET checksum = 7 WHERE number = 3", 3),
        ("UPDATE journal_entry SET checksum = 'x' WHERE number = 3", 3),
        ("UPDATE journal_entry SET number = 9 WHERE number = 3", 3),
        ("DELETE FROM journal_entry WHERE number = 1", 1),
        ("DELETE FROM journal_entry WHERE number = 2", 2),
    ],
)
def test_a_journal_with_a_changed_or_missing_row_is_refused(statement: str, number: int, path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()
    assert sentence(path) == (
        f"{path}, entry {number}: the journal is damaged, here or by the loss of entries before; restore it "
        "from a copy"
    )


def test_a_damaged_file_is_refused_without_a_remedy_for_site_databases(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    assert sentence(path) == f"{path}: the journal is damaged; restore it from a copy"


def test_a_site_database_is_no_place_for_a_journal(database: Path) -> None:
    before = database.read_bytes()
    assert (
        sentence(database) == f"{database}: this is no journal, but another database; a journal needs its own"
    )
    assert database.read_bytes() == before


def test_a_file_of_another_type_is_no_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(b"machines = 5\n" * 1000)
    assert sentence(path) == f"{path}: this is not an SQLite database"


def test_commits_wait_for_the_disk(path: Path, server: Server) -> None:
    for address, setting, value in (
        (Address.of_file(path), "PRAGMA synchronous", 2),
        (server.new_database(), "SHOW synchronous_commit", "on"),
    ):
        with DatabaseJournal(address) as journal, journal._engine.connect() as connection:
            assert connection.scalar(text(setting)) == value


def test_what_a_killed_process_left_in_the_write_ahead_log_is_on_the_disk_when_the_journal_is_opened(
    path: Path, tmp_path: Path
) -> None:
    """Opening it writes the log into the database, which waits for the disk."""
    left = tmp_path / "left.db"
    with DatabaseJournal(Address.of_file(path)) as journal:
        journal.append(entry(N))
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", f"{left}{suffix}")
    with DatabaseJournal(Address.of_file(left)):
        alone = shutil.copy(left, tmp_path / "alone.db")
    with DatabaseJournal(Address.of_file(alone)) as journal:
        assert list(journal.entries()) == [entry(n) for n in range(N + 1)]


def test_on_a_full_disk_an_entry_is_refused_and_the_others_stay(path: Path) -> None:
    with DatabaseJournal(Address.of_file(path)) as journal:
        journal.append(entry(N))
        size = path.with_name("journal.db-wal").stat().st_size
        with files_of_at_most(size + 1000), pytest.raises(Unreachable) as caught:
            journal.append(entry(N + 1))
        assert str(caught.value).startswith(f"{path}: the database cannot be read or written: the disk ")
        with pytest.raises(UserError, match="takes no entry"):
            journal.append(entry(N + 1))
    with DatabaseJournal(Address.of_file(path)) as journal:
        assert list(journal.entries()) == [entry(n) for n in range(N + 1)]
