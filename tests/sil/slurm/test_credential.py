"""With munge, the controller believes only who has the key of the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from sil.slurm.configuration import configuration_of
from sil.slurm.daemons import CommandFailed
from sil.slurm.installation import Installation, NoSlurm, installed
from sil.slurm.running import How, munged, running
from tests.sil.slurm.installed import needs_munge, needs_slurm
from tests.sil.slurm.test_controller import advance, processes_in

START_S = 1_600_000_000.0
pytestmark = [needs_slurm, needs_munge]


def test_who_has_no_credential_is_refused(tmp_path: Path) -> None:
    with running(configuration_of(2), START_S, how=How(by_munge=True)) as controller:
        assert controller.munge == controller.folder / "munge.socket"
        advance(controller, 30)
        assert controller.slurm("sinfo", "--noheader", "--format=%D") == "2\n"
        conf = (controller.folder / "slurm.conf").read_text()
        (tmp_path / "slurm.conf").write_text(
            "".join(line for line in conf.splitlines(True) if not line.startswith(("Auth", "Cred")))
            + "AuthType=auth/none\nCredType=cred/none\n"
        )
        sinfo = controller.installation.program("sinfo")
        with pytest.raises(CommandFailed, match=r"^sinfo: .*(Zero Bytes|authentication)"):
            controller.command(sinfo, variables={"SLURM_CONF": str(tmp_path / "slurm.conf")})
    assert not processes_in(controller.folder)


def test_without_munge_it_is_named_or_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(installation: Installation, name: str, remedy: str) -> Path:
        raise NoSlurm(f"{name} is not installed, or not in PATH; install it ({remedy})")

    monkeypatch.setattr(Installation, "helper", missing)
    with running(configuration_of(2), START_S, how=How(by_munge=True)) as controller:
        assert controller.munge is None
        assert "auth/none" in controller.slurm("scontrol", "show", "config")
    with pytest.raises(NoSlurm, match=r"^munged is not installed.*\(apt install munge\)$"):
        munged(installed())
