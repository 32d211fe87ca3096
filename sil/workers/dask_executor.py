"""Runs items on the workers of a Dask scheduler. Imported on demand; no other module uses Dask."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
import warnings
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from distributed import Client, KilledWorker, Security, rpc

from scheduler import UserError
from sil.settings.files import code_and_data
from sil.workers.executor import Concurrent, Item, Outcome
from sil.workers.processes import Processes
from sil.world.guard.faults import KILLED, Died
from site_db.files.access import OF_JSON, read_text

ANSWER_WITHIN_S = 5.0
"""The time in which a scheduler must answer, in seconds."""
WORKER_WITHIN_S = 5.0
"""The time in which a scheduler must have a worker, in seconds."""
MIN_SLOTS = 64
"""The fewest items to start at once: more than most clusters have workers when they are asked, since some
grow with the number of waiting tasks."""
WAKE_EVERY_S = 0.2
"""The interval at which this thread wakes up, in seconds: Ctrl-C may be delivered to another thread, which
does not wake it."""

Files = dict[str, bytes]


class Dask(Concurrent):
    """The workers of a scheduler; `where` is its address or its scheduler file. Raises UserError."""

    def __init__(self, where: str) -> None:
        self._address = _address(where)
        _silence()
        self._client = _connected(self._address)
        self._code = code_and_data()
        self._running: dict[Future[tuple[Outcome, Files]], Item] = {}
        try:
            _check_workers(self._client, self._address, self._code)
        except BaseException:
            _close(self._client)
            raise
        self.slots = max(MIN_SLOTS, 2 * sum(self._client.nthreads().values()))
        # Not pure: an item that died is run again, not remembered as dead.
        self._executor = self._client.get_executor(pure=False)

    def _start(self, item: Item) -> None:
        try:
            self._running[self._executor.submit(run_on_worker, item, self._code)] = item
        except Exception as error:
            if self._client.status in ("running", "connecting"):
                raise
            raise self._gone() from error

    def _wait(self) -> Sequence[tuple[Item, Outcome]]:
        while not (done := wait(self._running, WAKE_EVERY_S, FIRST_COMPLETED).done):
            pass
        return [(item := self._running.pop(future), self._outcome(future, item)) for future in done]

    def _outcome(self, future: Future[tuple[Outcome, Files]], item: Item) -> Outcome:
        try:
            outcome, files = future.result()
        except KilledWorker:
            return "died", Died(KILLED, "its Dask worker died")
        except CancelledError:  # not by this process, which waits for none that it has cancelled
            return "failed", self._gone()
        except Exception as error:
            return "failed", error
        for name, content in files.items():
            assert item.folder is not None
            path = item.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return outcome

    def _abandon(self) -> None:
        for future in self._running:
            future.cancel()
        self._running.clear()

    def close(self) -> None:
        self._abandon()
        with suppress(Exception):  # a worker that does not answer does not matter any more
            self._client.run(end_idle_on_worker, on_error="ignore")
        _close(self._client)

    def _gone(self) -> UserError:
        return UserError(
            f"the Dask scheduler at {self._address} is gone; start it and run the same command again to "
            "resume"
        )


_idle: list[Processes] = []
"""The idle processes of this Dask worker, which runs one item in each. `append` and `pop` are atomic: threads
need no lock."""


def run_on_worker(item: Item, code: str) -> tuple[Outcome, Files]:
    """Run an item in a process beside this Dask worker. Return its outcome with the files it has written.
    Raises UserError if the worker has not the code `code`, and what the item raises."""
    check_code(code)
    try:
        process = _idle.pop()
    except IndexError:
        process = Processes(1)
    outcomes: list[Any] = []
    try:
        with TemporaryDirectory() as name:
            here = item if item.folder is None else replace(item, folder=Path(name))
            process.run([here], lambda _, value: outcomes.append(value))
            files = {
                path.relative_to(name).as_posix(): path.read_bytes()
                for path in Path(name).rglob("*")
                if path.is_file()
            }
    finally:
        _idle.append(process)
    (value,) = outcomes
    return ("result", value), files


def check_code(code: str) -> None:
    """Raise UserError on a computer with other code or libraries, where results could differ."""
    if code_and_data() != code:
        raise UserError(
            f"the Dask worker on {socket.gethostname()} has another version of sil or of its libraries, so "
            "its results could differ; install the version used here, and restart the worker"
        )


def end_idle_on_worker() -> None:
    """End the idle processes beside a Dask worker. Other commands start them again."""
    while _idle:
        _idle.pop().close()


def _address(where: str) -> str:
    """The address in the scheduler file `where`, or `where` itself if it is an address."""
    if "://" in where:
        return where
    path = Path(where)
    if not path.exists() and re.fullmatch(r"[^/\s]+:\d+", where):
        return f"tcp://{where}"
    if not path.is_file():
        raise UserError(
            f"{where}: there is no such scheduler file; an address looks like tcp://scheduler:8786"
        )
    text = read_text(path, OF_JSON)
    try:
        address = json.loads(text)["address"]
    except (ValueError, LookupError, TypeError, RecursionError):
        address = None
    if not isinstance(address, str):
        raise UserError(f"{where}: this is not a scheduler file written by Dask")
    return address


def _connected(address: str) -> Client:
    reason: Exception | None = None
    try:
        # The client itself would wait without a limit for a server that does not answer.
        identity = asyncio.run(asyncio.wait_for(_identity(address), ANSWER_WITHIN_S))
        if identity["type"] == "Scheduler":
            return Client(address, timeout=ANSWER_WITHIN_S, set_as_default=False)
    except Exception as error:  # of many kinds, since anything may listen there
        reason = error
    raise UserError(f"no Dask scheduler answers at {address}") from reason


async def _identity(address: str) -> dict[str, Any]:
    """How the process that listens there describes itself."""
    async with rpc(address, connection_args=Security().get_connection_args("client")) as listener:
        answer: dict[str, Any] = await listener.identity()
        return answer


def _check_workers(client: Client, address: str, code: str) -> None:
    """Raise UserError if there are no workers, or workers with other code."""
    try:
        client.wait_for_workers(1, timeout=WORKER_WITHIN_S)
    except TimeoutError:
        raise UserError(
            f"the Dask scheduler at {address} has no workers; start some with: dask worker {address}"
        ) from None
    for worker, answer in client.run(check_code, code, on_error="return").items():
        if isinstance(answer, UserError):
            raise answer
        # A worker that is gone by now does not matter.
        if isinstance(answer, Exception) and not isinstance(answer, OSError):
            raise UserError(
                f"the Dask worker at {worker} cannot run this version of sil "
                f"({' '.join(str(answer).split())}); install the version used here"
            )


def _close(client: Client) -> None:
    with suppress(Exception):  # the scheduler may be gone
        client.close(timeout=WORKER_WITHIN_S)


def _silence() -> None:
    """Suppress what Dask prints to the terminal: its exceptions say the same."""
    names = {"distributed", "tornado", "asyncio", *logging.Logger.manager.loggerDict}
    for name in names:
        if name.partition(".")[0] in ("distributed", "tornado", "asyncio"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    warnings.filterwarnings("ignore", module=r"distributed(\.|$)")
