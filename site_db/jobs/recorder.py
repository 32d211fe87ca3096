"""What is recorded gets into the database, also if that cannot be reached for a while."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from site_db.jobs.records import JobRecord, JobState, Source
from site_db.jobs.writer import JobWriter
from site_db.store import Address, Unreachable, in_sentences

Batch = tuple[Source, Sequence[JobRecord]]
Keeps = Literal["jobs", "runs"]


@dataclass(frozen=True, slots=True)
class _InDoubt:
    """A batch whose commit was cut off: it is there if run `number` of the history is its last one."""

    number: int
    last: JobRecord


class Recorder:
    """Records batches of one site in the order in which they come, each in a transaction of its own.

    Where the database cannot be reached, batches wait here, and are written before the next one; `tell` gets
    one sentence when that begins and one when it ends. `keeps` says whether jobs are recorded, or their whole
    runs only.
    """

    def __init__(
        self, engine: Engine, address: Address, site: str, tell: Callable[[str], None], keeps: Keeps = "jobs"
    ) -> None:
        """Raises UnknownSite, and DatabaseTrouble where the database cannot be reached at all."""
        self._engine = engine
        self._address = address
        self._tell = tell
        self._keeps = keeps
        self._waiting: deque[Batch] = deque()
        self._in_doubt: _InDoubt | None = None
        with in_sentences(address), Session(engine) as session:
            self._writer = JobWriter(session, site)

    @property
    def waiting(self) -> Sequence[Batch]:
        """What could not be written yet."""
        return tuple(self._waiting)

    def keys(self) -> frozenset[str]:
        """The keys of all sources of which something was recorded before. Raises DatabaseTrouble."""
        with in_sentences(self._address), Session(self._engine) as session:
            return self._writer.keys(session)

    def record(self, source: Source, jobs: Sequence[JobRecord]) -> None:
        """Record a batch now or, if the database cannot be reached, later.

        Raises BadRecord, with nothing of the batch recorded, and DatabaseTrouble for a database that refuses.
        """
        self._waiting.append((source, jobs))
        self.write()

    def write(self) -> None:
        """Write what waits, as far as that is possible now. Raises as `record` does."""
        was_waiting = len(self._waiting) > 1 or self._in_doubt is not None
        while self._waiting:
            try:
                with in_sentences(self._address):
                    self._write_first()
            except Unreachable as trouble:
                if not was_waiting:
                    self._tell(f"{trouble}; what is to be recorded is kept until it can be")
                return
            except BaseException:
                self._waiting.popleft()
                raise
            self._waiting.popleft()
        if was_waiting:
            self._tell(f"{self._address}: the database can be reached again, and has everything")

    def _write_first(self) -> None:
        source, jobs = self._waiting[0]
        done = [job for job in jobs if job.state is JobState.DONE]
        try:
            with Session(self._engine) as session:
                if self._in_doubt and self._writer.is_there(
                    session, self._in_doubt.number, self._in_doubt.last
                ):
                    self._in_doubt = None
                    return
                add = self._writer.add if self._keeps == "jobs" else self._writer.add_runs
                last_number = add(session, source, jobs)
                self._in_doubt = _InDoubt(last_number, done[-1]) if done else None
                session.commit()
                self._in_doubt = None
        except BaseException:
            self._writer.forget()
            raise
