"""`sil db demand`: what the past jobs of a site requested and used."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from sil.cli import options
from sil.cli.console import print_listings
from sil.cli.db.database import DEFAULT, Database, opened
from site_db.jobs.records import DemandBy


def demand(
    db: Database = DEFAULT,
    by: Annotated[DemandBy, Option(help="Add up the jobs by this.")] = DemandBy.PARTITION,
    as_json: options.Json = False,
) -> None:
    """Show the demand of past jobs: their number, how many completed, CPU hours, GPU hours and mean wait."""
    from sil.site.listings.demand import past_demand
    from site_db.sites import SiteReader, site_at

    with opened(db) as (session, address):
        listing = past_demand(session, SiteReader(session, site_at(session, address)), by)
    print_listings([listing], as_json)
