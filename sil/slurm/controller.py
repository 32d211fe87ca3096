"""One unmodified controller in simulated time, with accounting if its configuration needs it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from socket import socket

from sil.slurm.accounting import Accounting, declared, loaded, started_accounting
from sil.slurm.clock.driver import LIMIT_S, Clock
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

    def __init__(self, folder: Path, clock: Clock, nodes: socket, context: ExitStack) -> None:
        super().__init__(folder, clock, nodes, context)
        self.installation: Installation = installed()
        self.process_id = 0
        """Of slurmctld."""
        self.reservation, self.port = reserved_port()
        context.enter_context(self.reservation)
        self.munge: Path | None = None
        """The socket of its munge; None if everybody is believed."""

    def cpu_s(self) -> float:
        """Seconds of CPU time that slurmctld has used."""
        return time.clock_gettime(~self.process_id << 3 | _OF_A_PROCESS)

    def slurm(self, name: str, *words: str) -> str:
        """What a command of Slurm prints, like `slurm("scontrol", "show", "config")`, at the controller's
        time. Raises CommandFailed, and as `advance`."""
        return self.command(self.installation.program(name), *words)


@contextmanager
def running(
    configuration: Configuration,
    start_s: float,
    users: Mapping[str, int] | None = None,
    accounting: Accounting | None = None,
    limit_s: float = LIMIT_S,
    credential: Credential = stated,
) -> Iterator[Controller]:
    """A controller that runs within this context and has come to rest at `start_s` (seconds since the epoch).

    Users of jobs are `users` (name to user id), besides those of this computer. The directory is removed at
    the end, with all processes. The controller has `limit_s` of real time to come to rest after each event.
    `credential` says how messages are authenticated.
    Raises NoSlurm, NoClock, InvalidConfiguration, NotIsolated, ControllerDied, ControllerHangs, and UserError
    if there is no free port.
    """
    with ExitStack() as context:
        folder = context.enter_context(private_folder())
        nodes, node_port = reserved_port()
        context.enter_context(nodes)
        nodes.listen(4096)
        nodes.setblocking(False)
        clock = context.enter_context(Clock(folder / "clock", start_s, limit_s))
        found = Controller(folder, clock, nodes, context)
        _write_files(folder, configuration, users or {})
        found.munge = credential(found)
        socket_of_munge = None if found.munge is None else str(found.munge)
        here = Surroundings(str(folder), calling_user(), found.port, node_port, munge=socket_of_munge)
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
