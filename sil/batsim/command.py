"""A scheduler's own process: started before a run, ended after it."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sil.batsim.naming import PLACEHOLDER, PORT, Outside
from sil.world.guard.faults import PROCESS_SURVIVES, SchedulerFault

ENDS_WITHIN_S = 5.0
"""So long a scheduler has to end by itself after the last message."""


class Process:
    """A process that was started; what it prints is in the file `log`."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    def how_it_ended(self) -> str | None:
        """None while it goes on."""
        code = self._process.poll()
        if code is None:
            return None
        last = self._log.read_text(errors="replace").strip().splitlines()[-1:]
        told = f", and told: {last[0][:300]}" if last else ""
        return f"its process ended with exit code {code}{told} (all that it printed is in {self._log})"

    def end(self) -> None:
        """Let it end by itself, else end it."""
        for insist in (self._process.terminate, self._process.kill):
            try:
                self._process.wait(ENDS_WITHIN_S)
                return
            except subprocess.TimeoutExpired:
                insist()
        self._process.wait()


@contextmanager
def started(asked: Outside, log: Path) -> Iterator[tuple[str, Process | None]]:
    """The address at which a scheduler listens, and its process where one is to be started.

    Raises SchedulerFault where the command cannot be run, or its port is in use.
    """
    if asked.address is not None:
        yield asked.address, None
        return
    port = _free_port() if any(PLACEHOLDER in word for word in asked.command) else PORT
    if port == PORT:
        _check_is_free(port)
    command = [word.replace(PLACEHOLDER, str(port)) for word in asked.command]
    log.parent.mkdir(exist_ok=True)
    with log.open("wb") as printed:
        try:
            process = Process(
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT),
                log,
            )
        except OSError as error:
            message = f"the command '{command[0]}' cannot be run: {error.strerror}"
            raise SchedulerFault(PROCESS_SURVIVES, message, 0.0) from None
        try:
            yield f"tcp://127.0.0.1:{port}", process
        finally:
            process.end()
            if log.is_file() and not log.stat().st_size:
                log.unlink()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _check_is_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            message = (
                f"port {port} is in use, where the scheduler is to listen; end what uses it, or write "
                f"{PLACEHOLDER} into the command where it names its port"
            )
            raise SchedulerFault(PROCESS_SURVIVES, message, 0.0) from None
