"""The workers of a Dask scheduler. Of all modules only this one knows Dask; it is imported when asked for."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from distributed import Client, KilledWorker, Security, rpc

from sil.experiment.provenance import code_and_data
from sil.workers.port import NoEngine, WorkerDied, Workers
from sil.workers.process_executor import check_code, end_idle_on_worker, run_on_worker

Result = TypeVar("Result")

ANSWER_WITHIN_S = 5.0
"""In which a scheduler has to answer."""
WORKER_WITHIN_S = 5.0
"""In which it has to have a worker."""
LEAST_AT_ONCE = 64
"""More than most clusters have workers when they are asked: some grow with what waits."""


@contextmanager
def on_cluster(where: str) -> Iterator[Workers]:
    """The workers of the scheduler at the address, or of the scheduler file, `where`. Raises NoEngine."""
    address = _address(where)
    _keep_quiet()
    client = _connected(address)
    try:
        yield _OnCluster(client, address)
        with suppress(Exception):  # all is done: a worker that does not answer is nobody's trouble any more
            client.run(end_idle_on_worker, on_error="ignore")
    finally:
        _close(client)


class _OnCluster:
    def __init__(self, client: Client, address: str) -> None:
        self._client = client
        self._address = address
        self._code = code_and_data()
        _find_workers(client, address, self._code)
        self.at_once = max(LEAST_AT_ONCE, 2 * sum(client.nthreads().values()))
        # Not pure: what died is to be carried out again, and not remembered as dead.
        self._executor = client.get_executor(pure=False)

    def submit(self, work: Callable[[], Result]) -> Future[Result]:
        try:
            future: Future[Result] = self._executor.submit(run_on_worker, work, self._code)
        except Exception as error:
            if self._client.status in ("running", "connecting"):
                raise
            raise self._gone() from error
        return future

    def outcome(self, future: Future[Result]) -> Result:
        try:
            return future.result()
        except KilledWorker as error:
            raise WorkerDied from error
        except CancelledError:
            # Nobody here asks for what was cancelled here.
            raise self._gone() from None

    def _gone(self) -> NoEngine:
        return NoEngine(f"the Dask scheduler at {self._address} is gone; the same command goes on from here")


def _address(where: str) -> str:
    """The address in a scheduler file, or `where` itself where it is one."""
    if "://" in where:
        return where
    path = Path(where)
    if not path.exists() and re.fullmatch(r"[^/\s]+:\d+", where):
        return f"tcp://{where}"
    try:
        address = json.loads(path.read_text())["address"]
    except FileNotFoundError:
        raise NoEngine(
            f"{where}: there is no such scheduler file, and an address is written like tcp://scheduler:8786"
        ) from None
    except OSError as error:
        raise NoEngine(f"{where}: the scheduler file cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        address = None
    if not isinstance(address, str):
        raise NoEngine(f"{where}: this is no file that a Dask scheduler wrote")
    return address


def _connected(address: str) -> Client:
    reason: Exception | None = None
    try:
        # The client itself would wait for ever where somebody listens and says nothing.
        identity = asyncio.run(asyncio.wait_for(_identity(address), ANSWER_WITHIN_S))
        if identity["type"] == "Scheduler":
            return Client(address, timeout=ANSWER_WITHIN_S, set_as_default=False)
    except Exception as error:  # of many kinds, since anything may listen there
        reason = error
    raise NoEngine(f"no Dask scheduler answers at {address}") from reason


async def _identity(address: str) -> dict[str, Any]:
    """What whoever listens there says of itself."""
    async with rpc(address, connection_args=Security().get_connection_args("client")) as listener:
        answer: dict[str, Any] = await listener.identity()
        return answer


def _find_workers(client: Client, address: str, code: str) -> None:
    """Raises NoEngine where there are no workers, or such as cannot do our work."""
    try:
        client.wait_for_workers(1, timeout=WORKER_WITHIN_S)
    except TimeoutError:
        raise NoEngine(
            f"the Dask scheduler at {address} has no workers; start some with: dask worker {address}"
        ) from None
    for worker, answer in client.run(check_code, code, on_error="return").items():
        if isinstance(answer, NoEngine):
            raise answer
        # One that is gone by now need not be able to do anything.
        if isinstance(answer, Exception) and not isinstance(answer, OSError):
            raise NoEngine(
                f"the Dask worker at {worker} cannot do runs of this version of sil "
                f"({' '.join(str(answer).split())}); install there what is installed here"
            )


def _close(client: Client) -> None:
    with suppress(Exception):  # the scheduler may be gone
        client.close(timeout=WORKER_WITHIN_S)


def _keep_quiet() -> None:
    """Dask tells on the terminal what it meets; here it tells in the exceptions that come of it."""
    names = {"distributed", "tornado", "asyncio", *logging.Logger.manager.loggerDict}
    for name in names:
        if name.partition(".")[0] in ("distributed", "tornado", "asyncio"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    warnings.filterwarnings("ignore", module=r"distributed(\.|$)")
