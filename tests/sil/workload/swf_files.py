"""Small SWF logs for tests, and what holds for every log that was read."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from sil.trace.log_ids import LOG_ID
from sil.workload.job_log import SCHEMA, JobLog
from site_db.jobs.swf import FIELDS

GOOD = "1 0 5 60 4 -1 -1 4 90 -1 1 7 1 3 1 1 -1 -1"
HEADER = "; Version: 2.2\n; MaxProcs: 8\n"


def job(**fields: float | str) -> str:
    """The line of a good job, with some of its FIELDS put otherwise."""
    texts = dict(zip(FIELDS, GOOD.split(), strict=True))
    assert fields.keys() <= texts.keys()
    return " ".join({**texts, **{name: str(value) for name, value in fields.items()}}.values())


def log_file(folder: Path, *lines: str, header: str = HEADER) -> Path:
    path = folder / "log.swf"
    path.write_text(header + "".join(f"{line}\n" for line in lines))
    return path


def assert_sound(log: JobLog) -> None:
    """The properties that a replay relies on."""
    jobs = log.jobs
    assert jobs.drop(LOG_ID, strict=False).schema == pl.Schema(SCHEMA)
    assert len(jobs) >= 1
    assert not sum(jobs.null_count().row(0))
    assert all(jobs[name].is_finite().all() for name in ("submit_s", "run_s", "estimate_s"))
    assert jobs.equals(jobs.sort("submit_s", "job"))
    assert jobs["job"].is_unique().all()
    assert (jobs["job"] >= 1).all()
    assert (jobs["submit_s"] >= 0).all()
    assert jobs["processors"].is_between(1, log.processors).all()
    assert (jobs["run_s"] >= 1).all()
    assert (jobs["estimate_s"] >= jobs["run_s"]).all()
    assert (jobs["user"] >= -1).all()
