"""Databases that are made, opened and refused, and the sentence for each that cannot be used."""

from __future__ import annotations

import re
import shutil
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Thread

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from site_db import store
from site_db.schema import SiteRow
from site_db.site_file.importing import put_site
from site_db.sites import SiteReader, site_names
from site_db.store import DAMAGED, Address, DatabaseTrouble, Unreachable, parse_address
from tests.postgres import Server
from tests.site_db.site_texts import SMALL, read


def sentence(database: str | Path | Address) -> str:
    """What is said of a database that cannot be opened."""
    address = database if isinstance(database, Address) else parse_address(str(database))
    with pytest.raises(DatabaseTrouble) as caught:
        store.open_database(address)
    return str(caught.value)


# -- addresses ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "shown", "site"),
    [
        ("site.db", "site.db", None),
        ("site.db#hcs", "site.db", "hcs"),
        ("sqlite:///site.db#hcs", "site.db", "hcs"),
        ("sqlite:////data/site.db", "/data/site.db", None),
        ("a%20b.db#my%20site", "a%20b.db", "my site"),
        ("postgresql://ann@db.site:5433/hcs", "postgresql://ann@db.site:5433/hcs", None),
        ("postgresql+psycopg://ann@db.site/hcs#north", "postgresql://ann@db.site/hcs", "north"),
        ("postgresql+psycopg://ann@db.site/hcs/north", "postgresql://ann@db.site/hcs", "north"),
        ("postgresql://ann:secret@db.site/hcs", "postgresql://ann:***@db.site/hcs", None),
    ],
)
def test_an_address_names_a_database_and_a_site_and_never_shows_a_password(
    written: str, shown: str, site: str | None
) -> None:
    address = parse_address(written)
    assert (str(address), address.site) == (shown, site)


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("mysql://x/y", "supported "),
        ("sqlite://", "supported "),
        ("postgresql://host", "supported "),
        ("://", ""),
        ("http://x/site.db", "supported "),
    ],
)
def test_an_invalid_address_is_rejected_with_the_expected_format(written: str, kind: str) -> None:
    with pytest.raises(DatabaseTrouble) as caught:
        parse_address(written)
    assert str(caught.value).startswith(f"'{written}' is not a {kind}database address")
    assert "expected a file like site.db" in str(caught.value)


