"""Schedulers that speak Batsim's protocol, by their names (batsim+tcp://HOST:PORT, batsim: COMMAND): the
connection, and the process, which is started before a run and ended after it."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from scheduler.registry import SchedulerNotLoaded
from scheduler.rules import RETURNS_IN_TIME
from sil.workers.own_process import OwnProcess, execute, own_process
from sil.world.guard.faults import PROCESS_SURVIVES, SPEAKS_THE_PROTOCOL, SchedulerFault

PORT = 28_000
"""The default port of Batsim's schedulers."""
PLACEHOLDER = "{port}"


@dataclass(frozen=True)
class BatsimScheduler:
    """A scheduler in another process: one that listens at `address`, or one to be started by `command`.

    `{port}` in the command stands for a free port; without it, the scheduler listens at port 28000.
    """

    address: str | None
    command: tuple[str, ...] = ()

    @property
    def files(self) -> list[Path]:
        """The files that its command names."""
        return [path for word in self.command if (path := Path(word)).is_file()]


def batsim_scheduler(name: str) -> BatsimScheduler | None:
    """The scheduler that `name` denotes; None if `name` does not denote one that speaks the protocol. Raises
    SchedulerNotLoaded if the name is malformed, its command cannot be run, or pyzmq is missing."""
    listens = name.startswith("batsim+tcp://")
    if not (listens or name.startswith("batsim:")):
        return None
    if importlib.util.find_spec("zmq") is None:
        raise SchedulerNotLoaded(
            f"scheduler '{name}': Batsim's protocol needs the package pyzmq; install this one with [batsim]"
        )
    if listens:
        address = name.removeprefix("batsim+")
        if not re.fullmatch(r"tcp://[\w.\-\[\]:]+:\d{1,5}", address):
            raise SchedulerNotLoaded(
                f"scheduler '{name}': '{address}' is not an address like tcp://localhost:{PORT}"
            )
        return BatsimScheduler(address)
    try:
        command = tuple(shlex.split(name.removeprefix("batsim:")))
    except ValueError as error:
        raise SchedulerNotLoaded(f"scheduler '{name}': the command cannot be parsed: {error}") from None
    if not command:
        raise SchedulerNotLoaded(
            f"scheduler '{name}': the command is missing; for example 'batsim: pybatsim easyBackfill'"
        )
    if shutil.which(command[0]) is None:
        raise SchedulerNotLoaded(f"scheduler '{name}': there is no executable command '{command[0]}'")
    return BatsimScheduler(None, command)


ENDS_WITHIN_S = 5.0
"""The time that a scheduler has to exit by itself after the last message."""

LOOK_EVERY_MS = 200


Ask = Callable[[str, float], str]
"""Sends a request at a time of the simulation, and returns the reply."""


@contextmanager
def conversation(scheduler: BatsimScheduler, log: Path, limit_s: float) -> Iterator[Ask]:
    """Ask a scheduler, which has `limit_s` for an answer. Its output goes to the file `log`.

    Raises SchedulerFault if it cannot be started; so does asking if it has ended, does not answer in time, or
    answers in parts."""
    import zmq  # of an extra

    from sil.batsim.messages import longest_message  # loads what it takes nothing of to name a scheduler

    with (
        started(scheduler, log) as (address, process),
        zmq.Context() as context,
        context.socket(zmq.REQ) as socket,
    ):
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.MAXMSGSIZE, longest_message())
        socket.connect(address)

        def ask(request: str, asked_s: float) -> str:
            socket.send_string(request)
            deadline_s = time.monotonic() + limit_s
            while not socket.poll(LOOK_EVERY_MS):
                ended = None if process is None else process.how_it_ended()
                if ended is not None and not socket.poll(LOOK_EVERY_MS):
                    raise SchedulerFault(PROCESS_SURVIVES, ended, asked_s)
                if time.monotonic() > deadline_s:
                    message = f"no answer from {address} within {limit_s:g} s"
                    raise SchedulerFault(RETURNS_IN_TIME, message, asked_s)
            reply, *others = socket.recv_multipart()
            if others:
                message = f"it sent an answer of {1 + len(others)} parts; expected one part, with JSON"
                raise SchedulerFault(SPEAKS_THE_PROTOCOL, message, asked_s)
            return reply.decode(errors="replace")

        yield ask


@contextmanager
def started(scheduler: BatsimScheduler, log: Path) -> Iterator[tuple[str, OwnProcess | None]]:
    """The address at which a scheduler listens, and its process if it is started here, which ends with all
    that it has started. Raises SchedulerFault if the command cannot be run or its port is in use."""
    if scheduler.address is not None:
        yield scheduler.address, None
        return
    port = _port_to_listen_at(scheduler.command)
    command = [word.replace(PLACEHOLDER, str(port)) for word in scheduler.command]
    with own_process(partial(execute, command), log=log) as process:
        why_not = process.handed_over()
        if why_not is not None:
            message = f"the command '{command[0]}' cannot be run: {why_not}"
            raise SchedulerFault(PROCESS_SURVIVES, message, 0.0)
        try:
            yield f"tcp://127.0.0.1:{port}", process
        finally:
            process.wait(ENDS_WITHIN_S)


def _port_to_listen_at(command: Sequence[str]) -> int:
    """A free one if the command has a place for it, else the usual one, which must be free."""
    import socket as sockets  # which commands without such schedulers do not need

    port = 0 if any(PLACEHOLDER in word for word in command) else PORT
    with sockets.socket() as probe:
        if port:
            probe.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            message = (
                f"port {port}, at which the scheduler is to listen, is in use; end the process that uses "
                f"it, or write {PLACEHOLDER} for the port in the command"
            )
            raise SchedulerFault(PROCESS_SURVIVES, message, 0.0) from None
        return int(probe.getsockname()[1])
