"""Sites in databases, from Python."""

from __future__ import annotations

import polars as pl

from sil.declared import choice
from sil.report.listing import Listing
from sil.site.experience_listings import latest_runs, one_job_class, overview, past_demand
from site_db import sites, store
from site_db.exchange import exported
from site_db.jobs.records import DemandBy
from site_db.site_file.importing import site_text
from site_db.sites import SiteReader, site_at, site_names

HISTORY = {
    "number": pl.Int64,
    "job_class": pl.String,
    "resource": pl.String,
    "members": pl.Int64,
    **dict.fromkeys(("started_s", "run_time_s", "size"), pl.Float64),
    **dict.fromkeys(("user", "queue", "source_kind", "source"), pl.String),
}
"""The columns of a site's history; times are seconds, `started_s` since 1970."""


class Site:
    """A site in a database: what `sil db` lists of it, as Polars frames. It is read at each call, and
    nothing here changes it."""

    def __init__(self, address: store.Address, name: str) -> None:
        self.address = str(address)
        self.name = name
        self._address = address

    @classmethod
    def open(cls, address: str) -> Site:
        """A site by the address of its database: "site.db", "site.db#NAME" if it has several, or the URL of a
        PostgreSQL database. Raises UserError if there is none."""
        parsed = store.parse_address(address)
        with sites.opened(parsed) as session:
            name = site_at(session, parsed)
            SiteReader(session, name)
        return cls(parsed, name)

    @staticmethod
    def names(address: str) -> list[str]:
        """The names of all sites in a database. Raises UserError if it cannot be read."""
        with sites.opened(store.parse_address(address)) as session:
            return list(site_names(session))

    @property
    def tables(self) -> dict[str, pl.DataFrame]:
        """The listings of `sil db show`: machines, partitions, clusters, states, queues, users,
        expected_times and others, by name."""
        with sites.opened(self._address) as session:
            return {listing.name: _frame(listing) for listing in overview(session, self.name)}

    def expected_times(self, job_class: str) -> pl.DataFrame:
        """A row for each resource: the expected run time of a job class there (seconds), its deviation, the
        number of runs behind it and the rule of estimation. Raises UserError for an unknown class."""
        with sites.opened(self._address) as session:
            return _frame(one_job_class(session, self.name, job_class))

    def history(self, last: int = 20) -> pl.DataFrame:
        """A row for each of the latest completed runs, oldest first. The columns are HISTORY."""
        with sites.opened(self._address) as session:
            return pl.DataFrame(list(latest_runs(session, self.name, last).rows), schema=HISTORY)

    def demand(self, by: str = "partition") -> pl.DataFrame:
        """Past jobs by partition, account, qos, user or outcome: their number, CPU hours, GPU hours and mean
        wait. Raises UserError without past jobs, or for another word."""
        with sites.opened(self._address) as session:
            reader = SiteReader(session, self.name)
            return _frame(past_demand(session, reader, choice(DemandBy, by, "by")))

    def as_toml(self) -> str:
        """The site as a site file, with the times that are expected now."""
        with sites.opened(self._address) as session:
            return site_text(exported(session, self.name))

    def __repr__(self) -> str:
        return f"Site {self.name} in {self.address}"


def _frame(listing: Listing) -> pl.DataFrame:
    return pl.DataFrame(list(listing.rows), infer_schema_length=None)
