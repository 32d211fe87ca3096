"""The daemons of one cluster, on one clock: started one after another, driven together, ended with us."""

from __future__ import annotations

import os
import re
import resource
import select
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType

from scheduler import UserError
from scheduler.rules import RETURNS_IN_TIME
from sil.slurm.clock.driver import AdvanceEnd, ControllerClock, built, waits_of
from sil.slurm.installation import ANYWHERE, PLUGINS, Installation, listens, private_folder, reserved_port
from sil.workers.own_process import OwnProcess, execute, own_process
from sil.world.guard.faults import PROCESS_SURVIVES, SchedulerFault, one_line

STARTS_WITHIN_S = 60.0
"""The real time, in seconds, for a daemon to begin and to listen."""
RESTS_FOR_S = 0.2
"""The real time, in seconds, after which a daemon that starts waits for time to pass, and not for a process
of its own."""
STARTS_IN_S = 5.0
"""The longest wait, in seconds, that is a step of a daemon's start; longer ones are timeouts of
connections."""
_BEGUN = {"slurmctld": "Running as primary controller"}
"""What the log of a daemon says when it has started, if it listens before (since 25.05): meanwhile it waits
for a process of its own, and time must not pass to a timeout."""
LAST_LINES = 5
"""The lines of the log in a message."""
_NONE: Mapping[str, str] = MappingProxyType({})
_NO_PLUGIN = re.compile(r"plugin name|[Cc]an't find plugin|cannot create \w+ context")
_COMPLAINT = re.compile("fatal:|error:")
_OF_ANY_START = re.compile("pmix")
"""Matches complaints that do not concern the configuration: some plug-ins of Debian lack their libraries."""


class ControllerDied(SchedulerFault):
    """A daemon of the controller has ended."""


class ControllerHangs(SchedulerFault):
    """The controller computes without end, or waits for what never comes."""


class InvalidConfiguration(UserError):
    """What a daemon says about the configuration with which it does not start."""


class CommandFailed(UserError):
    """What a command of Slurm `said` that could not be carried out."""

    def __init__(self, command: str, said: str) -> None:
        super().__init__(f"{command}: {said}")
        self.said = said


