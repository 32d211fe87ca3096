"""`sil db demand`: what the past jobs of a site requested and used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from typer import Option

from sil.cli import console, options
from sil.cli.console import Column, Listing, Row, number, print_listings, text
from sil.cli.db.database import DEFAULT, Database, opened, site_of
from site_db.jobs.records import DemandBy

if TYPE_CHECKING:
    from site_db.jobs.demand import Demand


def demand(
    db: Database = DEFAULT,
    by: Annotated[DemandBy, Option(help="Add up the jobs by this.")] = DemandBy.PARTITION,
    as_json: options.Json = False,
) -> None:
    """Show the demand of past jobs: their number, how many completed, CPU hours, GPU hours and mean wait."""
    from site_db.jobs.demand import demand
    from site_db.site_file.nodes import cluster_of, held_by_class
    from site_db.sites import SiteReader

    with opened(db) as (session, address):
        reader = SiteReader(session, site_of(session, address))
        ids = reader.ids("job_classes")
        file = reader.as_file()
        held_by = {ids[name]: held for name, held in held_by_class(file, cluster_of(file)).items()}
        found = demand(session, reader.site.id, held_by, by)
    if not found:
        console.fail(
            f"{address}: the site '{reader.site.name}' has no past jobs; import them from a log "
            f"(`sil db import-sacct`)"
        )
    print_listings([_listing(found, by, reader.site.name)], as_json)


def _listing(found: Mapping[str, Demand], by: DemandBy, site: str) -> Listing:
    rows: list[Row] = [
        {
            by.value: name or "none",
            **asdict(one),
            "completed_percent": 100.0 * one.completed / one.jobs,
            "mean_waiting_s": one.waiting_s / one.jobs,
        }
        for name, one in found.items()
    ]
    columns = [
        text(by.value),
        number("jobs"),
        Column("completed (%)", lambda row: f"{row['completed_percent']:.1f}", is_number=True),
        number("CPU hours", "cpu_h", ",.1f"),
        number("GPU hours", "gpu_h", ",.1f"),
        number("mean wait (s)", "mean_waiting_s", ",.1f"),
    ]
    return Listing("demand", f"Demand at {site} by {by.value}", columns, rows)
