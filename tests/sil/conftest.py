"""What tests of experiments and of commands share."""

from __future__ import annotations

import pytest


@pytest.fixture
def small_study(monkeypatch: pytest.MonkeyPatch) -> str:
    """The second case study with few numbers of jobs."""
    from sil.studies.collins_george import cs2

    few = [5, 10, 20, 30, 40, 50, 60]
    for name, sizes in (("SIZES", few), ("EQUAL", few), ("COMPARED_SIZES", [5, 20])):
        monkeypatch.setattr(cs2, name, sizes)
    return "cs2"
