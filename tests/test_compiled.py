"""Machine code does what the plain Python does from which it is compiled; faults there are found."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import cloudpickle
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.mapping.problem import MappingProblem
from sil.runs.on_log import Replay
from sil.settings.replays import Engine, Estimates
from sil.workload.job_log import JobLog
from tests.examples import up_to
from tests.plain_python import COMPILED, ROOT, in_plain_python
from tests.scheduler.test_mapping_equals_the_reference import PAIRS, columns, problems
from tests.sil.outcome import faulty_replays
from tests.sil.runs import test_engines, test_engines_on_nodes
from tests.sil.runs.test_engines import facts_by

RUN_WITH_CHECKS = (
    "tests/scheduler",
    "tests/sil/outcome/test_fast_check.py",
    "tests/sil/runs/test_engines.py",
    "tests/sil/runs/test_engines_on_nodes.py",
    "tests/sil/studies/test_fgd.py",
    "tests/sil/experiment/test_replay.py",
    "tests/sil/runs/test_replay_on_nodes.py",
    "tests/sil/runs/test_time_shared_nodes.py",
    "tests/sil/gym/test_backfill.py",
    "tests/sil/world",
    "tests/sil/workload",
)
NOT_COPIED = ".*", "build", "dist", "__pycache__", "*.so"


def files_of_modules() -> dict[str, str]:
    return {name: str(import_module(name).__file__) for name in COMPILED}


def facts(replay: Replay, scheduler: str) -> pl.DataFrame:
    return facts_by(Engine.COMPILED, replay, scheduler)


def schedule(number: int, problem: bytes) -> list[list[float]]:
    """By the heuristic with this number."""
    return columns(PAIRS[number][0].schedule(pickle.loads(problem)))


@pytest.fixture(scope="module")
def there() -> Iterator[ProcessPoolExecutor]:
    with in_plain_python() as process:
        yield process


def test_modules_with_types_are_machine_code_here_and_plain_python_there(there: ProcessPoolExecutor) -> None:
    assert all(file.endswith(EXTENSION_SUFFIXES[0]) for file in files_of_modules().values())
    assert all(file.endswith(".py") for file in there.submit(files_of_modules).result().values())


logs = st.tuples(test_engines.logs(), st.sampled_from(["easy", "easy_sjbf", "conservative"]))
logs_on_nodes = st.tuples(
    test_engines_on_nodes.logs(),
    st.builds(
        "{}selection={})".format,
        st.sampled_from(["rigid(backfilling=easy, ", "conservative("]),
        st.sampled_from(test_engines_on_nodes.SELECTIONS),
    ),
)


@settings(max_examples=up_to(200, part=10))
@given(logs | logs_on_nodes, st.sampled_from(Estimates), st.sampled_from(test_engines.ORDERS))
def test_replays_are_equal_in_machine_code_and_plain_python(
    there: ProcessPoolExecutor, made: tuple[JobLog, str], estimates: Estimates, order: str
) -> None:
    log, scheduler = made
    replay = Replay(log, estimates=estimates, order=order)
    plain = there.submit(facts, replay, scheduler)
    assert facts(replay, scheduler).equals(plain.result())


@settings(max_examples=up_to(200, part=10))
@given(st.integers(0, len(PAIRS) - 1), problems())
def test_schedules_are_equal_in_machine_code_and_plain_python(
    there: ProcessPoolExecutor, number: int, problem: MappingProblem
) -> None:
    pickled = cloudpickle.dumps(problem)
    plain = there.submit(schedule, number, pickled)
    assert schedule(number, pickled) == plain.result()


def test_what_is_wrong_in_compiled_modules_is_found(there: ProcessPoolExecutor) -> None:
    found = there.submit(faulty_replays.found_and_expected).result()
    assert {name: of for name, (of, _) in found.items()} == {name: of for name, (_, of) in found.items()}


# -- machine code ------------------------------------------------------------------------------------------

FUNCTION = re.compile(r"static .*\b__pyx_f_(\w+)\(.*\{")
OBJECT = re.compile(r"  PyObject \*__pyx_v_(\w+) = NULL;")
HAVE_OBJECTS = {
    ("identical", "make_room_for_intervals"),
    ("identical", "sort_waiting"),
    ("loop", "arrives_under_conditions"),
    ("loop", "admit"),
    ("loop", "act"),
    ("loop", "dismiss"),
    ("loop", "changes_now"),
    ("loop", "has_stopped"),
    ("loop", "left_s"),
    ("on_nodes", "begin_runs"),
    ("on_nodes", "by_urgency"),
    ("on_nodes", "change"),
    ("on_nodes", "change_state"),
    ("on_nodes", "estimate_overdue"),
    ("on_nodes", "note_choices"),
    ("on_nodes", "read_news"),
    ("on_nodes", "runs_on"),
    ("on_nodes", "take"),
    ("on_nodes", "withdraw"),
    ("reservations", "make_room"),
    ("waiting_tree", "double_capacity"),
    ("groups", "restart"),
    ("two_passes", "line_up"),
    ("lines", "begin"),
}
"""Functions of C that may have variables that are objects, by module: they are called rarely, or only if jobs
have to be eligible, have several partitions, save what they have done or preempt others, which plain Python
knows, or are in an order that NumPy sorts."""


def test_variables_of_functions_of_c_have_types_of_c() -> None:
    """An object among them, for example since a type is forgotten, makes a loop many times slower."""
    with_objects = set[tuple[str, str]]()
    for name in COMPILED:
        module, code = name.rpartition(".")[2], ROOT / "build" / "c" / f"{name.replace('.', '/')}.c"
        function = ""
        for line in code.read_text().splitlines():
            if (begins := FUNCTION.match(line)) or line.startswith("}"):
                function = begins[1].rpartition(f"{module}_")[2] if begins else ""
            elif function and OBJECT.match(line):
                with_objects.add((module, re.sub(r"^\d+[A-Z][A-Za-z]*_", "", function)))
    assert {x for x in with_objects if "unpickle" not in x[1]} == HAVE_OBJECTS


@pytest.mark.long
@pytest.mark.skipif(shutil.which("cc") is None, reason="without a C compiler")
def test_no_index_is_out_of_bounds_in_the_tests_of_what_is_compiled(tmp_path: Path) -> None:
    """In a copy, all is compiled with checks."""
    copy = tmp_path / "copy"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*NOT_COPIED))
    environment = {**os.environ, "SIL_BOUNDS_CHECKS": "1", "PYTHONPATH": str(copy)}
    for name in ("SIL_ALL_EXAMPLES", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        environment.pop(name, None)
    raises = ("-W", "error::pytest.PytestUnraisableExceptionWarning")  # in functions of C that pass none on
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *raises, *RUN_WITH_CHECKS]
    for command in (["hatch_build.py"], tests):
        done = subprocess.run(
            [sys.executable, *command], cwd=copy, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
