"""The database and site that a `sil db` command names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from sil.cli.console import one_sentence_for_bad_input

if TYPE_CHECKING:
    from sqlalchemy import Engine
    from sqlalchemy.orm import Session

    from site_db.store import Address

Where = Annotated[
    str,
    typer.Option("--db", metavar="DATABASE#SITE", envvar="SIL_DATABASE", help="The database, and its site."),
]
DEFAULT = "site.db"


@contextmanager
def reading(db: str) -> Iterator[tuple[Session, Address]]:
    """A session that sees one state of the database; errors end the command with one sentence."""
    from site_db import store

    with _opened(db) as (engine, address), store.reading(engine) as session:
        yield session, address


@contextmanager
def changing(db: str) -> Iterator[tuple[Session, Address]]:
    """A session that is committed at the end; errors end the command with one sentence."""
    from site_db import store

    with _opened(db) as (engine, address), store.changing(engine) as session:
        yield session, address


def site_of(session: Session, address: Address) -> str:
    """The name of the site in the address, or of the only site."""
    from site_db.sites import only_site

    return address.site or only_site(session)


@contextmanager
def _opened(db: str) -> Iterator[tuple[Engine, Address]]:
    from site_db import store

    with one_sentence_for_bad_input():
        address = store.parse_address(db)
        engine = store.open_database(address)
        try:
            yield engine, address
        finally:
            engine.dispose()
