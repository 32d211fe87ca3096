"""Modules with types are compiled, with what a computer has, and compiled again when they change."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.commands import in_a_process

ROOT = Path(__file__).parent.parent
MODULE = """
class Counts:
    def __init__(self, counts):
        self.counts = counts

    def at(self, k):
        return self.counts[k]
"""
TYPES = """
cdef class Counts:
    cdef long[::1] counts
    cpdef long at(self, Py_ssize_t k) except? -1
"""
LOOK = """
import numpy as np
from scheduler.core import counts
for k in 2, 3, -1:
    try:
        print(counts.Counts(np.arange(3)).at(k))
    except IndexError as error:
        print(error)
"""
WITHOUT_HEADERS = """
import runpy, sysconfig
paths = sysconfig.get_paths
sysconfig.get_paths = lambda *given, **named: {**paths(*given, **named), "include": "/nowhere/python9.9"}
runpy.run_path("hatch_build.py", run_name="__main__")
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A project with one module to be compiled."""
    folder = tmp_path / "clone"
    core = folder / "scheduler" / "core"
    core.mkdir(parents=True)
    for package in (core.parent, core):
        (package / "__init__.py").touch()
    (core / "counts.py").write_text(MODULE)
    (core / "counts.pxd").write_text(TYPES)
    shutil.copy(ROOT / "hatch_build.py", folder)
    clock = "sil/slurm/clock/native"
    shutil.copytree(ROOT / clock, folder / clock)
    return folder


def run(folder: Path, *arguments: str, **environment: str) -> str:
    done = in_a_process(sys.executable, *arguments, cwd=folder, timeout=None, **environment)
    return done.stdout + done.stderr


def made(folder: Path) -> dict[str, int]:
    return {path.name.split(".")[0]: path.stat().st_mtime_ns for path in folder.glob("s*/**/*.so")}


@pytest.mark.long
@pytest.mark.skipif(shutil.which("cc") is None, reason="without a C compiler")
def test_only_what_has_changed_is_compiled_again(clone: Path) -> None:
    assert run(clone, "hatch_build.py") == ""
    first = made(clone)
    assert first.keys() == {"counts", "_shared", "preloaded"}
    with (clone / "scheduler" / "core" / "counts.pxd").open("a") as file:
        file.write("# changed\n")
    run(clone, "hatch_build.py")
    again = made(clone)
    assert {name for name in first if again[name] != first[name]} == {"counts"}


@pytest.mark.long
@pytest.mark.skipif(shutil.which("cc") is None, reason="without a C compiler")
def test_an_index_out_of_bounds_raises_where_it_is_checked(clone: Path) -> None:
    run(clone, "hatch_build.py", SIL_BOUNDS_CHECKS="1")
    assert run(clone, "-c", LOOK).splitlines() == ["2", *["Out of bounds on buffer access (axis 0)"] * 2]


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="without the package ziglang")
def test_without_a_compiler_that_of_a_package_compiles(clone: Path, tmp_path: Path) -> None:
    assert run(clone, "hatch_build.py", PATH=str(tmp_path), CC="") == ""
    assert made(clone).keys() == {"counts", "_shared", "preloaded"}


def test_what_is_missing_is_named_with_the_remedy(clone: Path, tmp_path: Path) -> None:
    hidden = "import sys; sys.modules['ziglang'] = None; import runpy; "
    code = f"{hidden} runpy.run_path('hatch_build.py', run_name='__main__')"
    assert "there is no C compiler" in run(clone, "-c", code, PATH=str(tmp_path), CC="")
    assert "install the headers of this Python" in run(clone, "-c", WITHOUT_HEADERS, PATH=str(tmp_path))


def test_without_machine_code_of_the_sources_one_sentence_says_what_to_do(tmp_path: Path) -> None:
    """Python would run sources without it many times slower, and old machine code in place of new sources."""
    for package in ("scheduler", "site_db", "sil"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "hatch_build.py").touch()

    def said() -> str:
        done = in_a_process(sys.executable, "-m", "sil", "--version", cwd=tmp_path, PYTHONPATH=str(tmp_path))
        assert done.returncode == (2 if done.stderr else 0)
        return done.stderr

    assert said() == ""
    source = tmp_path / "scheduler" / "mapping" / "core" / "lines.py"
    source.touch()
    assert said() == (
        f"Error: {source} has changed since it was compiled; "
        f"compile it: {sys.executable} {tmp_path / 'hatch_build.py'}\n"
    )
    for file in (tmp_path / "scheduler" / "core").glob("queue.*.so"):
        file.unlink()
    assert re.fullmatch(r"Error: .*/scheduler/core has no machine code for this Python .*\n", said())
