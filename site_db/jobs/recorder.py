"""What is recorded gets into the database, also if that cannot be reached for a while."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal
from uuid import uuid4

from sqlalchemy import Engine

from site_db import store
from site_db.jobs.records import JobRecord, Source, SourceKind
from site_db.jobs.writer import BadRecord, JobWriter
from site_db.store import Rejected, Unreachable

Batch = tuple[Source, Sequence[JobRecord]]
Keeps = Literal["jobs", "runs"]


class Recorder:
    """Records batches of one site in the order in which they come, each in a transaction of its own.

    Where the database cannot be reached, batches wait here, and are written before the next one; `tell` gets
    one sentence when that begins and one when it ends. `keeps` says whether jobs are recorded, or their whole
    runs only. A batch of the site's own source is one of many; any other is all that its source has to tell,
    and is left out where somebody has recorded that before.
    """

    def __init__(self, engine: Engine, site: str, tell: Callable[[str], None], keeps: Keeps = "jobs") -> None:
        """Raises UnknownSite, and DatabaseTrouble where the database cannot be reached at all."""
        self._engine = engine
        self._tell = tell
        self._keeps = keeps
        self._waiting: deque[Batch] = deque()
        self._name = uuid4().hex
        self._written = 0
        self._in_doubt = False
        """The answer to a commit was cut off."""
        with store.reading(engine) as session:
            self._writer = JobWriter(session, site)

    @property
    def waiting(self) -> Sequence[Batch]:
        """What could not be written yet."""
        return tuple(self._waiting)

    def record(self, source: Source, jobs: Sequence[JobRecord]) -> None:
        """Record a batch now or, if the database cannot be reached, later.

        Raises BadRecord and Rejected, with nothing of the batch recorded, and DatabaseTrouble for a database
        that takes nothing now: then the batch waits.
        """
        self._waiting.append((source, jobs))
        self.write()

    def write(self) -> None:
        """Write what waits, as far as that is possible now. Raises as `record` does."""
        was_waiting = len(self._waiting) > 1 or self._in_doubt
        while self._waiting:
            try:
                self._write_first()
            except Unreachable as trouble:
                if not was_waiting:
                    self._tell(f"{trouble}; what is to be recorded is kept until it can be")
                return
            except (BadRecord, Rejected):
                self._waiting.popleft()
                raise
            self._waiting.popleft()
        if was_waiting:
            self._tell(
                f"{store.address_of(self._engine)}: the database can be reached again, and has everything"
            )

    def _write_first(self) -> None:
        source, jobs = self._waiting[0]
        try:
            with store.changing(self._engine) as session:
                self._writer.lock(session)
                if self._in_doubt and self._writer.batches_of(session, self._name) > self._written:
                    self._written, self._in_doubt = self._written + 1, False
                    return
                self._in_doubt = False
                is_new = source.kind is SourceKind.LIVE or not self._writer.knows(session, source)
                if is_new:
                    add = self._writer.add if self._keeps == "jobs" else self._writer.add_runs
                    add(session, source, jobs)
                    self._writer.count_batch_of(session, self._name)
                    self._in_doubt = True
            self._in_doubt = False
            if is_new:
                self._written += 1
        except BaseException:
            self._writer.forget()
            raise
