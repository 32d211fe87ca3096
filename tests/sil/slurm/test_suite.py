"""Slurm of another suite of the distribution, unpacked without touching the system."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from scheduler import UserError
from sil.slurm import suite
from sil.slurm.installation import NoSlurm
from sil.slurm.suite import unpack
from tests.sil.slurm.test_installation import program_that_says, small_root

LINE = "deb [arch=amd64 signed-by=/k.gpg] http://mirror/debian {} main contrib"
STANZA = "Types: deb\nURIs: http://mirror/debian\nSuites: {}\nComponents: main\nSigned-By: /k.gpg\n"
APT = r"""#!/bin/sh
conf=$2
sources=$(sed -n 's/^Dir::Etc::SourceList "\(.*\)";/\1/p' "$conf")
grep -q {suite} "$sources" || {{ echo "E: The repository does not have a Release file." >&2; exit 100; }}
archives=$(sed -n 's/^Dir::Cache::Archives "\(.*\)";/\1/p' "$conf")
case " $* " in *" install "*) cp {packages} "$archives" ;; esac
"""


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of apt's sources of a computer with bookworm."""
    folder = tmp_path / "apt"
    (folder / "sources.list.d").mkdir(parents=True)
    (tmp_path / "os-release").write_text("ID=debian\nVERSION_CODENAME=bookworm\n")
    monkeypatch.setattr(suite, "_SOURCES", folder)
    monkeypatch.setattr(suite, "_RELEASE", tmp_path / "os-release")
    return folder


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "sources.list",
            "deb http://other bookworm stable\ndeb http://mirror bookworm main\n"
            "deb http://mirror bookworm universe\ndeb http://mirror bookworm-updates main\n"
            "deb http://third bookworm main\n",
            "deb http://mirror sid main\n\ndeb http://mirror sid universe",
        ),
        ("sources.list", f"# ours\n{LINE.format('bookworm')}\n", LINE.format("sid")),
        (
            "sources.list.d/debian.sources",
            f"{STANZA.format('bookworm-security')}\n{STANZA.format('bookworm bookworm-updates')}",
            STANZA.format("sid").strip(),
        ),
        (
            "sources.list.d/other.list",
            f"deb http://x stable main\n{LINE.format('bookworm')}",
            LINE.format("sid"),
        ),
    ],
)
def test_the_suite_takes_the_place_of_this_computers_own(
    name: str, text: str, expected: str, sources: Path
) -> None:
    (sources / name).write_text(text)
    extension, found = suite._source("sid")
    assert (extension, found.strip()) == (Path(name).suffix, expected)


def test_what_is_missing_is_said_in_a_sentence(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=r"there is no source of this computer's own suite \(bookworm\)"):
        suite._source("sid")
    with pytest.raises(
        UserError, match=rf"{sources} is there and not empty; remove it, or name another folder"
    ):
        unpack("sid", sources)
    with pytest.raises(UserError, match=r"'\.\./sid' is no name of a suite"):
        unpack("../sid", tmp_path / "root")
    with pytest.raises(UserError, match=r"/dev/null/root cannot be made: File exists; name another folder"):
        unpack("sid", Path("/dev/null/root"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"^apt-get is not on this computer; .*prefix=FOLDER"):
        unpack("sid", tmp_path / "root")


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="without dpkg-deb")
def test_a_suite_is_unpacked_or_nothing_is_left(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = small_root(tmp_path / "package", "22.05.44")
    (package / "lib64").mkdir()
    (package / "lib64/of-another-folder").touch()
    (package / "DEBIAN").mkdir()
    (package / "DEBIAN/control").write_text(
        "Package: slurmctld\nVersion: 22.05.44-1\nArchitecture: all\nMaintainer: me <me@localhost>\n"
        "Description: x\n"
    )
    subprocess.run(
        ["dpkg-deb", "-Znone", "-b", package, tmp_path / "it.deb"], check=True, capture_output=True
    )
    program_that_says("", tmp_path / "bin/apt-get")
    (tmp_path / "bin/apt-get").write_text(APT.format(suite="sid", packages=tmp_path / "it.deb"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin")
    (sources / "sources.list").write_text(LINE.format("bookworm"))
    with pytest.raises(
        UserError, match=r"no suite buster at this .* not reached: apt-get says 'The repository does"
    ):
        unpack("buster", tmp_path / "room/suite")
    assert not [*(tmp_path / "room").iterdir()]
    try:
        found = unpack("sid", tmp_path / "room/suite")
    except NoSlurm as error:
        pytest.skip(f"without mount namespaces: {error}")
    assert found.package == "slurmctld 22.05.44-1"
    assert [path.name for path in (tmp_path / "room").iterdir()] == ["suite"]
    assert (tmp_path / "room" / "suite" / "usr/lib64/of-another-folder").exists()
