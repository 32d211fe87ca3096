"""Compiled code is kept on disk, and made again where that fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LOADS = "from scheduler.free_nodes.kernels.releases import Releases; Releases()"


def load(cache: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", LOADS], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_damaged_files_of_compiled_code_are_written_again(tmp_path: Path) -> None:
    load(tmp_path)
    kept = sorted(tmp_path.rglob("*.nbc"))
    assert kept
    sizes = [path.stat().st_size for path in kept]
    for path in kept:
        os.truncate(path, 100)
    load(tmp_path)
    assert [path.stat().st_size for path in kept] == sizes
