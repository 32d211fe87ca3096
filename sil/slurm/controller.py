"""One unmodified controller in simulated time, with accounting if its configuration needs it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import socket

from sil.slurm.accounting import Accounting, declared, loaded, started_accounting
from sil.slurm.clock.driver import LIMIT_S, Clock
from sil.slurm.clock.library import built
from sil.slurm.clock.waits import waits_of
from sil.slurm.configuration import Configuration
from sil.slurm.credential import Credential, stated
from sil.slurm.daemons import Daemons
from sil.slurm.installation import Installation, installed
from sil.slurm.settings.own import Surroundings, own_settings
from sil.slurm.settings.view import check_addresses, check_view
from sil.slurm.surroundings import calling_user, private_folder, reserved_port

_OF_A_PROCESS = 2
"""Linux's clock of the CPU time of a process has its number and this."""


class Controller(Daemons):
    """A running slurmctld, and slurmdbd with its database if the configuration needs them; see `running`."""

    def __init__(
        self, installation: Installation, folder: Path, clock: Clock, nodes: socket, context: ExitStack
    ) -> None:
        super().__init__(installation, folder, clock, nodes, context)
        self.process_id = 0
        """Of slurmctld."""
        self.reservation, self.port = reserved_port()
        context.enter_context(self.reservation)
        self.munge: Path | None = None
        """The socket of its munge; None if everybody is believed."""

    def cpu_s(self) -> float:
        """Seconds of CPU time that slurmctld has used."""
        return time.clock_gettime(~self.process_id << 3 | _OF_A_PROCESS)


@dataclass(frozen=True)
class How:
    """The real time that a controller has to come to rest after each event, how messages are authenticated,
    and which installation it is: by default, that of this computer."""

    limit_s: float = LIMIT_S
    credential: Credential = stated
    installation: Installation | None = None


USUALLY = How()


@contextmanager
def running(
    configuration: Configuration,
    start_s: float,
    users: Mapping[str, int] | None = None,
    accounting: Accounting | None = None,
    how: How = USUALLY,
) -> Iterator[Controller]:
    """A controller that runs within this context and has come to rest at `start_s` (seconds since the epoch).

    Users of jobs are `users` (name to user id), besides those of this computer. The directory is removed at
    the end, with all processes.
    Raises NoSlurm, InvalidConfiguration, ControllerDied, ControllerHangs, and UserError without the
    clock, if a daemon would touch what belongs to others, or if there is no free port.
    """
    with ExitStack() as context:
        folder = context.enter_context(private_folder())
        nodes, node_port = reserved_port()
        context.enter_context(nodes)
        nodes.listen(4096)
        nodes.setblocking(False)
        clock = context.enter_context(Clock(folder / "clock", start_s, how.limit_s))
        found = Controller(how.installation or installed(), folder, clock, nodes, context)
        clock.classify(waits_of(found.installation.release[:2]))
        found.installation.check_loads(built())
        _write_files(folder, configuration, users or {})
        found.munge = how.credential(found)
        socket_of_munge = None if found.munge is None else str(found.munge)
        plugins = found.installation.plugins
        here = Surroundings(
            str(folder),
            calling_user(),
            found.port,
            node_port,
            munge=socket_of_munge,
            plugins=None if plugins is None else str(plugins),
        )
        if configuration.needs_accounting:
            here = here._replace(accounting_port=started_accounting(found, context, socket_of_munge))
        (folder / "slurm.conf").write_text(configuration.text(here))
        contents = accounting or Accounting()
        if configuration.needs_accounting:
            check_view("slurmdbd", found.slurm("sacctmgr", "show", "config"), str(folder), own_settings(here))
            declared(found, contents, configuration.cluster)
        found.start("slurmctld", found.installation.controller, ["-D", "-c"], found.port)
        check_view("slurmctld", found.slurm("scontrol", "show", "config"), str(folder), own_settings(here))
        check_addresses(found.slurm("sinfo", "--all", "--noheader", "--format=%o"))
        found.process_id = int((folder / "slurmctld.pid").read_text())
        if configuration.needs_accounting:
            loaded(found, contents, configuration.cluster)
        yield found


def _write_files(folder: Path, configuration: Configuration, users: Mapping[str, int]) -> None:
    for name in ("state", "spool"):
        (folder / name).mkdir()
    for name, text in configuration.files.items():
        (folder / name).write_text(text)
    lines = (f"{name}:x:{uid}:{uid}::/:/bin/sh\n" for name, uid in users.items())
    (folder / "users").write_text("".join(lines))
