"""What happens inside of a writer. A fault `begins` before it opens the database, and `ends` before it writes
for the last time what it could not write."""

from __future__ import annotations

import os
import resource
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import psycopg
from sqlalchemy import Connection, Engine, event
from sqlalchemy.orm import Session


@dataclass
class Fault:
    """SIGKILL at the `at`-th moment (0: never). Moments are before each statement, before each row of a COPY,
    and before a COMMIT, on a server also after it was sent, and after it was answered."""

    at: int = 0
    moments = 0

    def begin(self) -> None:
        write_row = psycopg.Copy.write_row

        def write_row_in_time(copy: Any, row: Any) -> None:
            self._pass_moment()
            write_row(copy, row)

        psycopg.Copy.write_row = write_row_in_time  # type: ignore[method-assign]
        event.listen(Engine, "before_cursor_execute", lambda *_: self._pass_moment())
        event.listen(Engine, "commit", self._commit)
        event.listen(Session, "after_commit", lambda _: self._pass_moment())

    def end(self) -> None:
        return

    def _pass_moment(self) -> None:
        self.moments += 1
        if self.moments == self.at:
            os.kill(os.getpid(), signal.SIGKILL)

    def _commit(self, connection: Connection) -> None:
        self._pass_moment()
        if connection.dialect.name == "postgresql":
            if self.moments + 1 == self.at:
                driver: Any = connection.connection.driver_connection
                driver.pgconn.send_query(b"COMMIT")
                driver.pgconn.flush()
            self._pass_moment()


@dataclass
class LostAnswers(Fault):
    """The connection to a server breaks at about every other COMMIT, before it is sent or answered."""

    seed: int = 0

    def begin(self) -> None:
        super().begin()
        rng = Random(self.seed)

        def lose(connection: Connection) -> None:
            what = rng.choice(("nothing", "nothing", "the answer", "the statement"))
            if what != "nothing":
                driver: Any = connection.connection.driver_connection
                if what == "the answer":
                    driver.pgconn.send_query(b"COMMIT")
                    driver.pgconn.flush()
                driver.pgconn.finish()

        event.listen(Engine, "commit", lose)


@dataclass
class FileLimit(Fault):
    """No file may grow beyond so many bytes: a write is cut there, and the next one fails with EFBIG or, if
    the writer `dies`, kills it."""

    n_bytes: int = 0
    dies: bool = False

    def begin(self) -> None:
        super().begin()
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if self.dies else signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        self._limit(self.n_bytes)

    def end(self) -> None:
        self._limit(resource.RLIM_INFINITY)

    def _limit(self, n_bytes: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, resource.RLIM_INFINITY))


@dataclass
class PageLimit(Fault):
    """An SQLite file may have so many pages more than at the beginning, as if the disk was full then."""

    n_pages: int = 0
    most = 0

    def begin(self) -> None:
        super().begin()
        event.listen(Engine, "begin", self._limit)

    def end(self) -> None:
        self.most = 2**30

    def _limit(self, connection: Connection) -> None:
        driver: Any = connection.connection.driver_connection
        (now,) = driver.execute("PRAGMA page_count").fetchone()
        self.most = self.most or now + self.n_pages
        driver.execute(f"PRAGMA max_page_count = {self.most}")


@dataclass
class Checkpoints(Fault):
    """The log of SQLite is written into its file all the time."""

    def begin(self) -> None:
        super().begin()
        event.listen(Engine, "connect", lambda driver, _: driver.execute("PRAGMA wal_autocheckpoint = 2"))


@dataclass
class FullDisk(Fault):
    """A disk is full from the beginning until the file `filler` is deleted at the end."""

    filler: str = ""

    def end(self) -> None:
        Path(self.filler).unlink(missing_ok=True)


@dataclass
class JumpingClock(Fault):
    """The system clock is set anew, by seconds to years in either direction, whenever it is read."""

    seed: int = 0

    def begin(self) -> None:
        super().begin()
        rng, real = Random(self.seed), time.time
        time.time = lambda: real() + rng.choice((-1, 1)) * rng.lognormvariate(8.0, 5.0)
