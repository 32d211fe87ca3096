"""Databases with the small site in them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from site_db import sites, store
from tests.site_db.site_texts import SMALL, read


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For tests that Hypothesis calls many times, each of which writes its file anew."""
    return tmp_path_factory.mktemp("site_db")


@pytest.fixture(scope="session")
def database_to_copy(shared_folder: Path) -> Path:
    path = shared_folder / "small.sqlite"
    engine = store.create(path)
    with Session(engine) as session, session.begin():
        sites.add_site(session, read(SMALL, shared_folder))
    engine.dispose()
    return path


@pytest.fixture
def database(database_to_copy: Path, tmp_path: Path) -> Path:
    """A database file with the small site."""
    return Path(shutil.copy(database_to_copy, tmp_path))


@pytest.fixture
def engine(database: Path) -> Iterator[Engine]:
    engine = store.open_file(database)
    yield engine
    engine.dispose()


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    with Session(engine) as session:
        yield session
