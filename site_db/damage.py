"""A database whose site contradicts itself, which only `sil db check` looks for in advance."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.orm import Session

from scheduler import UserError
from site_db import store
from site_db.site_file.validation import errors
from site_db.sites import SiteReader, site_at
from site_db.store import OF_DAMAGE, Address, DatabaseTrouble


@contextmanager
def opened(address: Address, is_changed: bool = False) -> Iterator[Session]:
    """As `store.opened`; errors that follow from contradictions are DatabaseTrouble, too."""
    try:
        with store.opened(address, is_changed) as session:
            yield session
    except UserError:
        raise
    except OF_DAMAGE as error:
        if (found := _contradiction(address)) is None:
            raise
        raise DatabaseTrouble(
            f"{address}: the site contradicts itself: {found} (see `sil db check`)"
        ) from error


def _contradiction(address: Address) -> str | None:
    """The first one."""
    try:
        with store.opened(address) as session:
            file = SiteReader(session, site_at(session, address)).as_file()
            return next((found for _, found in errors(file)), None)
    except (UserError, *OF_DAMAGE):
        return None