# -- databases that are there ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a?b=c", "a#b", "a%20b", "a b", "ü", "sqlite:"])
def test_a_database_is_created_and_opened_in_a_folder_of_any_name(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    folder.mkdir()
    path = folder / "site.sqlite"
    engine = store.replace(path)
    with Session(engine) as session, session.begin():
        put_site(session, read(SMALL, tmp_path))
    engine.dispose()
    assert [file.name for file in folder.iterdir()] == ["site.sqlite"]
    assert [folder.name for folder in tmp_path.iterdir() if folder.is_dir()] == [name]
    engine = store.open_file(path)
    with Session(engine) as session:
        assert SiteReader(session, "small").as_scheduled().n_machines == 5
    engine.dispose()


def test_an_existing_site_database_is_replaced_by_an_empty_one(database: Path) -> None:
    engine = store.replace(database)
    with Session(engine) as session:
        assert session.scalar(select(func.count()).select_from(SiteRow)) == 0
    engine.dispose()


def test_creating_a_database_never_overwrites_an_existing_file(address: Address) -> None:
    with pytest.raises(DatabaseTrouble, match=r"the file already exists|a site database already exists"):
        store.create(address)
    engine = store.open_database(address)
    with Session(engine) as session:
        assert site_names(session) == ["small"]
    engine.dispose()


def test_an_sqlite_database_uses_a_write_ahead_log_foreign_keys_and_a_busy_timeout(database: Path) -> None:
    engine = store.open_file(database)
    with engine.connect() as one, engine.connect() as another:
        for connection in (one, another):
            for name, value in (("journal_mode", "wal"), ("foreign_keys", 1), ("busy_timeout", 30_000)):
                assert connection.scalar(text(f"PRAGMA {name}")) == value
    engine.dispose()


# -- databases that cannot be used -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nowhere.db", ""])
def test_what_is_no_file_is_not_a_database_and_is_not_created(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    assert sentence(path) == f"{path}: there is no such file; `sil db init` makes a database"
    assert not (tmp_path / "nowhere.db").exists()


@pytest.mark.parametrize("content", [b"name = 'small'\n" * 100, b"\x1f\x8b" + b"x" * 5000])
def test_a_file_of_another_type_is_not_a_database(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "site.db"
    path.write_bytes(content)
    assert sentence(path) == f"{path}: this is not an SQLite database"
    assert path.read_bytes() == content


def test_a_foreign_database_is_not_a_site_database(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE machine (name TEXT)")
    connection.close()
    assert sentence(path) == f"{path}: this is not a site database; `sil db init` makes one"


def test_an_empty_database_on_a_server_is_not_a_site_database(server: Server) -> None:
    address = server.new_database()
    assert sentence(address) == f"{address}: this is not a site database; `sil db init` makes one"


def test_a_damaged_file_is_reported_as_damaged(database: Path) -> None:
    content = bytearray(database.read_bytes())
    content[4096 : len(content)] = b"\xff" * (len(content) - 4096)
    database.write_bytes(content)
    assert sentence(database) == f"{database}: {DAMAGED}"


def test_a_server_that_does_not_answer_is_reported_as_unreachable(server: Server) -> None:
    address = server.new_database()
    with server.being_down(), pytest.raises(Unreachable) as caught:
        store.open_database(address)
    assert str(caught.value).startswith(f"{address}: the server does not answer: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("reason", "may_pass"),
    [
        ("the database system is starting up", True),
        ("the database system is in recovery mode", True),
        ("the database system is not yet accepting connections", True),
        ("sorry, too many clients already", True),
        ("remaining connection slots are reserved for roles with the SUPERUSER attribute", True),
        ("could not write init file: No space left on device", True),
        ('password authentication failed for user "ann"', False),
        ('role "ann" does not exist', False),
    ],
)
def test_a_server_that_refuses_connections_for_a_while_may_be_asked_again(
    reason: str, may_pass: bool
) -> None:
    def refuse() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(1000)
            fields = b"SFATAL\0VFATAL\0CXX000\0M" + reason.encode() + b"\0\0"
            connection.sendall(b"E" + struct.pack("!I", len(fields) + 4) + fields)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        refusing = Thread(target=refuse)
        refusing.start()
        port = listening.getsockname()[1]
        address = parse_address(f"postgresql://ann@127.0.0.1:{port}/hcs?sslmode=disable&gssencmode=disable")
        with pytest.raises(DatabaseTrouble, match=re.escape(reason)) as caught:
            store.open_database(address)
        refusing.join()
    assert isinstance(caught.value, Unreachable) is may_pass


def test_without_the_postgresql_driver_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert sentence("postgresql://ann@db.site/hcs") == (
        "PostgreSQL needs the package psycopg, which is not installed; run: "
        "pip install 'sil-testbed[postgres]'"
    )


def test_a_database_missing_on_the_server_is_reported(server: Server) -> None:
    address = server.new_database()
    server.drop(address)
    assert f'database "{address.url.database}" does not exist' in sentence(address)


def test_a_database_locked_by_another_process_may_be_retried(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BUSY_TIMEOUT_S", 0.2)
    other = sqlite3.connect(database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    address = parse_address(str(database))
    engine = store.open_database(address)
    with pytest.raises(Unreachable) as caught, store.in_sentences(address), Session(engine) as session:
        session.execute(text("UPDATE site SET description = 'x'"))
    assert str(caught.value) == (
        f"{database}: another process keeps the database locked; try again when it is done"
    )
    other.execute("ROLLBACK")
    other.close()
    with store.in_sentences(address), Session(engine) as session:
        session.execute(text("UPDATE site SET description = 'x'"))
    engine.dispose()


AS_ANOTHER_USER = """
import os, sys
from sqlalchemy import create_engine, text
from site_db import store
create_engine("sqlite://").connect().close()  # all that is imported late
if os.getuid() == 0:  # whom no permissions hold back
    os.setgid(65534), os.setuid(65534)
for address in map(store.parse_address, sys.argv[1:]):
    try:
        engine = store.open_database(address)
        with store.in_sentences(address), engine.begin() as connection:
            print(connection.scalar(text("SELECT name FROM site")))
            connection.execute(text("UPDATE site SET description = 'mine'"))
    except store.DatabaseTrouble as trouble:
        print(trouble)
"""


def test_a_read_only_database_is_reported_in_a_folder_that_may_be_written_and_in_another(
    database: Path,
) -> None:
    with tempfile.TemporaryDirectory() as name:  # other users may not enter the folders of pytest
        Path(name).chmod(0o755)
        paths = [Path(name, mode, database.name) for mode in ("777", "555")]
        for path in paths:
            path.parent.mkdir()
            shutil.copy(database, path)
            path.chmod(0o444)
            path.parent.chmod(int(path.parent.name, 8))
        command = [sys.executable, "-c", AS_ANOTHER_USER, *paths]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        paths[1].parent.chmod(0o755)
    assert done.stderr == ""
    assert [line for line in done.stdout.splitlines() if line != "small"] == [
        f"{path}: the file or its folder may not be written, which SQLite needs; change the permissions, or "
        f"copy the file into a folder of yours"
        for path in paths
    ]
