"""A simulated site: users who are alike from day to day, and ask for more time than they need."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from sil.api.logs import log_from
from sil.forecast.forward import KnownJobs, PolicyOfLog
from sil.runs.under_test import schedulers_for_logs
from sil.workload.job_log import JobLog

PROCESSORS = 128
LIMITS_S = 3_600.0 * np.array([0.5, 1, 2, 4, 8, 24])


def simulated_site(n_jobs: int, seed: int, load: float = 0.8, n_users: int = 40) -> JobLog:
    """Arrivals are more frequent by day and on weekdays; each user has sizes, limits and a typical share of
    the limits that runs take."""
    rng = np.random.default_rng(seed)
    hours = np.cumsum(rng.exponential(1.0, 3 * n_jobs))
    by_day = 0.2 + 0.8 * np.clip(np.sin((hours % 24 - 6) / 24 * 2 * np.pi), 0, 1)
    kept = hours[rng.random(len(hours)) < by_day * np.where(hours // 24 % 7 < 5, 1.0, 0.4)][:n_jobs]
    users = rng.zipf(1.5, len(kept)) % n_users
    limit_s = LIMITS_S[(users + rng.integers(0, 2, len(kept))) % len(LIMITS_S)]
    share = rng.beta(1 + users % 5, 1 + users % 3)
    size = 2 ** ((users + rng.integers(0, 3, len(kept))) % 7)
    table = {
        "submit_s": np.round(3_600.0 * kept),
        "run_s": np.maximum(np.round(limit_s * share), 1.0),
        "processors": size,
        "estimate_s": limit_s,
        "user": users,
    }
    return log_from(table, PROCESSORS, name="a simulated site").at_load(load)


def replayed(log: JobLog, scheduler: str = "easy") -> KnownJobs:
    (found,) = schedulers_for_logs([scheduler])
    return KnownJobs.under(PolicyOfLog(log, found))


def log_of(*rows: tuple[float, float, int, float], processors: int = 4) -> JobLog:
    """A log of jobs: submit_s, run_s, processors, estimate_s."""
    columns = ("submit_s", "run_s", "processors", "estimate_s")
    table = pl.DataFrame(rows, dict.fromkeys(columns, pl.Float64), orient="row", strict=False)
    return replace(log_from(table.with_columns(pl.col("processors").cast(pl.Int64), user=1), processors))
