"""The database and site that a `sil db` command names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from typer import Option

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from site_db.store import Address

Database = Annotated[
    str,
    Option("--db", metavar="DATABASE#SITE", envvar="SIL_DATABASE", help="The database, and its site."),
]
DEFAULT = "site.db"


@contextmanager
def opened(db: str, changing: bool = False) -> Iterator[tuple[Session, Address]]:
    """A session that sees one state of the database or, if `changing`, is committed at the end. Errors end
    the command with one sentence."""
    from site_db import damage, store

    address = store.parse_address(db)
    with damage.opened(address, changing) as session:
        yield session, address
