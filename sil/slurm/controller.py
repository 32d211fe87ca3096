"""One unmodified controller in simulated time: its directory, its ports, its process, and its end."""

from __future__ import annotations

import getpass
import os
import pwd
import re
import select
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType

from scheduler import UserError
from scheduler.rules import RETURNS_IN_TIME
from sil.isolation.process import OwnProcess, execute, own_process
from sil.slurm.clock.driver import LIMIT_S, Clock, Outcome
from sil.slurm.configuration import Configuration
from sil.slurm.installation import Installation, installed
from sil.slurm.settings import Surroundings
from sil.world.guard.faults import PROCESS_SURVIVES, SchedulerFault, one_line

STARTS_WITHIN_S = 60.0
"""Real time for a daemon to begin and to listen."""
_REMOVE = 'cat >/dev/null; for n in 1 2 3 4 5 6 7 8 9; do rm -rf "$0"; [ -e "$0" ] || exit; sleep 0.2; done'
"""A script that removes a directory when its input ends; daemons may write until they are ended, too."""
_OF_ANY_START = re.compile("pmix")
"""Complaints that do not concern the configuration: some plug-ins of Debian lack their libraries."""
LAST_LINES = 5
"""Lines of the log in a message."""


class ControllerDied(SchedulerFault):
    """A daemon of the controller has ended."""


class ControllerHangs(SchedulerFault):
    """The controller computes without end, or waits for what never comes."""


class InvalidConfiguration(UserError):
    """What slurmctld says about the configuration with which it does not start."""


class CommandFailed(UserError):
    """What a command of Slurm says that could not be carried out."""


class Controller:
    """A context manager: on entry the controller runs, at `start_s` (seconds since the epoch), and has come
    to rest.

    `clock` drives it. Connections to its nodes arrive at `nodes`, a listening socket, which `serve` has to
    accept and answer, one at each call. Users of jobs are `users` (name to user id), besides those of this
    computer. The directory `folder` is removed at the end, with all processes.
    """

    def __init__(
        self,
        configuration: Configuration,
        start_s: float,
        users: Mapping[str, int] | None = None,
        limit_s: float = LIMIT_S,
    ) -> None:
        self.installation: Installation = installed()
        self.configuration = configuration
        self.serve: Callable[[], None] = self._refuse
        self._start_s, self._limit_s = start_s, limit_s
        self._users = users or {}
        self._open = ExitStack()

    def __enter__(self) -> Controller:
        with self._open:
            self.folder = self._open.enter_context(private_folder())
            self.nodes, self.node_port = self._listening()
            self._reserved, self.port = reserved_port()
            self._open.callback(self._reserved.close)
            self.clock = self._open.enter_context(Clock(self.folder / "clock", self._start_s, self._limit_s))
            self.clock.wake_on([self.nodes.fileno()])
            self._write_files()
            self._process = self._start("slurmctld", self.installation.controller, ["-D", "-c"], self.port)
            self._open = self._open.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._open.close()

    def advance(self, to_s: float) -> bool:
        """Let time pass until `to_s`. Returns False if it has ended early, since a connection waits at
        `nodes`. Raises ControllerDied and ControllerHangs."""
        return self._reached(self.clock.advance(to_s))

    def jump(self, to_s: float) -> bool:
        """As `advance`, with `Clock.jump`."""
        return self._reached(self.clock.jump(to_s))

    def settle(self) -> None:
        """Let the controller come to rest at the present time, and serve its connections. Raises as
        `advance`."""
        while not self.advance(self.clock.now_s):
            self.serve()

    def wait_for(self, handle: int) -> None:
        """Let the controller work, and serve its connections, until a handle of a connection to it is
        readable. Raises as `advance`."""
        while not _is_readable(handle):
            self._reached(self.clock.until_readable(handle))
            if _is_readable(self.nodes.fileno()):
                self.serve()

    def command(self, name: str, *words: str) -> str:
        """What a command of Slurm prints, like `command("scontrol", "show", "config")`, at the
        controller's time. Raises CommandFailed, and as `advance`."""
        environment = {**os.environ, **self.environment()}
        with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as errors:
            with subprocess.Popen(
                [str(self.installation.program(name)), *words],
                env=environment, stdin=subprocess.DEVNULL, stdout=printed, stderr=errors, text=True,
            ) as process:  # fmt: skip
                try:
                    while process.poll() is None:
                        self._reached(self.clock.finish(process))
                        if _is_readable(self.nodes.fileno()):
                            self.serve()
                except BaseException:
                    process.kill()
                    raise
            printed.seek(0)
            errors.seek(0)
            if process.returncode:
                said = one_line(errors.read()) or f"exit code {process.returncode}"
                raise CommandFailed(f"{' '.join((name, *words))}: {said}")
            return printed.read()

    def environment(self) -> Mapping[str, str]:
        """The variables with which commands of Slurm work with this controller, at its time."""
        found = self.clock.environment("reader", self.folder / "users")
        return {**found, "SLURM_CONF": str(self.folder / "slurm.conf"), "TZ": "UTC"}

    def log_tail(self, n_lines: int = LAST_LINES, name: str = "slurmctld") -> list[str]:
        """The last lines of the log of a daemon, or of what it printed before it had one."""
        for path in (self.folder / f"{name}.log", self.folder / f"{name}.out"):
            with suppress(OSError):
                if lines := path.read_text(errors="replace").splitlines()[-n_lines:]:
                    return lines
        return []

    # ---- starting ----

    def _listening(self) -> tuple[socket.socket, int]:
        listener, port = reserved_port()
        self._open.callback(listener.close)
        listener.listen(4096)
        listener.setblocking(False)
        return listener, port

    def _write_files(self) -> None:
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        for name, text in self.configuration.files.items():
            (self.folder / name).write_text(text)
        lines = (f"{name}:x:{uid}:{uid}::/:/bin/sh\n" for name, uid in self._users.items())
        (self.folder / "users").write_text("".join(lines))
        here = Surroundings(str(self.folder), _user(), self.port, self.node_port)
        (self.folder / "slurm.conf").write_text(self.configuration.text(here))

    def _start(self, name: str, program: Path, options: list[str], port: int) -> OwnProcess:
        """Start a daemon, and wait until it listens at its port."""
        link = self.folder / name  # the daemons look at the name by which they were called
        link.symlink_to(program)
        environment = {
            **{key: os.environ[key] for key in ("PATH", "LD_LIBRARY_PATH") if key in os.environ},
            **self.clock.environment("daemon", self.folder / "users"),
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "TZ": "UTC",
        }
        n_before = self.clock.n_daemons
        become = partial(_become, [str(link), *options], environment, str(self.folder / f"{name}.out"))
        process = self._open.enter_context(own_process(become))
        self._open.callback(process.close)  # it does not end by itself
        if (why_not := process.handed_over()) is not None:
            raise ControllerDied(PROCESS_SURVIVES, f"{program} cannot be run: {why_not}", 0.0)
        deadline_s = time.monotonic() + STARTS_WITHIN_S
        while self.clock.n_daemons == n_before or not _listens(port):
            ended = process.how_it_ended()
            outcome = Outcome.DIED if ended else self.clock.settle()
            if outcome is Outcome.DIED:
                said = " | ".join(self._complaints(name))
                raise InvalidConfiguration(f"{name} does not start with this configuration: {said}")
            if outcome is Outcome.HANGS or time.monotonic() > deadline_s:
                raise ControllerHangs(RETURNS_IN_TIME, f"{name} did not start{self._last_lines(name)}", 0.0)
            if outcome is Outcome.READABLE:
                self.serve()
            elif self.clock.n_daemons == n_before or self.clock.next_s > self.clock.now_s + STARTS_WITHIN_S:
                time.sleep(0.001)
            elif not _listens(port):
                self.clock.advance(self.clock.next_s)
        self.settle()
        return process

    def _complaints(self, name: str) -> list[str]:
        """What a daemon has against its configuration."""
        lines = [one_line(line) for line in self.log_tail(1000, name)]
        bad = [
            line
            for line in lines
            if ("fatal:" in line or "error:" in line) and not _OF_ANY_START.search(line)
        ]
        return bad[-LAST_LINES:] or lines[-LAST_LINES:]

    # ---- outcomes ----

    def _reached(self, outcome: Outcome) -> bool:
        time_s = self.clock.now_s - self._start_s
        if outcome is Outcome.DIED:
            message = f"slurmctld has ended{self._last_lines('slurmctld')}"
            raise ControllerDied(PROCESS_SURVIVES, message, time_s)
        if outcome is Outcome.HANGS:
            message = (
                f"slurmctld did not come to rest within {self._limit_s:g} s{self._last_lines('slurmctld')}"
            )
            raise ControllerHangs(RETURNS_IN_TIME, message, time_s)
        return outcome is Outcome.REACHED

    def _last_lines(self, name: str) -> str:
        lines = [one_line(line) for line in self.log_tail(name=name)]
        return f"; its log ends with: {' | '.join(lines)}" if lines else ""

    def _refuse(self) -> None:
        """Nodes without a process: connections are closed."""
        with suppress(OSError):
            self.nodes.accept()[0].close()


