"""What tests of schedulers in processes of their own share."""

from __future__ import annotations

import pytest

from sil.world.guard import apart


@pytest.fixture
def isolated(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a command: schedulers that are not built in do not run in this process."""
    monkeypatch.setattr(apart, "_isolates", True)
