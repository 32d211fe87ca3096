"""The judge: statistics that plain SQL computes anew from the recorded runs, and what was to be recorded.

It uses nothing of `site_db` but the names of tables and columns.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil, isclose
from typing import Any

import psycopg

from site_db.store import Address
from tests.site_db.campaign.work import Work

Rows = list[tuple[Any, ...]]
Query = Callable[[str], Rows]

PLACE = """
CASE WHEN {0}.machine_id IS NOT NULL THEN 'machine ' || {0}.machine_id
     WHEN {0}.machine_class_id IS NOT NULL THEN 'class ' || {0}.machine_class_id
     ELSE 'cluster ' || {0}.cluster_id || ' with ' || {0}.members END
"""
RUNS = f"""
SELECT h.job_class_id, {PLACE.format("h")} AS place, h.number, h.run_time_s AS t, h.size AS x
  FROM execution_history h
UNION ALL
SELECT h.job_class_id, 'class ' || h.machine_class_id, h.number, h.run_time_s, h.size
  FROM execution_history h WHERE h.machine_id IS NOT NULL
"""
RECOMPUTED = f"""
WITH run AS ({RUNS}),
at AS (SELECT runs_recorded AS number FROM site UNION SELECT number FROM execution_snapshot),
cell AS (
  SELECT at.number AS up_to, run.*, avg(t) OVER everything AS mean_t, avg(x) OVER everything AS mean_x,
         avg(CASE WHEN x IS NOT NULL THEN t END) OVER everything AS sized_t
  FROM run JOIN at ON run.number <= at.number
  WINDOW everything AS (PARTITION BY at.number, job_class_id, place)
)
SELECT up_to, job_class_id, place, max(number), count(*), max(mean_t), sum((t - mean_t) * (t - mean_t)),
       min(t), count(x), coalesce(max(sized_t), 0), coalesce(max(mean_x), 0),
       coalesce(sum((x - mean_x) * (x - mean_x)), 0), coalesce(sum((t - sized_t) * (x - mean_x)), 0)
FROM cell GROUP BY up_to, job_class_id, place
"""
MOMENTS = (
    "count",
    "mean_s",
    "squares_s2",
    "least_s",
    "sized_count",
    "sized_mean_s",
    "mean_size",
    "squares_size2",
    "products",
)
STORED = f"""
SELECT site.runs_recorded, s.job_class_id, {PLACE.format("s")}, s.changed_at,
       {", ".join(f"s.{m}" for m in MOMENTS)}, s.sketch FROM execution_statistics s CROSS JOIN site
"""
SNAPSHOTS = f"""
SELECT c.number, s.job_class_id, {PLACE.format("s")}, NULL, {", ".join(f"c.{m}" for m in MOMENTS)}, c.sketch
  FROM execution_snapshot c JOIN execution_statistics s ON s.id = c.statistics_id
"""
USAGE = """
SELECT u.name, j.queue, count(*), count(j.run_number), coalesce(sum(h.run_time_s), 0) FROM job j
  JOIN site_user u ON u.id = j.user_id LEFT JOIN execution_history h ON h.number = j.run_number
  GROUP BY u.name, j.queue ORDER BY 1, 2
"""
STORED_USAGE = """
SELECT u.name, s.queue, s.jobs_submitted, s.runs, s.execution_time_s FROM user_usage s
  JOIN site_user u ON u.id = s.user_id ORDER BY 1, 2
"""
JOBS = """
SELECT j.number, j.state, h.run_time_s, h.size, s.key,
       (SELECT count(*) FROM prediction p WHERE p.job_serial = j.serial)
  FROM job j JOIN source s ON s.id = j.source_id
  LEFT JOIN execution_history h ON h.number = j.run_number AND h.source_id = j.source_id ORDER BY j.serial
"""
NUMBERS = """
SELECT (SELECT count(*) FROM execution_history), (SELECT coalesce(max(number), 0) FROM execution_history),
       (SELECT count(DISTINCT run_number) FROM job), (SELECT runs_recorded FROM site),
       (SELECT count(*) FROM job), (SELECT coalesce(max(serial), 0) FROM job),
       (SELECT jobs_recorded FROM site)
