"""Recording into a database that may be unreachable for a while."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from uuid import uuid4

from sqlalchemy import Engine

from site_db import store
from site_db.jobs.records import Batch, JobRecord, Source, SourceKind
from site_db.jobs.writer import BadRecord, JobWriter
from site_db.store import Rejected, Unreachable


class Recorder:
    """Records batches of one site in order, each in its own transaction.

    While the database is unreachable, batches wait and are written before the next one; `notify` is called
    with one sentence when that begins and one when it ends. The live source has many batches; any other
    source is one batch, which is skipped if it was recorded before.

    With each batch its number is written, which tells a later attempt whether a commit with a lost answer
    happened. The site is locked before the number is read, so a commit still under way has happened, too.
    """

    def __init__(self, engine: Engine, site: str, notify: Callable[[str], None]) -> None:
        """Raises UserError, and DatabaseTrouble if the database cannot be reached."""
        self._engine = engine
        self._notify = notify
        self._numbers = count(1)
        self._waiting: deque[tuple[int, Batch, Source | None]] = deque()
        """Each batch, its number, and what it is the last one of."""
        self._name = uuid4().hex
        self._is_late = False
        """Whether a message has said that batches wait."""
        with store.reading(engine) as session:
            self._writer = JobWriter(session, site)

    @property
    def waiting(self) -> Sequence[Batch]:
        """The batches that are not written yet."""
        return tuple(batch for _, batch, _ in self._waiting)

    def record(self, source: Source, jobs: Sequence[JobRecord], completes: Source | None = None) -> None:
        """Record a batch now or, if the database is unreachable, later. The last one of several `completes`
        a source that stands for all of them, which is added in the same transaction.

        Raises BadRecord and Rejected, with nothing of the batch recorded, and DatabaseTrouble for a database
        that cannot be written: then the batch waits.
        """
        self._waiting.append((next(self._numbers), (source, jobs), completes))
        self.write()

    def write(self) -> None:
        """Write the waiting batches if the database is reachable. Raises as `record` does."""
        while self._waiting:
            try:
                self._write_once(*self._waiting[0])
            except Unreachable as trouble:
                if not self._is_late:
                    self._is_late = True
                    self._notify(f"{trouble}; records are kept until they can be written")
                return
            except (BadRecord, Rejected):
                self._waiting.popleft()
                raise
            self._waiting.popleft()
        if self._is_late:
            self._is_late = False
            self._notify(
                f"{store.address_of(self._engine)}: the database can be reached again, and has everything"
            )

    def _write_once(self, number: int, batch: Batch, completes: Source | None) -> None:
        source, jobs = batch
        try:
            with store.changing(self._engine) as session:
                self._writer.lock(session)
                if not self._writer.begin_batch(session, self._name, number):
                    return
                if source.kind is SourceKind.LIVE or not self._writer.has(session, source):
                    self._writer.add(session, source, jobs)
                if completes is not None:
                    self._writer.put(session, [completes])
        except BaseException:
            self._writer.reset()
            raise
