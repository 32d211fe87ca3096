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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_in(tmp_path_factory.mktemp("dist"))


def built_in(folder: Path, **environment: str) -> Path:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environment})
    (path,) = folder.glob("*.whl")
    return path


def test_the_wheel_has_only_the_three_packages_and_their_data_at_top_level(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names if ".dist-info" not in name}
    assert tops == {"sil", "scheduler", "site_db"}
    assert "sil/fixtures/sites/hcs-2001.toml" in names
    assert "sil/fixtures/experiments/light-to-heavy.toml" in names
    assert {"sil/report/page.html.j2", "sil/report/schedule.js"} <= set(names)
    assert wheel.name.endswith("-py3-none-any.whl")
    assert {"sil/slurm/clock/native/driver.c", "sil/slurm/clock/native/layout.h"} <= set(names)


@pytest.mark.long
@pytest.mark.skipif(shutil.which("cc") is None, reason="without a C compiler")
def test_a_wheel_with_the_clock_needs_no_compiler_where_it_is_installed(tmp_path: Path) -> None:
    wheel = built_in(tmp_path, HATCH_BUILD_HOOK_ENABLE_CUSTOM="true")
    assert wheel.name.endswith(f"-py3-none-linux_{platform.machine()}.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    program = "from sil.slurm.clock.library import built; print(built())"
    environment = {"PYTHONPATH": str(tmp_path / "installed"), "PATH": str(tmp_path)}
    used = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    (shipped,) = (tmp_path / "installed" / "sil" / "slurm" / "clock").glob("clock-*.so")
    assert used.stdout.strip() == str(shipped)


@pytest.mark.long
def test_the_built_in_experiment_runs_from_another_folder(wheel: Path, tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(installed),
        str(wheel),
    ]
    subprocess.run(pip, check=True, capture_output=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    where = "import sil, scheduler, site_db; print(sil.__file__, scheduler.__file__, site_db.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", where],
        cwd=elsewhere,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.count(str(installed)) == 3
    # Schedulers that need no compiling, which a new installation would do first; .ci/run tries the others.
    chosen = ["--scheduler", "olb", "--scheduler", "mct", "--replications", "1", "--out", "out"]
    command = [sys.executable, "-m", "sil", "run", "light-to-heavy", *chosen]
    result = subprocess.run(
        command, cwd=elsewhere, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert (elsewhere / "out" / "report.html").is_file()


def test_all_imports_of_the_commands_are_pinned_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.match(r"[\w-]+", text)[0].lower() for text in project["dependencies"]}  # type: ignore[index]
    assert "hypothesis" not in needed, "only `sil check` and scheduler.testing draw their problems with it"
    pinned = (ROOT / "requirements.txt").read_text().lower()
    assert not [name for name in needed if not re.search(rf"^{name}==", pinned, re.MULTILINE)]
