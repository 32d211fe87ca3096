"""The clock's library is compiled once on a computer, or it is said why it cannot be."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler import UserError
from sil.slurm.clock import library
from sil.slurm.clock.library import built
from tests.sil.slurm.installed import skip_unless_programs_run_in

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="without a C compiler")


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Short sources in a folder of their own, of which nothing is compiled."""
    skip_unless_programs_run_in(tmp_path)
    folder = tmp_path / "clock"
    (folder / "native").mkdir(parents=True)
    (folder / "native" / "layout.h").write_text("#define NUMBER 42\n")
    (folder / "native" / "driver.c").write_text('#include "layout.h"\nint number(void) { return NUMBER; }\n')
    monkeypatch.setattr(library, "SOURCES", folder / "native")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def made() -> Path:
    return built.__wrapped__()


@needs_compiler
def test_it_is_compiled_once_and_again_when_a_source_changes(elsewhere: Path) -> None:
    first = made()
    assert first.parent == elsewhere / "__pycache__"
    at = first.stat().st_mtime_ns
    assert made() == first
    assert first.stat().st_mtime_ns == at
    with (elsewhere / "native" / "driver.c").open("a") as source:
        source.write("/* changed */\n")
    assert made() != first


@needs_compiler
def test_where_the_package_cannot_be_written_the_users_cache_has_it(elsewhere: Path, tmp_path: Path) -> None:
    (elsewhere / "__pycache__").write_text("not a folder")
    assert made().parent == tmp_path / "cache" / "sil"


@needs_compiler
@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files to another user")
def test_a_library_of_another_user_is_not_loaded(elsewhere: Path) -> None:
    os.chown(made(), 65534, -1)
    assert made().parent == elsewhere / "__pycache__"
    assert made().stat().st_uid == 0


@needs_compiler
def test_two_processes_that_use_it_first_at_the_same_time_do_not_disturb_each_other(elsewhere: Path) -> None:
    text = (
        "import ctypes; from pathlib import Path; from sil.slurm.clock import library;"
        f"library.SOURCES = Path({str(elsewhere / 'native')!r}); ctypes.CDLL(str(library.built()))"
    )
    both = [subprocess.Popen([sys.executable, "-c", text]) for _ in range(2)]
    assert [process.wait(30) for process in both] == [0, 0]
    assert len([*(elsewhere / "__pycache__").iterdir()]) == 1


@needs_compiler
def test_a_library_that_cannot_be_loaded_is_not_kept(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(path: str) -> None:
        raise OSError(f"{path}: failed to map segment from shared object")  # as with noexec

    monkeypatch.setattr("ctypes.CDLL", fails)
    with pytest.raises(UserError, match=r"no library can be written to and loaded from .*; set XDG"):
        made()
    assert not [*(elsewhere / "__pycache__").iterdir()]


def test_without_a_compiler_the_remedy_is_said(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(elsewhere))
    with pytest.raises(
        UserError, match=r"there is no C compiler; install one \(apt install gcc libc6-dev\)$"
    ):
        made()


@needs_compiler
def test_a_shipped_library_is_used_without_a_compiler_as_long_as_it_is_of_the_sources(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = elsewhere / library.shipped_name()
    library.compile_to_ship(shipped)
    monkeypatch.setenv("PATH", str(elsewhere))
    assert made() == shipped
    with (elsewhere / "native" / "driver.c").open("a") as source:
        source.write("/* changed */\n")
    with pytest.raises(UserError, match="there is no C compiler"):
        made()


@needs_compiler
def test_a_shipped_library_that_cannot_be_loaded_is_compiled_anew(elsewhere: Path) -> None:
    (elsewhere / library.shipped_name()).write_text("for another computer")
    assert made().parent == elsewhere / "__pycache__"


@needs_compiler
def test_what_the_compiler_says_is_passed_on(elsewhere: Path) -> None:
    (elsewhere / "native" / "layout.h").unlink()
    with pytest.raises(UserError, match=r"cannot compile .*layout\.h.*apt install libc6-dev\)$"):
        made()


def test_another_system_is_named(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.libc_ver", lambda: ("", ""))
    with pytest.raises(UserError, match="with the GNU C library only"):
        made()
