"""How many jobs per second does a scheduler over Batsim's protocol process?

The first 5,000 jobs of KTH-SP2, or as many synthetic ones, under a trivial first-come-first-served client,
under our own EASY behind `sil serve-scheduler`, and as the baseline under that EASY without a socket: from
the start of the client to the closed trace, the best of three. Run with `python -m benchmarks.bench_batsim`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.bench_replay import LOGS
from benchmarks.record import keep
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.workload.job_log import JobLog
from sil.workload.lublin import Lublin
from sil.workload.swf import read_swf

SEED = 1
JOBS = 5_000
RUNS = 3
LISTEN = "tcp://127.0.0.1:{port}"

TRIVIAL = """
import json, sys, zmq
socket = zmq.Context().socket(zmq.REP)
socket.bind(sys.argv[1])
waiting, free, held, is_over = [], [], {}, False
while not is_over:
    message = json.loads(socket.recv())
    decisions = []
    for event in message["events"]:
        data = event["data"]
        if event["type"] == "SIMULATION_BEGINS":
            free = list(range(data["nb_resources"]))
        elif event["type"] == "JOB_SUBMITTED":
            waiting.append((data["job_id"], data["job"]["res"]))
        elif event["type"] == "JOB_COMPLETED":
            free += held.pop(data["job_id"])
        is_over = event["type"] == "SIMULATION_ENDS"
    while waiting and waiting[0][1] <= len(free):
        job_id, size = waiting.pop(0)
        held[job_id], free = free[:size], free[size:]
        start = {"job_id": job_id, "alloc": " ".join(map(str, sorted(held[job_id])))}
        decisions.append({"timestamp": message["now"], "type": "EXECUTE_JOB", "data": start})
    socket.send_string(json.dumps({"now": message["now"], "events": decisions}))
"""


def the_log() -> JobLog:
    there = LOGS / "KTH-SP2.swf.gz"
    if there.exists():
        return read_swf(there).slice(0, JOBS)
    return Lublin().jobs(JOBS, 100, np.random.default_rng(SEED)).at_load(0.69)


def jobs_per_s(log: JobLog, scheduler: str, folder: Path) -> float:
    took_s = []
    for _ in range(RUNS):
        began = time.perf_counter()
        Replay(log).run(resolve(scheduler), folder)
        took_s.append(time.perf_counter() - began)
    return len(log.jobs) / min(took_s)


def main() -> None:
    log = the_log()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        client = folder / "client.py"
        client.write_text(TRIVIAL)
        cases = {
            "easy, in process": "easy",
            "a trivial client": f"batsim: {sys.executable} {client} {LISTEN}",
            "easy, served": f"batsim: {sys.executable} -m sil serve-scheduler easy --bind {LISTEN}",
        }
        found = {label: jobs_per_s(log, scheduler, folder) for label, scheduler in cases.items()}
    base = found["easy, in process"]
    table = Table(
        title=f"{log.name}: {len(log.jobs):,} jobs, with the start of the client", title_justify="left"
    )
    for column in ("scheduler", "jobs/s", "times the baseline"):
        table.add_column(column, justify="left" if column == "scheduler" else "right")
    for label, rate in found.items():
        table.add_row(label, f"{rate:,.0f}", f"{base / rate:.1f}")
    Console().print(table)
    kept = {
        label: {"jobs_per_s": round(rate), "baseline_over_this": round(base / rate, 2)}
        for label, rate in found.items()
    }
    print(f"Kept in {keep('batsim', SEED, kept).name}.")


if __name__ == "__main__":
    main()
