"""Names of Slurm's controller as a scheduler under test: `slurm`, `slurm: slurm.conf`, and either with
settings that take the place of others, as in `slurm: slurm.conf (SchedulerParameters=bf_window=2880)`.

With a number, as in `slurm #2`, it is the same again: two runs of one log are not equal to the byte.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scheduler.registry import SchedulerNotLoaded

if TYPE_CHECKING:
    from sil.slurm.configuration import Configuration

_NAME = re.compile(
    r"slurm(?::\s*(?P<path>[^()#]*[^()#\s]))?\s*(?:\((?P<settings>.*)\))?\s*(?:#\d+)?\s*", re.DOTALL
)

ASSOCIATIONS, QOS = "sacctmgr.cfg", "qos.txt"
"""Files beside slurm.conf with what Slurm's database has."""


@dataclass(frozen=True)
class SlurmController:
    """The controller with the `slurm.conf` at `path`, or one made for the nodes, and with other settings."""

    path: Path | None = None
    settings: str = ""

    def described(self) -> list[str]:
        """Sentences: what proves that it is unmodified, and each part of its configuration that is replaced.
        Raises NoSlurm, and InvalidFile."""
        from sil.slurm.credential import credential_used
        from sil.slurm.installation import installed

        program, configuration = installed(), self._configuration
        package = program.package or "of no package"
        found = [f"{program.controller} {program.release} ({package}), unmodified: SHA-256 {program.sha256}"]
        found += [credential_used(), *configuration.summary, *map(str, configuration.replaced)]
        if self.path is None and self.settings:
            found.append(f"Settings: {self.settings}")
        if configuration.needs_accounting:
            found.append(
                f"Associations are those of {self.associations}"
                if self.associations
                else f"Users are in the accounts of the log, with equal shares: no {ASSOCIATIONS} is beside "
                "slurm.conf"
            )
            where = (
                self.qos
                or f"{self.associations or 'the log'}, without priorities and limits: no {QOS} is there"
            )
            found.append(f"Qualities of service are those of {where}")
        return found

    def notes(self) -> tuple[str, ...]:
        """Sentences on what of its slurm.conf is not passed on. Raises NoSlurm, and InvalidFile."""
        return () if self.path is None else self._configuration.summary

    @property
    def _configuration(self) -> Configuration:
        """For nodes of any number, if no file has them."""
        from sil.slurm.configuration import configuration_of, read_configuration
        from sil.slurm.installation import installed

        own = configuration_of(1) if self.path is None else read_configuration(self.path, installed().release)
        return own.with_settings(self.settings)

    @property
    def files(self) -> list[Path]:
        """The program and its configuration. Raises NoSlurm."""
        from sil.slurm.installation import installed  # not loaded for other schedulers

        beside = [self.associations, self.qos]
        return [installed().controller, *(path for path in (self.path, *beside) if path is not None)]

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
    if found is None:
        raise SchedulerNotLoaded(
            f"scheduler '{name}': expected 'slurm', 'slurm: slurm.conf', or either with settings, like "
            f"'slurm (SchedulerParameters=bf_window=2880)'"
        )
    path = None if found["path"] is None else Path(found["path"])
    if path is not None and not path.is_file():
        raise SchedulerNotLoaded(f"scheduler '{name}': there is no file {path}")
    return SlurmController(path, (found["settings"] or "").strip())
