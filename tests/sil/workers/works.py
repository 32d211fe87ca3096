"""Work of all sorts: short, long, failing, and killing its process. Each run adds lines to files."""

from __future__ import annotations

import math
import os
import signal
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sil.workers.executor import Item
from sil.world.guard.decision_time import time_limit


class DeliberateError(Exception):
    pass


def tell_nice_value(connection: socket.socket) -> None:
    connection.sendall(str(os.getpriority(os.PRIO_PROCESS, 0)).encode())


class Pickled:
    """What items have in common; counts how often it is pickled here."""

    def __init__(self) -> None:
        self.times = 0

    def __getstate__(self) -> dict[str, object]:
        self.times += 1
        return {"times": 0, "process": os.getpid()}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.made_by = state["process"]


def told_by(common: Pickled, other: Pickled | None, number: int) -> tuple[object, object, int]:
    return common.made_by, other and other.made_by, number


@dataclass(frozen=True)
class Root:
    """A square root, for which one may take one's time."""

    number: int
    folder: Path
    takes_s: float = 0.0

    @property
    def key(self) -> str:
        return f"{type(self).__name__} {self.number}"

    def __call__(self) -> dict[str, float]:
        append_line(self.folder / "begun", self.key)
        time.sleep(self.takes_s)
        self.be_of_a_kind()
        append_line(self.folder / "ended", self.key)
        return {"root": math.sqrt(self.number), "infinite": math.inf}

    def be_of_a_kind(self) -> None:
        pass


class DiesOnce(Root):
    def be_of_a_kind(self) -> None:
        if told(self.folder / "begun").count(self.key) == 1:
            os.kill(os.getpid(), signal.SIGKILL)


class DiesAlways(Root):
    def be_of_a_kind(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class Exits(Root):
    def be_of_a_kind(self) -> None:
        os._exit(0)


class NeverReturns(Root):
    """No signal reaches it."""

    def be_of_a_kind(self) -> None:
        with time_limit(0.1):
            sum(range(10**15))


class Fails(Root):
    def be_of_a_kind(self) -> None:
        raise DeliberateError(self.key)


class Circumstances(Root):
    """What a run may find other than elsewhere, unless somebody sees to it."""

    def __call__(self) -> dict[str, float]:
        in_main_thread = threading.current_thread() is threading.main_thread()
        return {"hash_of_text": hash("text") % 1_000_003, "in_main_thread": in_main_thread}


def items_of(works: Sequence[Root]) -> list[Item]:
    return [Item(work.key, work) for work in works]


def write_files(folder: Path) -> str:
    """A call with a folder."""
    (folder / "within").mkdir(parents=True, exist_ok=True)
    (folder / "within" / "file").write_text("written")
    return folder.name


def append_line(path: Path, line: str) -> None:
    """Add a line, whole also where several processes do so at once."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


def told(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def wait_for(path: Path, lines: int, within_s: float = 60.0) -> None:
    """Wait until the file has so many lines."""
    deadline = time.monotonic() + within_s
    while len(told(path)) < lines:
        assert time.monotonic() < deadline, f"{path} has {told(path)}"
        time.sleep(0.02)
