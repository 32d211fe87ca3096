"""What is made before pytest's workers start, or each would: machine code, bytecode and rewritten tests."""

from __future__ import annotations

import subprocess
import sys
from compileall import compile_dir
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path

from _pytest.assertion.rewrite import PYC_TAIL, _read_pyc, _rewrite_test, _write_pyc_fp, get_cache_dir

import hatch_build

HERE = Path(__file__).parent
ROOT = HERE.parent


def compile_changed() -> None:
    """Compile again what has changed since it was compiled: tests of old machine code would mislead."""
    subprocess.run([sys.executable, str(ROOT / "hatch_build.py")], check=True)


def prepare_for_workers() -> None:
    # Python itself would not where PYTHONDONTWRITEBYTECODE is set. Processes of schedulers import tests, too.
    for package in (*hatch_build.PACKAGES, "tests"):
        compile_dir(ROOT / package, quiet=1)
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        list(pool.map(_rewrite, [*HERE.rglob("test_*.py"), *HERE.rglob("conftest.py")], chunksize=20))


def _rewrite(path: Path) -> None:
    """Keep it where pytest will look for it, unless it is there already, or the user may not write there."""
    kept = get_cache_dir(path) / (path.stem + PYC_TAIL)
    if _read_pyc(path, kept) is not None:
        return
    source_hash, code = _rewrite_test(path, None)
    with suppress(PermissionError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        with kept.open("wb") as file:
            _write_pyc_fp(file, source_hash, code)
