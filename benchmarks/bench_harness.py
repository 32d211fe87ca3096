"""What is the overhead of the testbed per job, in addition to the scheduler's decisions?

One run of MCT on the site of Collins and George, jobs arriving one by one. The baseline is a bare loop
over the same jobs with only an array of ready times: no manager, no ports, no events, no
trace. The cost per job must not grow with the number of jobs. Run with `python -m
benchmarks.bench_harness`.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.record import keep
from scheduler.model import Job
from sil.runs.scenario import scenario_of
from sil.runs.simulation import RunKey
from sil.settings.experiment_file import Experiment
from sil.site.site_in_use import SiteInUse, SiteSource

SEED = 2001
JOBS = (1_000, 4_000, 16_000)


def experiment_of(jobs: int) -> Experiment:
    arrivals = {"kind": "poisson", "jobs_per_quantum": 4.0}
    settings = {"name": "bench", "site": "hcs-2001", "seed": SEED, "schedulers": ("mct",)}
    return Experiment.model_validate({**settings, "workload": {"jobs": jobs, "arrivals": arrivals}})


def bare_mct(jobs: list[Job], in_use: SiteInUse) -> float:
    """Makespan of a bare MCT."""
    n_machines = in_use.site.n_machines
    ready_s = np.zeros(n_machines)
    etc = in_use.experience().estimate(jobs, [len(members) for members in in_use.site.members])
    for i, job in enumerate(jobs):
        completion_s = np.maximum(ready_s, job.arrival_s) + etc.row(i)[:n_machines]
        j = int(completion_s.argmin())
        ready_s[j] = completion_s[j]
    return float(ready_s.max())


def main() -> None:
    table = Table(title="Wall time per job (µs)", title_justify="left")
    for column in ("jobs", "whole run", "of which decisions", "bare MCT", "run / bare"):
        table.add_column(column, justify="right")
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for n in JOBS:
            experiment = experiment_of(n)
            in_use = SiteSource(experiment, Path(), None).snapshot(Path(folder) / f"{n}.db")
            scenario = scenario_of(experiment, in_use)
            began = time.perf_counter()
            timings = scenario.run(RunKey(0, 0, "mct")).timings
            whole_us = 1e6 * (time.perf_counter() - began) / n
            jobs = scenario.jobs()
            began = time.perf_counter()
            bare_mct(jobs, in_use)
            bare_us = 1e6 * (time.perf_counter() - began) / n
            decisions_us = 1e6 * float(timings["wall_s"].sum()) / n
            figures = (whole_us, decisions_us, bare_us, whole_us / bare_us)
            table.add_row(f"{n:,}", *(f"{figure:,.1f}" for figure in figures))
            names = ("whole_us_per_job", "decisions_us_per_job", "bare_us_per_job", "ratio")
            results.append({"jobs": n, **dict(zip(names, (round(f, 2) for f in figures), strict=True))})
    Console().print(table)
    print(f"Kept in {keep('harness', SEED, results).name}.")


if __name__ == "__main__":
    main()
