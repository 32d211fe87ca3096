"""Real clusters. Whatever of one goes on after its tests is a failure."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.sil.experiment.test_experiment import ROOT
from tests.sil.workers.cluster import Begin, Cluster
from tests.sil.workers.test_no_process_is_left import alive


@contextmanager
def scheduler_in(folder: Path) -> Iterator[Cluster]:
    if find_spec("distributed") is None:  # an extra of the package; CI does not accept a skip
        pytest.skip("there is no Dask here: pip install 'sil-testbed[distributed]'")
    made = Cluster(folder)
    try:
        yield made
    finally:
        processes = made.processes()
        made.end()
        assert not alive(processes)


@pytest.fixture
def begin_command() -> Iterator[Begin]:
    """Commands, which end with their test."""
    begun: list[subprocess.Popen[str]] = []

    def begin(*arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.sil.workers.command", *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        begun.append(process)
        return process

    yield begin
    for process in begun:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture
def new_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A scheduler for one test alone, and no workers yet."""
    with scheduler_in(tmp_path_factory.mktemp("dask")) as made:
        yield made


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A scheduler with two workers, one of them under a nanny, for tests that do them no harm."""
    with scheduler_in(tmp_path_factory.mktemp("dask")) as made:
        made.begin_worker()
        made.begin_worker("--no-nanny")
        yield made
