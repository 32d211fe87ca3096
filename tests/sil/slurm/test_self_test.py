"""A release that was not tested is tried with a job, before it decides on thousands."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from sil.cli.app import app
from sil.slurm import daemons
from sil.slurm.clock.driver import waits_of
from sil.slurm.installation import installed
from sil.slurm.naming import SlurmController
from sil.slurm.protocol import releases
from tests.sil.slurm.installed import needs_slurm

pytestmark = needs_slurm


@pytest.fixture(autouse=True)
def untested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "TESTED", ("22.05.9",))


def test_of_one_that_waits_as_the_others_nothing_more_is_said() -> None:
    assert SlurmController().notes() == (installed().release.not_tested,)


def test_a_check_of_a_configuration_says_that_its_controller_was_not_tested(tmp_path: Path) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text("NodeName=n[1-3] CPUs=4\nPartitionName=p Nodes=ALL\n")
    said = " ".join(CliRunner().invoke(app, ["slurm", "check", str(path)]).output.split())
    name = installed().release.name
    assert f"The controller of Slurm {name} starts with " in said
    assert f"Slurm {name} was not tested with this testbed, only 22.05.9" in said


def test_waits_that_are_not_known_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [wait for wait in waits_of(installed().release[:2]) if wait.thread != "bckfl"]
    monkeypatch.setattr(daemons, "waits_of", lambda release: known)
    _, found = SlurmController().notes()
    assert "waits in ways that are not known, so that a run may take much longer: thread bckfl in" in found


def test_one_that_speaks_otherwise_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a release of which the layout of a message has changed, not a traceback."""
    monkeypatch.setattr("sil.slurm.protocol.envelope.LONGEST", 300)
    _, found = SlurmController().notes()
    assert "cannot be driven as far as a first job: " in found
    assert "bytes; at most 300 can be sent" in found
