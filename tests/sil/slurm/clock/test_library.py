"""Where the clock's library cannot be used, the remedy is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler import UserError
from sil.slurm.clock import driver


def test_a_library_that_is_missing_or_cannot_be_loaded_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "preloaded.so"
    monkeypatch.setattr(driver, "LIBRARY", elsewhere)
    for content in (None, "for another computer"):
        if content:
            elsewhere.write_text(content)
        with pytest.raises(UserError, match=r"cannot be loaded \(.*preloaded.so.*\); install sil"):
            driver.built.__wrapped__()


def test_another_system_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.libc_ver", lambda: ("", ""))
    with pytest.raises(UserError, match="with the GNU C library only"):
        driver.built.__wrapped__()
