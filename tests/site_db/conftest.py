"""Databases with the small site in them, in every store."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from site_db import store
from site_db.site_file import importing
from site_db.store import Address, parse_address
from tests.postgres import Server
from tests.site_db.site_texts import SMALL, read

STORES = ["sqlite", "postgresql"]
ON_SQLITE = pytest.mark.parametrize("address", STORES[:1], indirect=True)
"""Of tests of what is read, inferred and said; others of their module execute the statements on a server."""


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For tests that Hypothesis calls many times, each of which writes its file anew."""
    return tmp_path_factory.mktemp("site_db")


@pytest.fixture(scope="session")
def database_to_copy(shared_folder: Path) -> Path:
    path = shared_folder / "small.sqlite"
    put_small_site(parse_address(str(path)), shared_folder)
    return path


@pytest.fixture(scope="session")
def server_database_to_copy(server: Server, shared_folder: Path) -> Address:
    address = server.new_database()
    put_small_site(address, shared_folder)
    return address


def put_small_site(address: Address, folder: Path) -> None:
    engine = store.create(address)
    with Session(engine) as session, session.begin():
        importing.put_site(session, read(SMALL, folder))
    engine.dispose()


@pytest.fixture
def database(database_to_copy: Path, tmp_path: Path) -> Path:
    """An SQLite file with the small site."""
    return Path(shutil.copy(database_to_copy, tmp_path))


@pytest.fixture(params=STORES)
def address(request: pytest.FixtureRequest) -> Iterator[Address]:
    """A database with the small site, in either store."""
    if request.param == "sqlite":
        yield parse_address(str(request.getfixturevalue("database")))
        return
    server: Server = request.getfixturevalue("server")
    with server.copy_of(request.getfixturevalue("server_database_to_copy")) as address:
        yield address


@pytest.fixture
def engine(address: Address) -> Iterator[Engine]:
    engine = store.open_database(address)
    yield engine
    engine.dispose()


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    with Session(engine) as session:
        yield session
