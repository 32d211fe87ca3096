"""Damaged databases: every command says so in one sentence, and what is intact can be saved."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import text

from site_db import damage, store
from site_db.store import parse_address
from tests.commands import sil, succeeded
from tests.postgres import Server
from tests.sil.cli.test_database_commands import SACCT, SWF, done, here

__all__ = ["here"]
pytestmark = pytest.mark.usefixtures("in_this_process", "without_reports")
PAGE = 4096
COMMANDS = (
    ("check",),
    ("show",),
    ("history",),
    ("export",),
    ("demand",),
    ("state", "n1", "up"),
    ("prune", "--keep", "1"),
    ("import-swf", "log.swf"),
    ("upgrade",),
)


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An intact database with a site of nodes and its jobs."""
    folder = tmp_path_factory.mktemp("intact")
    (folder / "sacct.txt").write_text(SACCT)
    database = folder / "intact.db"
    done("init", "--db", database)
    succeeded("db", "import-sacct", folder / "sacct.txt", "--db", f"{database}#ours")
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return database.read_bytes()


def damaged(content: bytes, seed: int) -> bytes:
    """A database with a few bytes, or a page, that are not as they were, or without its end."""
    rng = random.Random(seed)
    data = bytearray(content)
    match rng.choice(("bytes", "page", "zero", "cut", "letter")):
        case "bytes":
            for _ in range(rng.choice((1, 5, 50))):
                data[rng.randrange(100, len(data))] = rng.randrange(256)
        case "page":
            a, b = (PAGE * rng.randrange(len(data) // PAGE) for _ in range(2))
            data[a : a + PAGE] = data[b : b + PAGE]
        case "zero":
            a = PAGE * rng.randrange(len(data) // PAGE)
            data[a : a + PAGE] = bytes(PAGE)
        case "cut":
            del data[rng.randrange(100, len(data)) :]
        case "letter":
            letters = [k for k, c in enumerate(data) if chr(c).isalpha() and chr(c).isascii()]
            data[rng.choice(letters)] = rng.choice((0xFF, 0x80, 0xC3, 0))
    return bytes(data)


def is_rejected_by_sqlite(path: Path) -> bool:
    connection = sqlite3.connect(path)
    try:
        checks = ("integrity_check", "foreign_key_check")
        return [connection.execute(f"PRAGMA {check}").fetchall() for check in checks] != [[("ok",)], []]
    except (sqlite3.Error, UnicodeDecodeError):
        return True
    finally:
        connection.close()


def assert_reported(content: bytes, seed: int) -> None:
    """No command ends in a traceback, and `check` accepts no file that SQLite rejects."""
    bad = damaged(content, seed)
    Path("log.swf").write_text(SWF)
    for command in COMMANDS:
        # Each has a file of its own: a connection that is not closed yet may write at its end.
        database = Path(f"{command[0]}-{seed}.db")
        database.write_bytes(bad)
        rejected = is_rejected_by_sqlite(database)
        result = sil("db", *command, "--db", str(database) if command[0] == "upgrade" else f"{database}#ours")
        assert result.exception is None or isinstance(result.exception, SystemExit), (seed, command)
        if command == ("check",) and rejected:
            assert result.exit_code != 0, (seed, result.output)
        database.unlink()


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_file_is_reported_by_every_command(seed: int, content: bytes) -> None:
    assert_reported(content, seed)


@pytest.mark.long
@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("seed", range(100, 104))
def test_many_damaged_files_are_reported_by_every_command(seed: int, content: bytes) -> None:
    for k in range(40):
        assert_reported(content, 1000 * seed + k)


def test_text_that_is_no_text_is_reported_with_the_remedy(here: Path, content: bytes) -> None:
    (here / "bad.db").write_bytes(content.replace(b"batch", b"b\xff\xfech"))
    result = sil("db", "check", "--db", "bad.db#ours")
    assert result.exit_code == 1
    assert "rows with values that cannot be read" in result.stderr
    assert "sil db salvage NEW.db --db 'bad.db'" in result.stderr
    assert (
        "the database file is damaged; restore it from a copy" in sil("db", "show", "--db", "bad.db").stderr
    )


def test_rows_that_refer_to_none_are_reported(here: Path, content: bytes) -> None:
    (here / "bad.db").write_bytes(content)
    connection = sqlite3.connect("bad.db")
    connection.executescript("PRAGMA foreign_keys = OFF; DELETE FROM machine_class")
    connection.close()
    assert (
        "rows of the table machine refer to rows of machine_class"
        in sil("db", "check", "--db", "bad.db#ours").stderr
    )


def pages_of(content: bytes, table: str, folder: Path) -> int:
    (folder / "look.db").write_bytes(content)
    connection = sqlite3.connect(folder / "look.db")
    (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    connection.close()
    return int(page)


@pytest.mark.parametrize("lost", ["user_usage", "preference", "prediction"])
def test_what_is_intact_is_saved_and_agrees_with_itself(lost: str, here: Path, content: bytes) -> None:
    """The advice of `check`, followed: the page of one table is overwritten."""
    begin = PAGE * (pages_of(content, lost, here) - 1)
    (here / "bad.db").write_bytes(content[:begin] + b"\xa5" * PAGE + content[begin + PAGE :])
    assert sil("db", "check", "--db", "bad.db#ours").exit_code == 1
    saved = succeeded("db", "salvage", "new.db", "--db", "bad.db")
    assert f"table {lost}: 0 rows saved, 0 left out; more may be on damaged pages" in saved.stderr
    assert "agree with its history of 3 runs" in done("check", "--db", "new.db#ours")
    assert "already exists" in sil("db", "salvage", "new.db", "--db", "bad.db").stderr


def test_a_cut_file_is_saved_up_to_the_cut(here: Path, content: bytes) -> None:
    (here / "bad.db").write_bytes(content[: len(content) - 2 * PAGE - 7])
    succeeded("db", "salvage", "new.db", "--db", "bad.db")
    assert "ours" in done("show", "--db", "new.db")


def test_a_file_without_a_readable_row_is_refused(here: Path, content: bytes) -> None:
    (here / "bad.db").write_bytes(content[:PAGE] + bytes(len(content) - PAGE))
    assert "no row of the file can be read" in sil("db", "salvage", "new.db", "--db", "bad.db").stderr


def test_a_damaged_table_on_a_server_is_reported(server: Server, here: Path) -> None:
    (here / "sacct.txt").write_text(SACCT)
    shown = server.new_database().url.render_as_string(hide_password=False)
    done("init", "--db", shown)
    succeeded("db", "import-sacct", "sacct.txt", "--db", f"{shown}#ours")
    engine = store.open_database(parse_address(shown))
    with store.reading(engine) as session:
        assert not list(damage.damages(session))
        where = "SELECT current_setting('data_directory') || '/' || pg_relation_filepath('preference')"
        file = Path(session.scalar(text(where)))
    engine.dispose()
    with server.being_down():
        file.write_bytes(b"\xa5" * 8192)
    result = sil("db", "check", "--db", f"{shown}#ours")
    assert result.exit_code == 1
    assert "the table preference is damaged: invalid page in block 0" in result.stderr
    assert "restore the database from a backup" in result.stderr
