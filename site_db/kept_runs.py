"""Finished runs in an SQLite file, from which an interrupted command resumes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import URL, Engine, create_engine, event, inspect, select
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.schema import CreateTable

from site_db.store import BUSY_TIMEOUT_S, Address, DatabaseTrouble, in_sentences

ASKED_AT_ONCE = 1000
"""Keys in one query; SQLite takes no more than some ten thousand."""


class _Base(DeclarativeBase):
    """Apart from the tables of sites, which have versions; these runs can be carried out again."""


class KeptRunRow(_Base):
    """One run that is over."""

    __tablename__ = "kept_run"

    key: Mapped[str] = mapped_column(primary_key=True)
    measures: Mapped[str]
    """A JSON object of numbers, with NaN and Infinity as Python writes them."""


class KeptRuns:
    """The measures of runs, by their keys, in the file `path`; it is made where there is none.

    Several commands may use one file at once. Raises DatabaseTrouble, here and in all methods, where the file
    is damaged, is no database or another one, or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._address = Address(URL.create("sqlite", database=str(path)))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DatabaseTrouble(f"{path}: its folder cannot be made: {error.strerror}") from None
        self._engine = _engine(self._address)
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._engine.dispose()

    def get_many(self, keys: Sequence[str]) -> dict[str, dict[str, float]]:
        """The measures of those of the runs `keys` that are kept."""
        found: dict[str, dict[str, float]] = {}
        with in_sentences(self._address), Session(self._engine) as session:
            for first in range(0, len(keys), ASKED_AT_ONCE):
                rows = select(KeptRunRow.key, KeptRunRow.measures).where(
                    KeptRunRow.key.in_(keys[first : first + ASKED_AT_ONCE])
                )
                found.update((key, self._read(key, measures)) for key, measures in session.execute(rows))
        return found

    def put(self, key: str, measures: Mapping[str, float]) -> None:
        """Keep a run; it is in the file when this returns. One that is kept already stays as it is."""
        row = {"key": key, "measures": json.dumps(dict(measures))}
        with in_sentences(self._address), Session(self._engine) as session, session.begin():
            session.execute(insert(KeptRunRow).values(row).on_conflict_do_nothing())

    def _begin(self) -> None:
        with in_sentences(self._address), self._engine.connect() as connection:
            # A file that was cut off may show it only much later, in the middle of a command.
            if connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one() != "ok":
                raise self._damaged()
            others = set(inspect(connection).get_table_names()) - {KeptRunRow.__tablename__}
            if others:
                raise DatabaseTrouble(f"{self._address}: this is another database, and none of finished runs")
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")
            # No question first: another command may make the table at this moment.
            connection.execute(CreateTable(_Base.metadata.tables["kept_run"], if_not_exists=True))
            connection.commit()

    def _read(self, key: str, measures: str) -> dict[str, float]:
        try:
            return {name: float(measure) for name, measure in json.loads(measures).items()}
        except (ValueError, AttributeError, TypeError):
            raise self._damaged() from None

    def _damaged(self) -> DatabaseTrouble:
        return DatabaseTrouble(
            f"{self._address}: the file is damaged; remove it, and the runs are done again"
        )


def _engine(address: Address) -> Engine:
    engine = create_engine(address.url, connect_args={"timeout": BUSY_TIMEOUT_S})
    event.listen(engine, "connect", _prepare)
    return engine


def _prepare(connection: sqlite3.Connection, _record: Any) -> None:
    # With a write-ahead log this survives a killed process; only a power cut may take the last commits.
    connection.execute("PRAGMA synchronous = NORMAL")
