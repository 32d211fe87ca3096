"""Names of Slurm's controller as a scheduler under test: `slurm`, `slurm: slurm.conf (SETTINGS)`, with the
place of an installation as in `slurm(root=FOLDER)`, or as a further run with other moments of its cycles
(`slurm #2`)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scheduler.registry import SchedulerNotLoaded

if TYPE_CHECKING:
    from sil.slurm.configuration import Configuration
    from sil.slurm.installation import Installation

_INSTALLATION = re.compile(r"slurm(?:\s*\((?P<where>prefix|root)=(?P<folder>[^()#,]*[^()#,\s])\))?")
_NAME = re.compile(
    rf"{_INSTALLATION.pattern}(?:\s*:\s*(?P<path>[^()#]*[^()#\s]))?"
    r"\s*(?:\((?P<settings>.*)\))?\s*(?:#(?P<number>\d{1,3}))?\s*",
    re.DOTALL,
)

ASSOCIATIONS, QOS = "sacctmgr.cfg", "qos.txt"
"""Files in the folder of slurm.conf with what Slurm's database has."""


@dataclass(frozen=True)
class SlurmController:
    """The controller with the `slurm.conf` at `path`, or one made for the nodes, and with other settings.

    It is that of this computer, or below a prefix or a root (`sil.slurm.installation.SlurmFolders`)."""

    path: Path | None = None
    settings: str = ""
    prefix: Path | None = None
    root: Path | None = None
    number: int = 1

    @property
    def installation(self) -> Installation:
        """The installation that is meant. Raises NoSlurm."""
        from sil.slurm.installation import SlurmFolders, installed  # not loaded for other schedulers

        return installed(SlurmFolders(self.prefix, self.root))

    def in_place_of(self, name: str, written: str) -> str:
        """The name of the scheduler as it is written, with another for the installation."""
        return _INSTALLATION.sub(lambda _: name, written, count=1)

    def described(self) -> list[str]:
        """Sentences: what proves that it is unmodified, and each part of its configuration that is replaced.
        Raises NoSlurm, and InvalidFile."""
        from sil.slurm.accounting import Accounting
        from sil.slurm.running import credential_used

        program, configuration = self.installation, self._configuration
        release, package = program.release, program.package or "of no package"
        found = [
            f"{program.controller} {release.name} ({package}), unmodified: SHA-256 {program.sha256}",
            *((release.not_tested,) if release.not_tested else ()),
        ]
        found += [credential_used(program), *configuration.summary, *map(str, configuration.replaced)]
        if self.path is None and self.settings:
            found.append(f"Settings: {self.settings}")
        if configuration.needs_accounting:
            found.append(
                f"Associations are those of {self.associations}"
                if self.associations
                else f"Users are in the accounts of the log, with equal shares: no {ASSOCIATIONS} is beside "
                "slurm.conf"
            )
            defined = Accounting(self.associations, self.qos).definitions()
            where = (
                (self.qos or self.associations)
                if defined
                else f"{self.associations or 'the log'}, without priorities and limits: no {QOS} is there"
            )
            found.append(f"Qualities of service are those of {where}")
        return found

    def notes(self) -> tuple[str, ...]:
        """Sentences on a release that was not tested, which is tried first, and on what of slurm.conf is not
        passed on. Raises NoSlurm, and InvalidFile."""
        from sil.slurm.running import self_test

        not_tested = self.installation.release.not_tested
        found = () if not_tested is None else (not_tested, *self_test(self.installation))
        return found if self.path is None else (*found, *self._configuration.summary)

    @property
    def _configuration(self) -> Configuration:
        """The configuration for nodes of any number, if no file has them."""
        from sil.slurm.configuration import configuration_of, read_configuration

        release = self.installation.release
        own = configuration_of(1) if self.path is None else read_configuration(self.path, release)
        return own.with_settings(self.settings, release)

    @property
    def files(self) -> list[Path]:
        """The program and its configuration. Raises NoSlurm."""
        beside = [self.associations, self.qos]
        return [self.installation.controller, *(path for path in (self.path, *beside) if path is not None)]

    @property
    def associations(self) -> Path | None:
        """The file beside `slurm.conf` that `sacctmgr dump` wrote, if there is one."""
        return self._beside(ASSOCIATIONS)

    @property
    def qos(self) -> Path | None:
        """The file beside `slurm.conf` with what `sacctmgr --parsable2 show qos` prints, if there is one."""
        return self._beside(QOS)

    def _beside(self, name: str) -> Path | None:
        path = None if self.path is None else self.path.parent / name
        return path if path is not None and path.is_file() else None


def slurm_controller(name: str) -> SlurmController | None:
    """The controller that `name` denotes; None if `name` does not denote one. Raises SchedulerNotLoaded if
    the name is malformed, or its file is missing."""
    if not re.match(r"slurm\s*($|[:(#])", name):
        return None
    found = _NAME.fullmatch(name)
    settings = "" if found is None else (found["settings"] or "").strip()
    if found is None or re.match(r"(prefix|root)\s*=", settings):
        raise SchedulerNotLoaded(
            f"scheduler '{name}': expected 'slurm', 'slurm: slurm.conf', or either with settings, like "
            f"'slurm (SchedulerParameters=bf_window=2880)'; and for another installation "
            f"'slurm(prefix=FOLDER)' or 'slurm(root=FOLDER)'"
        )
    path = None if found["path"] is None else Path(found["path"])
    if path is not None and not path.is_file():
        raise SchedulerNotLoaded(f"scheduler '{name}': there is no file {path}")
    folder = Path((found["folder"] or "").strip("'\"")).absolute()
    where = {found["where"]: folder} if found["where"] else {}
    if where and not folder.is_dir():
        raise SchedulerNotLoaded(f"scheduler '{name}': there is no folder {folder} ({found['where']})")
    return SlurmController(path, settings, **where, number=max(1, int(found["number"] or 1)))
