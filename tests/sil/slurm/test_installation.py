"""Which Slurm is on this computer, or what is to be installed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from sil.slurm import installation
from sil.slurm.installation import NoSlurm, installed
from tests.sil.slurm.installed import needs_slurm, skip_unless_programs_run_in


@pytest.fixture
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A computer whose only programs are in this folder."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(installation, "_FOLDERS", ())
    return tmp_path


def slurmctld_that_says(text: str, folder: Path) -> None:
    skip_unless_programs_run_in(folder)
    program = folder / "slurmctld"
    program.write_text(f"#!/bin/sh\necho {text}\n")
    program.chmod(0o755)


@needs_slurm
def test_the_controller_is_identified() -> None:
    found = installed()
    assert found.controller.name in ("slurmctld", "slurmctld-wlm")
    assert found.release.startswith("22.05.")
    assert found.sha256 == hashlib.sha256(found.controller.read_bytes()).hexdigest()
    assert found.package is None or found.release in found.package
    assert found.program("scontrol").is_file()


def test_what_is_missing_is_named_with_the_command_that_installs_it(nothing: Path) -> None:
    remedy = r"\(apt install slurmctld slurm-wlm-basic-plugins slurm-client\)$"
    with pytest.raises(NoSlurm, match=f"^slurmctld is not installed, or not in PATH; install it {remedy}"):
        installed.__wrapped__()


def test_a_release_that_is_not_supported_is_rejected(nothing: Path) -> None:
    slurmctld_that_says("slurm 17.11.2", nothing)
    with pytest.raises(NoSlurm, match=r"is of release 17\.11\.2, which is not supported; install 22\.05"):
        installed.__wrapped__()


def test_a_program_that_says_no_release_is_rejected(nothing: Path) -> None:
    slurmctld_that_says("hello", nothing)
    with pytest.raises(NoSlurm, match="says 'hello' instead of its release"):
        installed.__wrapped__()
