"""Runs items in worker processes of this computer.

A worker is a process of its own (`sil.workers.own_process`) that serves many items: with the large libraries
imported, without the state of this process, with a fixed hash seed and a main thread, which the time limit of
decisions needs. It runs one item at a time, so if it dies, the item that it ran is known.
"""

from __future__ import annotations

import os
import pickle
import select
import socket
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from io import BytesIO
from itertools import count
from math import inf
from typing import Any
from weakref import WeakKeyDictionary

from sil.workers import channel
from sil.workers.channel import Message
from sil.workers.executor import Concurrent, Item, Outcome, tried
from sil.workers.nursery import fork_nursery
from sil.workers.own_process import LOOK_EVERY_S, OwnProcess, own_process
from sil.world.guard.faults import Died


class Processes(Concurrent):
    """Up to `workers` processes, which start when they are needed and are reused."""

    def __init__(self, workers: int) -> None:
        self.slots = workers
        self._idle: list[OwnProcess] = []
        self._busy: dict[OwnProcess, Item] = {}
        self._arguments = _CommonArguments()

    def _start(self, item: Item) -> None:
        pickled, common = self._arguments.pickled(item)
        worker = self._idle.pop() if self._idle else own_process(_work, limits=None)
        self._busy[worker] = item
        worker.send(Message({}, pickle.dumps((self._arguments.for_worker(worker, common), pickled))))

    def _wait(self) -> Sequence[tuple[Item, Outcome]]:
        while True:
            outcomes = [(worker, found) for worker in self._busy if (found := _outcome(worker)) is not None]
            if outcomes:
                return [(self._settled(worker, outcome), outcome) for worker, outcome in outcomes]
            messages = select.poll()
            for worker in self._busy:
                messages.register(worker, select.POLLIN)
            messages.poll(1e3 * LOOK_EVERY_S)

    def _settled(self, worker: OwnProcess, outcome: Outcome) -> Item:
        """The item of an outcome. Its worker is free for the next one, or ended."""
        if outcome[0] == "report":
            return self._busy[worker]
        item = self._busy.pop(worker)
        if outcome[0] == "died":
            worker.close()
        else:
            self._idle.append(worker)
        return item

    def _abandon(self) -> None:
        while self._busy:
            self._busy.popitem()[0].close()

    def close(self) -> None:
        self._abandon()
        while self._idle:
            self._idle.pop().close()


class _CommonArguments:
    """Arguments of an item's call, like a scenario, that the item before had, too: each is pickled once, and
    a worker gets it once, since that takes as long as a short run. A worker keeps those of its last item."""

    def __init__(self) -> None:
        self._numbers = count()
        self._last: dict[int, object] = {}
        """The arguments of the item before, by their ids."""
        self._pickled: dict[int, tuple[int, bytes]] = {}
        """By id, the common ones with their numbers; another object may have the id later."""
        self._kept: WeakKeyDictionary[OwnProcess, set[int]] = WeakKeyDictionary()

    def pickled(self, item: Item) -> tuple[bytes, dict[int, bytes]]:
        """The item, and the common arguments that it refers to, by their numbers."""
        arguments = item.call.args if isinstance(item.call, partial) else ()
        now = {id(each): each for each in arguments if not isinstance(each, str | int | float | None)}
        common = now.keys() & self._last.keys()
        found = {
            key: self._pickled.get(key) or (next(self._numbers), pickle.dumps(now[key])) for key in common
        }
        self._last, self._pickled = now, found
        file = BytesIO()
        pickler = pickle.Pickler(file)
        pickler.persistent_id = lambda value: found[id(value)][0] if id(value) in found else None  # type: ignore[method-assign]
        pickler.dump(item)
        return file.getvalue(), dict(found.values())

    def for_worker(self, worker: OwnProcess, common: dict[int, bytes]) -> dict[int, bytes | None]:
        """Those that it does not keep from its last item; None stands for the others."""
        kept = self._kept.get(worker, set())
        self._kept[worker] = {*common}
        return {number: None if number in kept else each for number, each in common.items()}


def _outcome(worker: OwnProcess) -> Outcome | None:
    """The next outcome of a worker's item, if there is one."""
    try:
        message = worker.received(inf)
    except Died as died:
        return "died", Died(died.rule, died.how)
    if message is None:
        return None
    outcome: Outcome = pickle.loads(message.columns)
    return outcome


def _work(connection: socket.socket) -> None:
    fork_nursery()
    os.environ["POLARS_MAX_THREADS"] = "1"  # the workers themselves are the threads

    def send(outcome: bytes) -> None:
        channel.send(connection, Message({}, outcome))

    common = dict[int, object]()

    def received(message: bytes) -> Item:
        nonlocal common
        given, pickled = pickle.loads(message)
        common = {n: common[n] if each is None else pickle.loads(each) for n, each in given.items()}
        unpickler = pickle.Unpickler(BytesIO(pickled))
        unpickler.persistent_load = common.__getitem__  # type: ignore[method-assign]
        item: Item = unpickler.load()
        return item

    with suppress(EOFError, OSError):
        while True:
            item = partial(received, channel.receive(connection).columns)
            send(_pickled_outcome(item, lambda value: send(pickle.dumps(("report", value)))))


def _pickled_outcome(item: Callable[[], Item], report: Callable[[Any], None]) -> bytes:
    try:
        return pickle.dumps(("result", tried(item(), report)))
    except BaseException as error:
        error.add_note(f"In a worker process:\n{traceback.format_exc()}")
        with suppress(Exception):
            failed = pickle.dumps(("failed", error))
            pickle.loads(failed)
            return failed
        return pickle.dumps(("failed", RuntimeError(traceback.format_exc())))
