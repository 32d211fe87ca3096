"""What the process does from which writers are forked: it records once, so that all is imported and compiled."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import sqlalchemy.dialects.postgresql.psycopg  # noqa: F401

from site_db import store
from site_db.jobs.recorder import Recorder
from site_db.store import parse_address
from tests.site_db.campaign.work import SITE, Work
from tests.site_db.conftest import put_small_site

with TemporaryDirectory() as folder:
    address = parse_address(f"{folder}/rehearsal.db")
    put_small_site(address, Path(folder))
    engine = store.open_database(address)
    recorder = Recorder(engine, SITE, print)
    for k in range(3):
        recorder.record(Work("rehearsal", 3).source(k), Work("rehearsal", 3).jobs(k))
    engine.dispose()
