"""Tests of live runs take turns, since each uses whole cores."""

import fcntl
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Wait for live runs in other processes of the tests."""
    with (tmp_path_factory.getbasetemp().parent / "live").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
