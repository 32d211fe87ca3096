"""Which Slurm is on this computer, below a prefix or within another root, or what is to be installed."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from scheduler.registry import SchedulerNotLoaded
from sil.runs.under_test import schedulers_for_logs, with_releases
from sil.slurm import installation
from sil.slurm.entering import FAILED
from sil.slurm.installation import VARIABLE, NoSlurm, SlurmFolders, installed
from sil.slurm.naming import slurm_controller
from sil.slurm.running import credential_used
from tests.sil.slurm.installed import needs_slurm, skip_unless_programs_run_in


@pytest.fixture
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A computer whose only programs are in this folder."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(installation, "_FOLDERS", ())
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path


def program_that_says(text: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    skip_unless_programs_run_in(path.parent)
    path.write_text(f"#!/bin/sh\necho {text}\n")
    path.chmod(0o755)


def small_root(folder: Path, release: str) -> Path:
    """A root with nothing but a shell and a controller that says its release."""
    shell = shutil.which("sh") or "/bin/sh"
    listed = subprocess.run(["ldd", shell], capture_output=True, text=True, check=True).stdout
    for file in (shell, *re.findall(r"(/\S+) \(0x", listed)):
        copy = folder / "usr" / Path(file).relative_to("/usr" if file.startswith("/usr/") else "/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.realpath(file), copy)
    program_that_says(f"slurm {release}", folder / "usr/sbin/slurmctld")
    return folder


@needs_slurm
def test_the_controller_is_identified() -> None:
    found = installed()
    assert found.controller.name in ("slurmctld", "slurmctld-wlm")
    assert found.release.is_since("22.05")
    assert found.sha256 == hashlib.sha256(found.controller.read_bytes()).hexdigest()
    assert found.package is None or found.release.name in found.package
    assert found.program("scontrol").is_file()


def test_what_is_missing_is_named_with_the_command_that_installs_it(nothing: Path) -> None:
    remedy = r"\(apt install slurmctld slurm-wlm-basic-plugins slurm-client\)$"
    with pytest.raises(NoSlurm, match=f"^slurmctld is not installed, or not in PATH; install it {remedy}"):
        installed.__wrapped__()


@pytest.mark.parametrize(
    ("says", "sentence"),
    [
        ("slurm 17.11.2", r"slurmctld: Slurm 17\.11 is not supported"),
        ("hello", "says 'hello' instead of its"),
    ],
)
def test_a_program_of_no_known_release_is_rejected(says: str, sentence: str, nothing: Path) -> None:
    program_that_says(says, nothing / "slurmctld")
    with pytest.raises(NoSlurm, match=sentence):
        installed.__wrapped__()


def test_the_first_in_path_is_taken_and_of_one_folder_not_debians_alternative(
    nothing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("package/slurmctld", "package/slurmctld-wlm", "own/sbin/slurmctld", "own/bin/sinfo"):
        program_that_says("slurm 22.05.8", nothing / name)
    for first, controller in (("package", "package/slurmctld-wlm"), ("own/sbin", "own/sbin/slurmctld")):
        monkeypatch.setenv("PATH", f"{nothing / first}:{nothing / 'own/sbin'}:{nothing / 'package'}")
        found = installed.__wrapped__()
        assert found.controller == nothing / controller
    assert found.program("sinfo") == nothing / "own/bin/sinfo"


@pytest.mark.parametrize("lib", ["lib", "lib64", "lib/x86_64-linux-gnu"])
def test_all_programs_of_slurm_are_those_of_the_prefix(lib: str, nothing: Path) -> None:
    prefix = nothing / "opt"
    for name in ("opt/sbin/slurmctld", "opt/bin/sinfo", "munged", "scontrol"):
        program_that_says("slurm 22.05.9", nothing / name)
    library = prefix / lib / "slurm" / "libslurmfull.so"
    library.parent.mkdir(parents=True)
    library.touch()
    found = installed(SlurmFolders(prefix=prefix))
    assert (found.release.name, found.plugins) == ("22.05.9", library.parent)
    assert found.program("sinfo") == prefix / "bin/sinfo"
    assert found.invoked(["sinfo"])[1]["LD_LIBRARY_PATH"].split(":")[0] == str(library.parent)
    assert found.helper("munged", "apt install munge") == nothing / "munged"
    assert "auth/none" in credential_used(found)
    (library.parent / "auth_munge.so").touch()
    assert f"by munge ({nothing / 'munged'})" in credential_used(found)
    with pytest.raises(
        NoSlurm, match=rf"scontrol is not installed, or not in \S*opt/sbin and .*prefix={prefix}"
    ):
        found.program("scontrol")


def test_a_root_has_its_own_programs_and_this_computers_user_and_folders(tmp_path: Path) -> None:
    place = SlurmFolders(root=small_root(tmp_path / "root", "22.05.77"))
    try:
        found = installed(place)
    except NoSlurm as error:
        if FAILED in str(error):
            pytest.skip(f"without mount namespaces: {error}")
        raise
    assert found.release.name == "22.05.77"
    script = "echo $HELLO >$0; [ -e /usr/bin/env ] || echo nothing else >>$0"
    words, variables = found.invoked(["/usr/bin/sh", "-c", script, tmp_path / "said"], {"HELLO": "a b=c"})
    subprocess.run(words, env=variables, check=True)
    assert (tmp_path / "said").read_text() == "a b=c\nnothing else\n"
    assert (tmp_path / "said").stat().st_uid == os.getuid()
    with pytest.raises(NoSlurm, match=r"cannot load /usr/lib/clock\.so: .*; install the testbed outside"):
        found.check_loads(Path("/usr/lib/clock.so"))
    with pytest.raises(
        NoSlurm, match=rf"scontrol is not installed, .*\(sil slurm install SUITE {place.root}\)"
    ):
        found.program("scontrol")


def test_controllers_are_called_by_their_releases_if_these_differ(tmp_path: Path) -> None:
    for folder, release in (("old", "22.05.9"), ("new", "26.05.7"), ("other", "26.05.7")):
        program_that_says(f"slurm {release}", tmp_path / folder / "sbin/slurmctld")
    (tmp_path / "slurm.conf").touch()
    conf, settings = f": {tmp_path / 'slurm.conf'}", "(PriorityType=priority/basic) #2"
    old, new, other = (f"slurm(prefix={tmp_path / folder})" for folder in ("old", "new", "other"))
    for names, labels in (
        ([f"{old}{conf}", "easy"], [f"{old}{conf}", "easy"]),
        (
            [f"{old}{conf}", f"{new}{conf} {settings}", new],
            [f"Slurm 22.05.9{conf}", f"Slurm 26.05.7{conf} {settings}", "Slurm 26.05.7"],
        ),
        ([old, new, other], ["Slurm 22.05.9", new, other]),
    ):
        assert [each.label for each in with_releases(schedulers_for_logs(names))] == labels


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("slurm(prefix='/no/such/folder'): slurm.conf", "there is no file slurm.conf"),
        ("slurm(prefix='/no/such/folder')", r"there is no folder /no/such/folder \(prefix\)"),
        ("slurm(prefix=/tmp, root=/tmp)", "expected 'slurm', .*'slurm\\(prefix=FOLDER\\)' or"),
    ],
)
def test_a_name_that_leads_to_no_installation_is_rejected(name: str, sentence: str) -> None:
    with pytest.raises(SchedulerNotLoaded, match=sentence):
        slurm_controller(name)
