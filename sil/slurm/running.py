"""Start an unmodified controller in simulated time, with accounting if its configuration needs it.

Daemons, commands and nodes prove to each other who they are by munge, with a key of their own, or not at
all. Without munge, every user of this computer can send messages to the controller in any name while it runs.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from scheduler.node_request import Node
from sil.slurm.accounting import Accounting, declared, loaded, started_accounting
from sil.slurm.clock.driver import LIMIT_S
from sil.slurm.configuration import Configuration, configuration_of
from sil.slurm.controller import Controller
from sil.slurm.daemons import Daemons
from sil.slurm.installation import Installation, NoSlurm, calling_user, installed
from sil.slurm.protocol.records import BatchJobLaunch, Submitted, script_completed
from sil.slurm.protocol.releases import ProtocolError
from sil.slurm.protocol.submission import Submission
from sil.slurm.settings.selection import Surroundings, check_addresses, check_view, own_settings
from sil.world.guard.faults import SchedulerFault, one_line

EPOCH_S = 1_577_836_800.0
"""Second 0 of the world: 2020-01-01, a Wednesday, in UTC."""
REMEDY = "apt install munge"
_PLUGIN = "auth_munge.so"
_PART_S = 60.0
"""The simulated time, in seconds, in which, in a test, nodes register, a job starts, and its end has been
followed."""
_TEST_RESTS_WITHIN_S = 30.0
"""The real time after each event in a test, in seconds."""


def munge(daemons: Daemons) -> Path | None:
    """Start munge's daemon, which works in real time. Returns its socket, or None if it is not installed.
    Raises as `Daemons.helper`."""
    try:
        command = munge_command(daemons.folder, daemons.installation)
    except NoSlurm:
        return None
    daemons.clock.watch(daemons.helper("munge", command))
    return daemons.folder / "munge.socket"


def munge_command(folder: Path, installation: Installation) -> list[str]:
    """The command of munge's daemon with a new key; all its files are in `folder`. Raises NoSlurm."""
    program = munged(installation)
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    files = ("key-file", "socket", "pid-file", "seed-file", "log-file")
    options = [f"--{what}={folder / 'munge'}.{what.removesuffix('-file')}" for what in files]
    # It is used to sockets that all can reach, which this one is not.
    return [str(program), "--foreground", "--force", "--num-threads=1", *options]


def munged(installation: Installation) -> Path:
    """The path of munge's daemon. Raises NoSlurm if it is not installed, or Slurm was built without munge."""
    plugins = installation.plugins
    if plugins is not None and not (plugins / _PLUGIN).is_file():
        raise NoSlurm(
            f"there is no {_PLUGIN} in {plugins}; build Slurm with munge (apt install libmunge-dev)"
        )
    return installation.helper("munged", REMEDY)


def credential_used(installation: Installation) -> str:
    """A sentence on what `munge` finds."""
    try:
        program = munged(installation)
    except NoSlurm as error:
        return (
            f"Messages are not authenticated (auth/none), so that users of this computer can send messages "
            f"to the controller while it runs: {error}"
        )
    return f"Messages are authenticated by munge ({program}) with a key of each run"


@dataclass(frozen=True)
class How:
    """The real time that a controller has to come to rest after each event, whether messages are
    authenticated by munge if that is installed (else, each sender is believed), and which installation it is:
    by default, that of this computer."""

    limit_s: float = LIMIT_S
    by_munge: bool = False
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
        found = Controller(how.installation or installed(), start_s, how.limit_s, context)
        folder = found.folder
        for name in ("state", "spool"):
            (folder / name).mkdir()
        lines = (f"{name}:x:{uid}:{uid}::/:/bin/sh\n" for name, uid in (users or {}).items())
        for name, text in {**configuration.files, "users": "".join(lines)}.items():
            (folder / name).write_text(text)
        found.munge = munge(found) if how.by_munge else None
        port = started_accounting(found, found.munge) if configuration.needs_accounting else None
        where = (str(folder), calling_user(), found.port, found.node_port, port)
        here = Surroundings(*where, found.munge, found.installation.plugins)
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


def self_test(installation: Installation) -> Iterator[str]:
    """What does not go as in the releases that were tested, in sentences: a job runs on a node, in three
    simulated minutes."""
    slurm = f"Slurm {installation.release.name}"
    try:
        yield from (f"{slurm} {fault}" for fault in _of_a_job(installation))
    except (SchedulerFault, ProtocolError, OSError) as error:
        yield f"{slurm} cannot be driven as far as a first job: {one_line(str(error))}"


def _of_a_job(installation: Installation) -> Iterator[str]:
    how = How(_TEST_RESTS_WITHIN_S, installation=installation)
    with running(configuration_of(1), EPOCH_S, how=how) as controller:
        controller.begin({"n1": Node(memory_mib=1000)}, EPOCH_S + _PART_S)
        user, group = os.getuid(), os.getgid()
        answer = controller.submit([Submission(user=user, group=group, min_nodes=1, time_limit_min=10)])
        controller.serve_until(EPOCH_S + 2 * _PART_S)
        launched = [order for order in controller.orders if isinstance(order, BatchJobLaunch)]
        for launch in launched:
            controller.ask(script_completed(launch.job, user))
        controller.serve_until(EPOCH_S + 3 * _PART_S)
        unknown = controller.clock.unknown_waits
    if not isinstance(answer, Submitted) or [launch.job for launch in launched] != [answer.job]:
        yield f"does not start a first job: it answers {answer}"
    if unknown:
        waits = ", ".join(map(str, unknown))
        yield f"waits in ways that are not known, so that a run may take much longer: {waits}"