class Daemons(ABC):
    """What runs of an installation on one clock, in a folder of its own, and ends with `context`, the latest
    first.

    Connections to the cluster's nodes arrive at `nodes`, a listening socket, which `serve` has to accept and
    answer, one at each call. Methods that let time pass raise ControllerDied and ControllerHangs.
    """

    def __init__(
        self, installation: Installation, start_s: float, limit_s: float, context: ExitStack
    ) -> None:
        self.installation, self._context, self._start_s = installation, context, start_s
        self._names: list[str] = []
        self.folder = context.enter_context(private_folder())
        self.nodes, self.node_port = self.reserved_port()
        self.nodes.listen(4096)
        self.nodes.setblocking(False)
        self.clock = context.enter_context(ControllerClock(self.folder / "clock", start_s, limit_s))
        self.clock.wake_on([self.nodes.fileno()])
        self.clock.classify(waits_of(installation.release[:2]))
        installation.check_loads(built())

    def reserved_port(self) -> tuple[socket.socket, int]:
        """See `sil.slurm.installation.reserved_port`."""
        found, port = reserved_port()
        return self._context.enter_context(found), port

    def advance(self, to_s: float, jumps: bool = False) -> bool:
        """Let time pass until `to_s` (see `ControllerClock.advance`). Returns False if it has ended early,
        since a connection waits at `nodes`."""
        return self._reached(self.clock.advance(to_s, jumps))

    def settle(self) -> None:
        """Let the daemons come to rest at the present time, and serve their connections."""
        while not self.advance(self.clock.now_s):
            self.serve()

    def wait_for(self, handle: int) -> None:
        """Let the daemons work, and serve their connections, until a handle of a connection to them is
        readable."""
        while not _is_readable(handle):
            self._reached(self.clock.until_readable(handle))
            self._serve_waiting()

    def slurm(self, name: str, *words: str, variables: Mapping[str, str] = _NONE) -> str:
        """What a command of Slurm prints, like `slurm("scontrol", "show", "config")`. Raises as `command`."""
        return self.command(self.installation.program(name), *words, variables=variables)

    def command(self, program: Path, *words: str, variables: Mapping[str, str] = _NONE) -> str:
        """What a command of Slurm prints, at the daemons' time, with further environment variables. Raises
        CommandFailed, too."""
        command, environment = self.installation.invoked(
            [program, *words], {**self.environment("driven"), **variables}
        )
        with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as errors:
            with subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=printed, stderr=errors, text=True,
            ) as process:  # fmt: skip
                try:
                    while process.poll() is None:
                        self._reached(self.clock.finish(process))
                        self._serve_waiting()
                except BaseException:
                    process.kill()
                    raise
            printed.seek(0)
            errors.seek(0)
            if process.returncode:
                self.settle()  # raises ControllerDied if that is why
                said = one_line(errors.read()) or one_line(printed.read()) or f"code {process.returncode}"
                raise CommandFailed(" ".join((program.name, *words)), said)
            return printed.read()

    def environment(self, role: str = "reader") -> Mapping[str, str]:
        """The variables with which commands of Slurm work with these daemons, at their time (for roles see
        `ControllerClock.environment`)."""
        found = self.clock.environment(role, self.folder / "users")
        return {**found, "SLURM_CONF": str(self.folder / "slurm.conf"), "TZ": "UTC"}

    def log_tail(self, name: str, n_lines: int = LAST_LINES) -> list[str]:
        """The last lines of the log of a daemon, or of what it printed before it had one, fit for a
        sentence."""
        for path in (self.folder / f"{name}.log", self.folder / f"{name}.out"):
            with suppress(OSError):
                if lines := path.read_text(errors="replace").splitlines()[-n_lines:]:
                    return [one_line(line) for line in lines]
        return []

    def start(
        self,
        name: str,
        program: Path,
        options: Sequence[str],
        port: int,
        environment: Mapping[str, str] = _NONE,
    ) -> None:
        """Start a daemon of Slurm, and wait until it listens at its port and has come to rest. Raises
        InvalidConfiguration, too."""
        link = self.folder / name  # the daemons look at the name by which they were called
        link.symlink_to(self.installation.inside(program))
        n_before = self.clock.n_daemons
        process = self.started(name, [link, *options], {**self.environment("daemon"), **environment})
        began_s = busy_s = time.monotonic()
        while self.clock.n_daemons == n_before or not listens(port) or not self._has_own_process(name):
            ended = process.how_it_ended()
            outcome = AdvanceEnd.DIED if ended else self.clock.settle()
            if outcome is AdvanceEnd.DIED:
                said = " | ".join(self._complaints(name))
                if _NO_PLUGIN.search(said) and self.installation.place == ANYWHERE:
                    said += f"; if this plug-in is right, install it ({PLUGINS})"
                raise InvalidConfiguration(f"{name} does not start with this configuration: {said}")
            if outcome is AdvanceEnd.HANGS or time.monotonic() > began_s + STARTS_WITHIN_S:
                raise ControllerHangs(RETURNS_IN_TIME, f"{name} did not start{self._last_lines(name)}", 0.0)
            if outcome is AdvanceEnd.READABLE:
                self.serve()
            elif outcome is AdvanceEnd.REAL:
                self._reached(outcome)
            elif self.clock.next_s > self.clock.now_s + STARTS_IN_S or self.clock.is_helped():
                busy_s = time.monotonic()
                time.sleep(0.001)
            elif time.monotonic() < busy_s + RESTS_FOR_S:
                time.sleep(0.001)
            else:
                self.clock.advance(self.clock.next_s)
                busy_s = time.monotonic()
        self._names.insert(0, name)
        self.settle()

    def _has_own_process(self, name: str) -> bool:
        return name not in _BEGUN or any(_BEGUN[name] in line for line in self.log_tail(name, 1000))

    def started(self, name: str, command: Sequence[object], environment: Mapping[str, str]) -> OwnProcess:
        """Start a program that ends with us. What it prints goes to `name`.out. Raises ControllerDied if it
        cannot be run."""
        words, variables = self.installation.invoked(command, environment)
        become = partial(_become, words, variables, str(self.folder / f"{name}.out"))
        process = own_process(become)
        self._context.callback(process.close)
        if (why_not := process.handed_over()) is not None:
            raise ControllerDied(PROCESS_SURVIVES, f"{command[0]} cannot be run: {why_not}", 0.0)
        return process

    def helper(self, name: str, command: Sequence[object]) -> int:
        """Start a program that daemons use, in real time: in the folder, it makes `name`.socket, and
        `name`.pid with its process id, which is returned. Raises InvalidConfiguration, too."""
        socket, pid = (self.folder / f"{name}.{ending}" for ending in ("socket", "pid"))
        process, program = self.started(name, command, {}), Path(str(command[0])).name
        deadline_s = time.monotonic() + STARTS_WITHIN_S
        while not (socket.exists() and pid.exists() and pid.read_text().strip()):
            if process.how_it_ended() is not None:
                lines = self.log_tail(name, 1000)
                said = [line for line in lines if "[ERROR]" in line] or lines or ["it says nothing"]
                raise InvalidConfiguration(f"{program} does not start: {' | '.join(said[-3:])}")
            if time.monotonic() > deadline_s:
                raise ControllerHangs(RETURNS_IN_TIME, f"{program} did not start", 0.0)
            time.sleep(0.001)
        return int(pid.read_text())

    def _reached(self, outcome: AdvanceEnd) -> bool:
        if outcome in (AdvanceEnd.REACHED, AdvanceEnd.READABLE):
            return outcome is AdvanceEnd.REACHED
        time_s, names = self.clock.now_s - self._start_s, " or ".join(self._names) or "a daemon"
        logs = "".join(self._last_lines(name) for name in self._names)
        if outcome is AdvanceEnd.DIED:
            raise ControllerDied(PROCESS_SURVIVES, f"{names} has ended{logs}", time_s)
        if outcome is AdvanceEnd.REAL:
            waits = ", ".join(str(wait) for wait in self.clock.unknown_waits if not wait.length_s)
            raise ControllerHangs(
                RETURNS_IN_TIME, f"{names} waits in real time, which cannot be simulated: {waits}", time_s
            )
        limit = f"did not come to rest within {self.clock.limit_s:g} s"
        raise ControllerHangs(RETURNS_IN_TIME, f"{names} {limit}{logs}", time_s)

    @abstractmethod
    def serve(self) -> None:
        """Answer a connection to the nodes."""

    def _serve_waiting(self) -> None:
        if _is_readable(self.nodes.fileno()):
            self.serve()

    def _complaints(self, name: str) -> list[str]:
        """What a daemon has against its configuration."""
        lines = self.log_tail(name, 1000)
        bad = [line for line in lines if _COMPLAINT.search(line) and not _OF_ANY_START.search(line)]
        return bad[-LAST_LINES:] or lines[-LAST_LINES:]

    def _last_lines(self, name: str) -> str:
        lines = self.log_tail(name)
        return f"; the log of {name} ends with: {' | '.join(lines)}" if lines else ""


def _become(command: list[str], environment: dict[str, str], output: str, connection: socket.socket) -> None:
    os.environ.clear()
    os.environ.update(environment)
    handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # nothing is left of one that crashes
    execute(command, connection)


def _is_readable(handle: int) -> bool:
    return bool(select.select([handle], [], [], 0)[0])
