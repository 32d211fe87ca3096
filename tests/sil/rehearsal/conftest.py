"""A site that several modules of tests use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sil.rehearsal.known_site import made


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    made(folder)
    return folder
