"""Test modules as pytest rewrites their assertions, kept before its workers start, or each would do so."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from _pytest.assertion.rewrite import PYC_TAIL, _read_pyc, _rewrite_test, _write_pyc_fp, get_cache_dir

HERE = Path(__file__).parent


def paths() -> list[Path]:
    return [*HERE.rglob("test_*.py"), *HERE.rglob("conftest.py")]


def keep(path: Path) -> None:
    """Keep it where pytest will look for it, unless it is there already, or the user may not write there."""
    kept = get_cache_dir(path) / (path.stem + PYC_TAIL)
    if _read_pyc(path, kept) is not None:
        return
    source_hash, code = _rewrite_test(path, None)
    with suppress(PermissionError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        with kept.open("wb") as file:
            _write_pyc_fp(file, source_hash, code)
