"""How long does the report of 1,000,000 jobs take to write, and how large is it?

A replay of synthetic logs under EASY, whose report is then written in its own process: reading jobs.csv and
the trace, all figures, and the schedule in levels of detail. Run with `python -m benchmarks.bench_report`;
the report of a folder with results: `python -m benchmarks.bench_report FOLDER`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.bench_replay import SEED, peak_mb
from benchmarks.record import keep
from sil.experiment.replay import replay_all
from sil.experiment.replay_folder import REPORT, render
from sil.report.analysis import ALL_JOBS
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.workers.executor import Inline, Listener
from sil.workload.job_log import JobLog
from sil.workload.lublin import Lublin

JOBS, PROCESSORS, LOAD = 1_000_000, 256, 0.9
USERS = 500
ESTIMATED_S = 300.0
"""Users' estimates are multiples of that."""


def as_of_users(log: JobLog) -> JobLog:
    """With users, some of whom submit many more jobs than others, and with round estimates."""
    rng, n = np.random.default_rng(SEED), len(log.jobs)
    users = np.minimum(rng.geometric(0.01, n), USERS)
    longest_s = log.jobs["run_s"].to_numpy() * rng.uniform(1.0, 5.0, n)
    jobs = log.jobs.with_columns(
        user=pl.Series(users), estimate_s=pl.Series(ESTIMATED_S * np.ceil(longest_s / ESTIMATED_S))
    )
    return replace(log, jobs=jobs)


def measure(folder: Path) -> dict[str, float]:
    began_s = time.process_time()
    render(folder)
    took_s = time.process_time() - began_s
    size_mb = (folder / REPORT).stat().st_size / 1e6
    return {"cpu_s": round(took_s, 1), "size_mb": round(size_mb, 1), "peak_mb": round(peak_mb())}


def main() -> None:
    log = Lublin().jobs(JOBS, PROCESSORS, np.random.default_rng(SEED)).at_load(LOAD)
    results = {}
    for name, case in {"exact estimates": log, f"{USERS} users, round estimates": as_of_users(log)}.items():
        with tempfile.TemporaryDirectory() as folder:
            replay_all(Replay(case), [resolve("easy")], Path(folder), Inline(), ALL_JOBS, Listener())
            command = [sys.executable, "-m", "benchmarks.bench_report", folder]
            printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        results[name] = json.loads(printed)
        print(f"{name}: {results[name]}")
    print(f"Kept in {keep('report', SEED, results).name}.")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(Path(sys.argv[1]))))
    else:
        main()
