"""How many small replays per second does a sweep carry out? `python -m benchmarks.bench_sweep`

25 slices of 2,000 jobs under four policies, with two workers that have started, without traces. The baseline
is a bare EASY (`bare_easy`) over the same slices, in one process; sweep and baseline take turns three times,
of which the best count. Then the CPU time of a replay under each policy in one process, and how much of it
the facts take; the rest are statistics and invariants.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from benchmarks.bare_easy import easy_starts
from benchmarks.record import keep
from sil.experiment.log_sweep import LogSweep, run_sweep
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve, schedulers_for_logs
from sil.workers.executor import Executor, Listener
from sil.workers.processes import Processes
from sil.workload.lublin import Lublin
from sil.workload.slices import Slice, slices_of_size

POLICIES = ("easy", "fcfs", "easy_sjbf", "conservative")
SLICES = 25
JOBS = 2_000
PROCESSORS = 128
LOAD = 0.8
ASKED = 10_000
"""Replays of a large sweep."""
WORKERS = 2
ROUNDS = 3
SEED = 1


def sweep_s(sweep: LogSweep, executor: Executor) -> float:
    began = time.perf_counter()
    table = run_sweep(sweep, executor, Listener())
    took = time.perf_counter() - began
    assert table["fault"].null_count() == len(table) == SLICES * len(POLICIES)
    return took


def bare_s(slices: tuple[Slice, ...]) -> float:
    tables = [part.log.jobs.select("submit_s", "run_s", "processors", "estimate_s") for part in slices]
    columns = [[column.to_list() for column in table] for table in tables]
    began = time.perf_counter()
    for submit_s, run_s, sizes, estimate_s in columns:
        easy_starts(submit_s, run_s, sizes, estimate_s, PROCESSORS)
    return time.perf_counter() - began


def parts_ms(slices: tuple[Slice, ...], policy: str) -> dict[str, float]:
    """CPU milliseconds of a replay under a policy, on average over slices."""
    facts_s = replay_s = 0.0
    for part in slices:
        replay, began = Replay(part.log, few_jobs=0), time.process_time()
        replay.facts(resolve(policy), Path())
        has_facts = time.process_time()
        assert replay.results(resolve(policy), Path()).fault is None
        facts_s += has_facts - began
        replay_s += time.process_time() - has_facts
    found = {"all": replay_s, "of which facts": facts_s}
    return {what: round(1e3 * seconds / len(slices), 1) for what, seconds in found.items()}


def main() -> None:
    log = Lublin().jobs(SLICES * JOBS, PROCESSORS, np.random.default_rng(SEED)).at_load(LOAD)
    sliced = slices_of_size(log, JOBS)
    sweep = LogSweep((sliced,), schedulers_for_logs(POLICIES))
    started = LogSweep((slices_of_size(log.slice(0, 4 * JOBS), 100),), sweep.schedulers)
    with Processes(WORKERS) as executor:
        run_sweep(started, executor, Listener())  # workers begin, import and load what is compiled
        turns = [(sweep_s(sweep, executor), bare_s(sliced.slices)) for _ in range(ROUNDS)]
    sweeps_s, bares_s = zip(*turns, strict=True)
    replays = SLICES * len(POLICIES)
    rate, bare_rate = replays * JOBS / min(sweeps_s), SLICES * JOBS / min(bares_s)
    for policy in POLICIES:
        parts_ms(sliced.slices[:2], policy)  # what is compiled is loaded
    figures: dict[str, object] = {
        "replays": replays,
        "jobs of each": JOBS,
        "workers": WORKERS,
        "seconds": round(min(sweeps_s), 2),
        "replays per second": round(replays / min(sweeps_s), 1),
        "jobs per second": round(rate),
        "jobs per second of the bare EASY, one process": round(bare_rate),
        "bare EASY / sweep": round(bare_rate / rate, 2),
        f"seconds for {ASKED:,} replays": round(ASKED / replays * min(sweeps_s)),
        "CPU ms of a replay": {policy: parts_ms(sliced.slices, policy) for policy in POLICIES},
    }
    for what, figure in figures.items():
        print(f"{what}: {figure}")
    print(f"Kept in {keep('sweep', SEED, figures).name}.")


if __name__ == "__main__":
    main()
