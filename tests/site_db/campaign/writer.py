"""The process that records an experiment, as `sil run --learn` does. It is forked from a process that has
imported what it needs, so that thousands of them can be killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import forkserver, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from signal import SIGKILL, SIGXFSZ
from time import sleep
from traceback import format_exc
from typing import Any

import pytest

from scheduler import UserError
from site_db import store
from site_db.history import writer
from site_db.jobs.recording import Recorder
from site_db.store import Address
from tests.site_db.campaign.faults import Fault
from tests.site_db.campaign.work import SITE, Work

ROOT = Path(__file__).parents[3]
FORKING = get_context("forkserver")
FORK_SERVER = forkserver.ForkServer()
"""Another one than that of the testbed's workers, which has their hash seed."""
FORK_SERVER.set_forkserver_preload(["tests.site_db.campaign.rehearsed"])
LONGEST_S = 60.0
MAX_TRIES, BETWEEN_TRIES_S = 40, 0.05
"""At the end, as if there were more batches."""
SNAPSHOT_EVERY = 40
"""So that there are many."""


Task = Work | Callable[[Address], None]
"""What a writer has to do."""


@dataclass(frozen=True)
class End:
    """How a writer ended: the batches that it had recorded when it last said so, its sentences to the user,
    whether it was killed, and how many moments it had."""

    acknowledged: int
    sentences: tuple[str, ...]
    was_killed: bool
    moments: int


@contextmanager
def started(address: Address, task: Task, fault: Fault | None = None) -> Iterator[list[End]]:
    """A writer that runs while the block does. At the end of the block, the list has its end."""
    url = address.url.render_as_string(hide_password=False)
    here, there = FORKING.Pipe(duplex=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)  # where the process to be forked finds what it imports
        for name in ("connect_to_new_process", "ensure_running", "get_inherited_fds"):
            patch.setattr(forkserver, name, getattr(FORK_SERVER, name))
        process = FORKING.Process(target=write, args=(url, task, fault or Fault(), there))
        process.start()
    there.close()
    ends: list[End] = []
    try:
        yield ends
        ends.append(_ended(here, process))
    finally:
        process.kill()
        process.join()
        process.close()


def run(address: Address, task: Task, fault: Fault | None = None) -> End:
    """Run a writer to its end."""
    with started(address, task, fault) as ends:
        pass
    return ends[0]


def _ended(here: Connection, process: Any) -> End:
    acknowledged, sentences, moments = 0, [], 0
    try:
        while True:
            assert here.poll(LONGEST_S), "the writer hangs"
            what, value = here.recv()
            if what == "recorded":
                acknowledged = value
            elif what == "says":
                sentences.append(value)
            elif what == "moments":
                moments = value
            else:
                raise AssertionError(value)
    except EOFError:
        process.join(LONGEST_S)
    assert process.exitcode in (0, -SIGKILL, -SIGXFSZ), process.exitcode
    return End(acknowledged, tuple(sentences), process.exitcode != 0, moments)


def write(url: str, task: Task, fault: Fault, tell: Connection) -> None:
    writer.SNAPSHOT_EVERY = SNAPSHOT_EVERY
    address = store.parse_address(url)
    try:
        fault.begin()
        try:
            if isinstance(task, Work):
                record(address, task, fault, tell)
            else:
                task(address)
        except UserError as trouble:
            tell.send(("says", str(trouble)))
        fault.end()
        tell.send(("moments", fault.moments))
    except BaseException:
        tell.send(("failed", format_exc()))


def record(address: Address, work: Work, fault: Fault, tell: Connection) -> None:
    recorder = Recorder(store.open_database(address), SITE, lambda sentence: tell.send(("says", sentence)))
    for k in range(work.batches):
        complete = work.complete if k == work.batches - 1 else None
        try:
            recorder.record(work.source(k), work.jobs(k), complete)
        except store.DatabaseTrouble as trouble:
            tell.send(("says", str(trouble)))
        tell.send(("recorded", k + 1 - len(recorder.waiting)))
    fault.end()
    for _ in range(MAX_TRIES):
        recorder.write()
        if not recorder.waiting:
            break
        sleep(BETWEEN_TRIES_S)
    tell.send(("recorded", work.batches - len(recorder.waiting)))


def create(address: Address) -> None:
    """As `sil db init` does."""
    store.create(address).dispose()