@contextmanager
def private_folder() -> Iterator[Path]:
    """A directory in memory, or else a temporary one, which is removed at the end, also if this process is
    killed."""
    memory = "/dev/shm"
    folder = Path(tempfile.mkdtemp(prefix="sil-slurm-", dir=memory if os.access(memory, os.W_OK) else None))
    with subprocess.Popen(
        ["/bin/sh", "-c", _REMOVE, str(folder)],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    ):  # fmt: skip
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def reserved_port() -> tuple[socket.socket, int]:
    """A free port of loopback, which nobody else is given while the socket is open; a program that sets
    SO_REUSEADDR may listen at it. Raises UserError."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(("127.0.0.1", 0))
    except OSError as error:
        found.close()
        raise UserError(
            f"there is no free port at 127.0.0.1 for Slurm's controller ({error.strerror}); end other "
            f"programs, or run fewer controllers at a time (--workers)"
        ) from None
    return found, int(found.getsockname()[1])


def _become(command: list[str], environment: dict[str, str], output: str, connection: socket.socket) -> None:
    os.environ.clear()
    os.environ.update(environment)
    handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    execute(command, connection)


def _listens(port: int) -> bool:
    return any(local == port for _, local in listening())


def listening() -> Iterator[tuple[str, int]]:
    """The addresses, as the kernel writes them, and ports of this computer at which something listens."""
    for name in ("tcp", "tcp6"):
        with suppress(OSError), open(f"/proc/net/{name}") as table:
            for row in table:
                _, local, _, state, *_ = row.split()
                if state == "0A":
                    address, _, port = local.rpartition(":")
                    yield address, int(port, 16)


def _is_readable(handle: int) -> bool:
    return bool(select.select([handle], [], [], 0)[0])


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return getpass.getuser()