"""


def judge(address: Address, *works: Work) -> list[int]:
    """Assert that the database is consistent, and has nothing but the first batches of each writer, in their
    order and once each. Returns how many batches of each."""
    with _asking(address) as ask:
        _assert_numbered_without_gaps(ask(NUMBERS)[0])
        _assert_equal_to_recomputed(ask)
        assert [row[:4] for row in ask(STORED_USAGE)] == [row[:4] for row in ask(USAGE)]
        for stored, expected in zip(ask(STORED_USAGE), ask(USAGE), strict=True):
            assert isclose(stored[4], expected[4], rel_tol=1e-9), stored
        return _batches_recorded(ask, works)


def assert_complete(address: Address, *works: Work) -> None:
    """Assert, too, that it has all batches."""
    assert judge(address, *works) == [work.batches for work in works]


@contextmanager
def _asking(address: Address) -> Iterator[Query]:
    """One state of the database for all queries."""
    if address.path is not None:
        lite = sqlite3.connect(address.path, isolation_level=None)
        try:
            lite.execute("BEGIN")
            yield lambda query: lite.execute(query).fetchall()
            assert lite.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert lite.execute("PRAGMA foreign_key_check").fetchall() == []
        finally:
            lite.close()
        return
    url = address.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield lambda query: connection.execute(query.encode()).fetchall()


def _assert_numbered_without_gaps(numbers: Sequence[int]) -> None:
    runs, last_run, runs_of_jobs, runs_recorded, jobs, last_job, jobs_recorded = numbers
    assert runs == last_run == runs_of_jobs == runs_recorded
    assert jobs == last_job == jobs_recorded


def _assert_equal_to_recomputed(ask: Query) -> None:
    recomputed = {row[:3]: row[3:] for row in ask(RECOMPUTED)}
    now = ask(STORED)
    last = max((key[0] for key in recomputed), default=0)
    assert sorted(row[:3] for row in now) == sorted(key for key in recomputed if key[0] == last)
    times_s: defaultdict[tuple[int, str], list[tuple[int, float]]] = defaultdict(list)
    for job_class_id, place, number, time_s, _ in ask(RUNS):
        times_s[job_class_id, place].append((number, time_s))
    for number, job_class_id, place, changed_at, *moments, sketch in [*now, *ask(SNAPSHOTS)]:
        changed, *expected = recomputed[number, job_class_id, place]
        assert changed <= (number if changed_at is None else changed_at) <= number  # the last run of a batch
        _assert_close(dict(zip(MOMENTS, moments, strict=True)), dict(zip(MOMENTS, expected, strict=True)))
        _assert_quantiles(sketch, sorted(t for n, t in times_s[job_class_id, place] if n <= number))


def _assert_close(stored: dict[str, float], expected: dict[str, float]) -> None:
    """Sums of squares and products may be near zero: they are as exact as their factors."""
    n, time_s, size = expected["count"], expected["mean_s"], expected["mean_size"]
    scale = {"squares_s2": n * time_s**2, "squares_size2": n * size**2, "products": n * time_s * size}
    for name in MOMENTS:
        tolerance = 1e-12 * scale.get(name, 0.0)
        assert isclose(stored[name], expected[name], rel_tol=1e-9, abs_tol=tolerance), (
            name,
            stored,
            expected,
        )


def _assert_quantiles(sketch: bytes, times_s: Sequence[float]) -> None:
    """Bins are integers of 4 bytes, then their counts; a bin has what is within 1 % of its middle."""
    numbers = array("i", bytes(sketch))
    n = len(numbers) // 2
    bins = sorted(zip(numbers[:n], numbers[n:], strict=True))
    assert sum(count for _, count in bins) == len(times_s)
    values = [2 * (1.01 / 0.99) ** b / (1.01 / 0.99 + 1) for b, count in bins for _ in range(count)]
    for q in (0.01, 0.5, 0.95, 1.0):
        k = ceil(q * len(times_s)) - 1
        assert isclose(values[k], times_s[k], rel_tol=0.01 + 1e-9)


def _batches_recorded(ask: Query, works: Sequence[Work]) -> list[int]:
    recorded: defaultdict[str, Rows] = defaultdict(list)
    for row in ask(JOBS):
        recorded[row[0].partition("-")[0]].append(row)
    keys = {key for (key,) in ask("SELECT key FROM source")}
    counts = []
    for work in works:
        found = recorded.pop(work.name, [])
        expected: Rows = []
        n = 0
        while len(expected) < len(found):
            expected += [
                (job.number, job.state.value, job.run_time_s, job.size if job.run_time_s else None,
                 work.source(n).key, (job.expected_s is not None) + len(job.predicted))
                for job in work.jobs(n)
            ]  # fmt: skip
            n += 1
        assert found == expected, work
        if not work.live:
            assert {key for key in keys if key.startswith(f"{work.name}/")} == {
                work.source(k).key for k in range(n)
            }
        assert (work.complete.key in keys) == (n == work.batches)
        counts.append(n)
    assert not recorded
    return counts
