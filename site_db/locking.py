"""Whoever changes a site does so alone."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from site_db.schema import SiteRow


def locked_site(session: Session, name: str, description: str = "") -> SiteRow:
    """The row of a site that is to be changed, which is added where there is none of that name.

    Others who would change the site or record in it wait until the transaction ends, and learn of the change
    by the version of the site.
    """
    new: dict[str, Any] = {"name": name, "description": description, "only_listed_users": False}
    new |= dict.fromkeys(("runs_recorded", "runs_pruned", "snapshot_at", "jobs_recorded", "version"), 0)
    insert = sqlite.insert if session.get_bind().dialect.name == "sqlite" else postgresql.insert
    session.execute(insert(SiteRow).values(**new).on_conflict_do_nothing(index_elements=["name"]))
    session.execute(update(SiteRow).where(SiteRow.name == name).values(version=SiteRow.version + 1))
    query = select(SiteRow).where(SiteRow.name == name).execution_options(populate_existing=True)
    return session.scalars(query).one()
