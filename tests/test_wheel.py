"""What `pip install` of the built wheel gives, away from the checkout."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def built_in(folder: Path, **environment: str) -> Path:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environment})
    (path,) = folder.glob("*.whl")
    return path


def test_the_wheel_has_only_the_three_packages_and_their_data_at_top_level(tmp_path: Path) -> None:
    """Without machine code, which takes a minute to compile for any processor."""
    names = zipfile.ZipFile(built_in(tmp_path, HATCH_BUILD_NO_HOOKS="true")).namelist()
    tops = {name.partition("/")[0] for name in names if ".dist-info" not in name}
    assert tops == {"sil", "scheduler", "site_db"}
    assert "sil/fixtures/sites/hcs-2001.toml" in names
    assert "sil/fixtures/experiments/light-to-heavy.toml" in names
    assert {"sil/report/page.html.j2", "sil/report/schedule.js", "scheduler/core/queue.pxd"} <= set(names)
    assert not [name for name in names if name.endswith((".c", ".so"))]


@pytest.mark.long
@pytest.mark.skipif(shutil.which("cc") is None, reason="without a C compiler")
def test_an_installed_wheel_needs_nothing_of_the_checkout_and_no_compiler(tmp_path: Path) -> None:
    wheel, installed, elsewhere = built_in(tmp_path), tmp_path / "installed", tmp_path / "elsewhere"
    assert re.search(rf"-cp3\d+-cp3\d+-\w*linux\w*_{platform.machine()}\.whl$", wheel.name)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    subprocess.run([*pip, str(installed), str(wheel)], check=True, capture_output=True)
    elsewhere.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(installed), "PATH": str(tmp_path)}

    def run(*arguments: str) -> str:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=elsewhere, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = "import sil, scheduler.core.queue, site_db; from sil.slurm.clock.driver import built; "
    files = "print(sil.__file__, scheduler.core.queue.__file__, site_db.__file__, built())"
    assert run("-c", where + files).count(str(installed)) == 4
    run("-m", "sil", "run", "light-to-heavy", "--replications", "1", "--out", "out")
    assert (elsewhere / "out" / "report.html").is_file()


def test_all_imports_of_the_commands_are_pinned_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.match(r"[\w.-]+", text)[0].lower() for text in project["dependencies"]}  # type: ignore[index]
    assert "hypothesis" not in needed, "only `sil check` and scheduler.testing draw their problems with it"
    pinned = (ROOT / "requirements.txt").read_text().lower()
    assert not [name for name in needed if not re.search(rf"^{name}==", pinned, re.MULTILINE)]
