"""The ids of a site's rows by name, and the lock for a change of the site."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from site_db.schema import OfSite, SiteRow


def ids_of(session: Session, row: type[OfSite], site_id: int, **values: Any) -> dict[str, int]:
    """The ids of a site's rows of one kind by name, in site order; only rows with these values, if any."""
    query = select(row.name, row.id).filter_by(site_id=site_id, **values).order_by(row.position, row.id)
    return dict(session.execute(query).all())


def locked_site(session: Session, name: str, description: str = "") -> SiteRow:
    """The row of a site to be changed; a new site if there is none of that name.

    Other writers of the site wait until the transaction ends, and recognise the change by the site's version.
    """
    new: dict[str, Any] = {"name": name, "description": description, "only_listed_users": False}
    new |= dict.fromkeys(("runs_recorded", "runs_pruned", "snapshot_at", "jobs_recorded", "version"), 0)
    insert = sqlite.insert if session.get_bind().dialect.name == "sqlite" else postgresql.insert
    session.execute(insert(SiteRow).values(**new).on_conflict_do_nothing(index_elements=["name"]))
    session.execute(update(SiteRow).where(SiteRow.name == name).values(version=SiteRow.version + 1))
    query = select(SiteRow).where(SiteRow.name == name).execution_options(populate_existing=True)
    return session.scalars(query).one()
