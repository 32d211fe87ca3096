"""Files of the current folder, which may be somebody else's, are not run; schedulers in it are."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from scheduler import registry
from scheduler.registry import SchedulerNotLoaded
from sil.settings.files import module_spec
from tests.commands import in_a_process

LOOKED_FOR = (
    *("org", "msvcrt", "_winapi", "sksparse", "scikits", "uarray", "coverage", "pandas", "torch", "tomllib"),
    *("random", "numpy", "polars", "test", "scheduler", "site_db", "pathlib"),
)
"""Modules that libraries try to import, and others that they have imported."""
MINE = """
import os, sibling
from pathlib import Path
from scheduler.free_nodes.rigid import Conservative
assert sibling.VALUE == Path("data.txt").read_text()
assert "PYTHONSAFEPATH" not in os.environ
class X(Conservative): pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in LOOKED_FOR:
        (tmp_path / f"{name}.py").write_text(f"open('RAN', 'a').write('{name} ')")
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "sibling.py").write_text("VALUE = 'data'")
    (tmp_path / "data.txt").write_text("data")
    (tmp_path / "log.swf").write_text("; MaxProcs: 4\n1 0 -1 60 1 -1 -1 1 90 -1 1 1 1 1 1 1 -1 -1\n")
    return tmp_path


def ran(folder: Path, *command: str, **environment: str) -> str:
    """What a command prints, after a check that it has run no other file."""
    done = in_a_process(*command, cwd=folder, timeout=None, **environment)
    assert not (folder / "RAN").exists(), (folder / "RAN").read_text()
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_command_runs_files_of_the_current_folder_but_that_of_a_scheduler(folder: Path) -> None:
    sil = str(Path(sys.executable).parent / "sil")
    assert "mine:X" in ran(folder, sil, "replay", "log.swf", "--scheduler", "fcfs", "--scheduler", "mine:X")
    assert "1 job" in ran(folder, sys.executable, "-m", "sil", "workload", "show", "log.swf")
    assert "fcfs" in ran(folder, sil, "schedulers", PYTHONPATH=f"{os.pathsep}.")


def test_a_node_selection_of_the_current_folder_runs_in_a_process_of_its_own(folder: Path) -> None:
    """Also where the folder of temporary files has a name that is too long for a socket."""
    temporary = folder / ("temporary " * 12)
    temporary.mkdir()
    (folder / "emptiest.py").write_text(
        "from scheduler.node_resources.selection import NodeSelection\n"
        "class Emptiest(NodeSelection):\n"
        "    def score(self, nodes, kind, which, scores):\n"
        "        scores[kind, which] = nodes.table.free[which, 0]\n"
    )
    (folder / "slurm.conf").write_text("NodeName=n[1-2] CPUs=4\nPartitionName=all Nodes=ALL Default=YES\n")
    name = "rigid(backfilling=easy, selection='emptiest:Emptiest')"
    sil = str(Path(sys.executable).parent / "sil")
    command = ("replay", "log.swf", "--nodes", "slurm.conf", "--no-report", "--scheduler", name)
    printed = ran(folder, sil, *command, COLUMNS="200", TMPDIR=str(temporary))
    assert "emptiest:Emptiest" in "".join(printed.split())


@pytest.mark.parametrize("name", ["scheduler", "site_db"])
def test_a_script_beside_a_file_that_hides_a_package_of_ours_says_so(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.py").touch()
    (tmp_path / "script.py").write_text("import sil\nsil.replay")
    done = in_a_process(sys.executable, "script.py", cwd=tmp_path)
    *_, last = done.stderr.splitlines()
    where = tmp_path / f"{name}.py"
    assert (
        last
        == f"ImportError: the file {where} hides the package `{name}` of sil-testbed; give it another name"
    )


def test_a_module_that_is_hidden_by_another_is_named(here: Path) -> None:
    (here / "random.py").write_text("class Mine: pass")
    with pytest.raises(SchedulerNotLoaded, match=r"hides random\.py of the current folder; give this file"):
        registry.resolve("random:Mine")


def test_a_module_of_the_folder_of_schedulers_is_found_without_an_import(tmp_path: Path) -> None:
    (tmp_path / "mine_alone.py").write_text("raise AssertionError('imported')")
    assert module_spec("mine_alone", None) is None
    found = module_spec("mine_alone", str(tmp_path))
    assert found is not None
    assert found.origin == str(tmp_path / "mine_alone.py")
