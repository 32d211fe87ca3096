"""Reference results, kept beside the project and not in it; tests that need them skip where they are not."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent.parent / "shared" / "oracles"


def oracle(name: str) -> Path:
    """The path of a reference file; skips the test, saying so, where there is none: the references are
    others' work, and no part of the project."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"the reference results are not here: there is no ../shared/oracles/{name}")
    return path
