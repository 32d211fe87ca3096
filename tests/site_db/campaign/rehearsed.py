"""Preloaded by the server that forks the writers: it records once, so that every module is imported and every
statement compiled."""

from __future__ import annotations

import gc
from pathlib import Path
from tempfile import TemporaryDirectory

import sqlalchemy.dialects.postgresql.psycopg  # noqa: F401

from site_db.store import Address
from tests.site_db.campaign import writer
from tests.site_db.campaign.faults import Fault
from tests.site_db.campaign.work import Work
from tests.site_db.conftest import put_small_site


class Discarding:
    """A connection that discards the messages of a writer."""

    def send(self, said: object) -> None:
        return


with TemporaryDirectory() as folder:
    address = Address.of_file(f"{folder}/rehearsal.db")
    put_small_site(address, Path(folder))
    writer.record(address, Work("rehearsal", 3), Fault(), Discarding())
gc.collect()
gc.freeze()
