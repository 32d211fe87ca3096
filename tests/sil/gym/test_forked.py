"""Environments in processes that are forked, as AsyncVectorEnv does by default on Linux."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import gymnasium, numpy as np, sil, sil.gym
if __name__ == "__main__":
    log = sil.read_log("log.swf")
    made = [lambda: gymnasium.make("sil/Backfill-v0", log=log, jobs=9)] * 2
    with_forks = gymnasium.vector.AsyncVectorEnv(made, context="fork")
    seen, _ = with_forks.reset(seed=1)
    for _ in range(5):
        seen, *_ = with_forks.step(np.argmax(seen["action_mask"], axis=1))
    print(seen["jobs"].shape[0])
    with_forks.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_environments_go_on_in_forked_processes(tmp_path: Path) -> None:
    row = "{k} {s} -1 60 2 -1 -1 -1 300 -1 1 1 1 1 1 1 -1 -1\n"
    rows = [row.format(k=k, s=9 * k) for k in range(1, 90)]
    (tmp_path / "log.swf").write_text("; MaxProcs: 4\n" + "".join(rows))
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "2\n", done.stderr
