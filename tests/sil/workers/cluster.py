"""A real Dask scheduler with workers in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from tests.sil.experiment.test_experiment import ROOT

Begin = Callable[..., subprocess.Popen[str]]
"""Begins the command of `tests.sil.workers.command` with these arguments."""

DASK_OPTIONS = ["--host", "127.0.0.1", "--no-dashboard"]


class Cluster:
    """A scheduler, whose address is in `file`, and the workers that are begun."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "scheduler.json"
        self._folder = folder
        self._begun: list[subprocess.Popen[bytes]] = []
        # What was under way on a worker that dies is ours to ask for again: Dask does not try it anew.
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0",
        }
        self.scheduler = self._begin("scheduler", "--port", "0", "--scheduler-file", str(self.file))
        deadline = time.monotonic() + 60.0
        while not self.file.exists():
            assert time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.05)

    def begin_worker(self, *options: str, python_path: str = str(ROOT)) -> subprocess.Popen[bytes]:
        """A worker with one thread."""
        self._environment["PYTHONPATH"] = python_path
        where = ["--scheduler-file", str(self.file), "--local-directory", str(self._folder)]
        return self._begin("worker", *where, "--nworkers", "1", "--nthreads", "1", *options)

    def processes(self) -> set[int]:
        """All that goes on, with what it has started."""
        found: set[int] = set()
        for process in self._begun:
            with suppress(psutil.NoSuchProcess):
                begun = psutil.Process(process.pid)
                found |= {begun.pid, *(child.pid for child in begun.children(recursive=True))}
        return found

    def end(self) -> None:
        """End the scheduler and the workers; what these have started is to end by itself."""
        for process in reversed(self._begun):
            with suppress(ProcessLookupError):  # a test has killed it
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _begin(self, *command: str) -> subprocess.Popen[bytes]:
        with (self._folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *command, *DASK_OPTIONS],
                cwd=self._folder,
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._begun.append(process)
        return process
