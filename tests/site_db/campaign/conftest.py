"""Databases in either store, as many as a campaign asks for."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path

import pytest

from site_db.store import Address, parse_address
from tests.postgres import Server
from tests.site_db.conftest import STORES

pytest.register_assert_rewrite("tests.site_db.campaign.oracle", "tests.site_db.campaign.writer")

Recorded = Callable[[str, object], None]
"""Notes in the report of the tests how many faults there were."""


def some_or_all(some: range, every: range) -> pytest.MarkDecorator:
    """A few `seeds` in `make test`, many in `make test-all`, for which the test is called once each."""
    of_all = pytest.param(every, marks=pytest.mark.long)
    return pytest.mark.parametrize("seeds", [some, of_all], ids=["some", "many"])


Fresh = Callable[[], AbstractContextManager[Address]]
"""A database with the small site, without history."""


@pytest.fixture(params=STORES)
def fresh(request: pytest.FixtureRequest) -> Fresh:
    if request.param == "sqlite":
        return request.getfixturevalue("fresh_file")
    server: Server = request.getfixturevalue("server")
    original = request.getfixturevalue("server_database_to_copy")
    return lambda: server.copy_of(original)


@pytest.fixture
def fresh_file(database_to_copy: Path, tmp_path: Path) -> Fresh:
    numbers = count()

    @contextmanager
    def fresh() -> Iterator[Address]:
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        yield parse_address(str(shutil.copy(database_to_copy, folder)))
        shutil.rmtree(folder)

    return fresh
