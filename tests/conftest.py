"""What all tests share. Where SIL_FAIL_ON_SKIP is set (as CI does), a test that skips is a failure."""

from __future__ import annotations

import gc
import json
import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import settings

from sil.report.vega_lite import Figure, Spec, specification
from sil.workers.execution import Execution
from sil.workers.executor import Inline
from tests.examples import ALL, up_to
from tests.postgres import Server
from tests.prepared import compile_changed, prepare_for_workers

# What commands print depends on these.
os.environ["TERM"] = "xterm-256color"
for variable in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
    os.environ.pop(variable, None)

# A large file system in memory is quicker where thousands of small databases are made.
IN_MEMORY, ENOUGH = "/dev/shm", 4 << 30
if (
    "TMPDIR" not in os.environ
    and os.access(IN_MEMORY, os.W_OK)
    and shutil.disk_usage(IN_MEMORY).free > ENOUGH
):
    os.environ["TMPDIR"] = tempfile.tempdir = IN_MEMORY

# Looked through as often as by default, what tests make costs a twentieth of the time of all.
gc.set_threshold(50_000)

# No deadline: machines under test are shared and slow at times. Random examples are for `make test-all`: what
# fails in `make test`, or on another computer only, is due to a change.
settings.register_profile("ours", deadline=None, max_examples=up_to(100), derandomize=not ALL)
settings.load_profile("ours")


def pytest_configure(config: pytest.Config) -> None:
    """Before workers start, make what each would make."""
    if not hasattr(config, "workerinput") and not config.option.collectonly:
        compile_changed()
        if config.getoption("numprocesses", None):
            prepare_for_workers()


def pytest_collection_finish() -> None:
    """Garbage is not looked for in what all tests have loaded, for example before decisions are timed."""
    gc.freeze()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One more than there are cores, since many tests wait for processes that they have started."""
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1) + 1


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A PostgreSQL server, started when the first test asks for it."""
    server = Server()
    yield server
    server.close()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, whose modules can be imported."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.fixture
def without_reports(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Experiments and replays write no report.html, which would take longer than a small one itself; those of
    tests marked `reads_report` do, and their charts are checked against the schema of Vega-Lite."""
    if request.node.get_closest_marker("reads_report") is None:
        for module in ("sil.experiment.run", "sil.planning.page", "sil.rehearsal.page", "sil.studies.page"):
            import_module(module)  # now, so that none of them keeps what is replaced
        monkeypatch.setattr("sil.report.replay.page.replay_page", lambda replayed, analysis: None)
        monkeypatch.setattr("sil.report.page.write_page", lambda path, page: None)
        monkeypatch.setattr("sil.experiment.run.experiment_page", lambda tables, jobs, comparison: None)
        monkeypatch.setattr("sil.experiment.run.write_page", lambda path, page: None)
    else:
        monkeypatch.setattr("sil.report.page.specification", valid_specification)


def valid_specification(figure: Figure) -> Spec:
    """A chart as in a report, checked against the schema of Vega-Lite, which Altair brings along."""
    from altair.utils.schemapi import validate_jsonschema  # takes a third of a second to load
    from altair.vegalite.v6.schema.core import load_schema

    found = specification(figure)
    as_read = json.loads(json.dumps(found, allow_nan=False))
    # To check thousands of rows, of which the schema says only that they are objects, takes seconds.
    as_read["datasets"] = {name: rows[:1] for name, rows in as_read["datasets"].items()}
    validate_jsonschema(as_read, load_schema())
    return found


@pytest.fixture
def without_figures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans and studies write no figures, each of which takes a fifth of a second; those of tests marked
    `reads_report` do."""
    if request.node.get_closest_marker("reads_report") is None:
        monkeypatch.setattr("sil.report.page.save", lambda chart, path: None)


@pytest.fixture
def in_this_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run their work inline, without worker processes, each of which imports for half a second;
    commands of tests marked `processes` use them. Schedulers that are not built in still have their own."""
    if request.node.get_closest_marker("processes") is None:
        there = Execution.executor
        monkeypatch.setattr(Execution, "executor", lambda where: there(where) if where.dask else Inline())
        for module in ("sil.experiment.checking", "sil.experiment.overhead"):
            monkeypatch.setattr(f"{module}.Processes", lambda workers: Inline())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and os.environ.get("SIL_FAIL_ON_SKIP"):
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be missing: {report.longrepr}"
    return report
