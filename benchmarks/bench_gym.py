"""How many steps per second does `sil/Backfill-v0` take, compared with an environment in plain Python?

A policy starts the first waiting job that fits, through a window of 128 jobs; its own time counts. Steps per
CPU second of one process, best of three, compiled and plain in turns; episodes of 256 jobs of the same log.
The log of the archive is not part of the project; if ../shared does not have it, the case is left out. Run
with `python -m benchmarks.bench_gym`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import gymnasium
import numpy as np
from rich.console import Console
from rich.table import Table

import sil.gym as sil_gym  # registers the environments
from benchmarks.plain_backfill import PlainBackfill
from benchmarks.record import keep
from sil.workload.job_log import JobLog
from sil.workload.lublin import Lublin
from sil.workload.swf import read_swf

KTH = Path(__file__).parent.parent.parent / "shared" / "oracles" / "swf" / "KTH-SP2.swf.gz"
SEED, RUNS = 1, 3
WINDOW, JOBS = 128, 256
STEPS, STEPS_IN_PYTHON = 100_000, 10_000
MANY = (1, 16, 64, 256)
"""Environments."""


def logs() -> dict[str, JobLog]:
    made = Lublin().jobs(20_000, 256, np.random.default_rng(SEED))
    found = {f"synthetic, load {load}": made.at_load(load) for load in (0.9, 20.0)}
    return ({"KTH-SP2": read_swf(KTH)} if KTH.exists() else {}) | found


def compiled(log: JobLog, n: int) -> tuple[Callable[[], int], list[float]]:
    """What takes many steps, and returns how many; and how many waiting jobs the policy saw."""
    envs = gymnasium.make_vec("sil/Backfill-v0", num_envs=n, log=log, window=WINDOW, jobs=JOBS)
    seen: list[float] = []

    def run() -> int:
        observation, _ = envs.reset(seed=SEED)
        for k in range(STEPS // n):
            observation, *_ = envs.step(observation["action_mask"].argmax(axis=1))
            if k % 50 == 0:
                seen.append(float((observation["jobs"][:, :, 0] > 0).sum(axis=1).mean()))
        return STEPS // n * n

    return run, seen


def plain(log: JobLog) -> Callable[[], int]:
    rng = np.random.default_rng(SEED)

    def run() -> int:
        n = 0
        while n < STEPS_IN_PYTHON:
            begin = int(rng.integers(round(0.8 * len(log)) - JOBS + 1))
            env, is_over = PlainBackfill(log[begin : begin + JOBS], WINDOW), False
            observation = env.reset()
            while not is_over:
                observation, _, is_over = env.step(int(observation["action_mask"].argmax()))
                n += 1
        return n

    return run


def rate(run: Callable[[], int]) -> float:
    began_s = time.process_time()
    n = run()
    return n / (time.process_time() - began_s)


def measure(log: JobLog) -> dict[str, float]:
    cases = {n: compiled(log, n) for n in MANY}
    of_python = plain(log)
    rates: dict[str, list[float]] = {}
    for _ in range(RUNS):
        for n, (run, _) in cases.items():
            rates.setdefault(str(n), []).append(rate(run))
        rates.setdefault("plain", []).append(rate(of_python))
    best = {name: round(max(found)) for name, found in rates.items()}
    return {**best, "waiting_in_window": round(float(np.mean(cases[MANY[-1]][1])), 1)}


def main() -> None:
    assert "sil/Backfill-v0" in gymnasium.registry, sil_gym
    table = Table(title="Steps of sil/Backfill-v0 per CPU second, window of 128", title_justify="left")
    for column in ("log", "waiting jobs seen", *(f"{n} envs" for n in MANY), "plain Python"):
        table.add_column(column, justify="left" if column == "log" else "right")
    results = {}
    for name, log in logs().items():
        results[name] = found = measure(log)
        shown = [f"{found[key]:,}" for key in (*map(str, MANY), "plain")]
        table.add_row(name, f"{found['waiting_in_window']}", *shown)
    Console(width=120).print(table)
    print(f"Kept in {keep('gym', SEED, results).name}.")


if __name__ == "__main__":
    main()
