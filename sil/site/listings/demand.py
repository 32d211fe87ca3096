"""What the past jobs of a site requested and used, as a listing."""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy.orm import Session

from scheduler import UserError
from sil.report.listing import Column, Listing, Row, number, text
from site_db.jobs.demand import demand
from site_db.jobs.records import DemandBy
from site_db.site_file.nodes import cluster_of, held_by_class
from site_db.sites import SiteReader


def past_demand(session: Session, reader: SiteReader, by: DemandBy) -> Listing:
    """The number of past jobs, how many completed, CPU hours, GPU hours and the mean wait. Raises
    UserError."""
    ids, file = reader.ids("job_classes"), reader.as_file()
    held_by = {ids[name]: held for name, held in held_by_class(file, cluster_of(file)).items()}
    found = demand(session, reader.site.id, held_by, by)
    if not found:
        raise UserError(
            f"the site '{reader.site.name}' has no past jobs; import them from a log (`sil db import-sacct`)"
        )
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
    return Listing("demand", f"Demand at {reader.site.name} by {by.value}", columns, rows)
