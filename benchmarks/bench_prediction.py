"""How long does a prediction of the turnaround of all running and waiting jobs take?

Baseline: Algorithm 1 as published (`scheduler.time_shared.predictors`), with the reference
policies, in the same run; omitted where it takes minutes. Run with
`python -m benchmarks.bench_prediction`.
"""

from __future__ import annotations

import time
from math import inf
from statistics import median

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.record import keep
from scheduler.model import Job, JobId
from scheduler.time_shared.forecast import Predictor
from scheduler.time_shared.loras import Loras
from scheduler.time_shared.predictors import Algorithm1, PolicyAware
from scheduler.time_shared.problem import ReportedLoad, SystemState, TimeSharedProblem
from scheduler.time_shared.social_contract import Requirement, SocialContract
from tests.scheduler.loras_reference import ReferenceLoras

SEED = 2006
SMALL, MIDDLE, LARGE = (16, 12, 30), (100, 60, 100), (1000, 780, 10_000)
CASES = [
    (SMALL, "just_first", "normal", "cpu"),
    (SMALL, "easy", "normal", "cpu"),
    *((MIDDLE, selection, "uniform", "mpl") for selection in ("just_first", "first_fit", "best_fit", "easy")),
    (LARGE, "just_first", "normal", "cpu"),
    (LARGE, "just_first", "normal", "mpl"),
    ((1000, 780, 1000), "easy", "normal", "cpu"),
]
"""(nodes, running, waiting), selection, node selection, method of CPU time; the remaining time is by CPU."""
PLAIN_UP_TO = 300
CALLS = 5


def state_of(n_nodes: int, n_running: int, n_waiting: int) -> SystemState:
    """A cluster with local users on a quarter of the nodes."""
    rng = np.random.default_rng(SEED)
    state = SystemState([512.0] * n_nodes, SocialContract(most_cpu=inf))
    for n in rng.permutation(n_nodes)[: n_nodes // 4].tolist():
        state.set_local(n, ReportedLoad(float(rng.random() < 0.3), 0.15, 180.0, True))
    number = 0

    def submitted(sizes: tuple[int, ...]) -> Job:
        nonlocal number
        job = Job(JobId(number), "any", float(number), n_tasks=int(rng.choice(sizes)))
        memory_mb, exe_s = rng.uniform(10.0, 60.0), rng.uniform(20.0, 500.0)
        state.add(job, Requirement(job.n_tasks, rng.uniform(0.4, 0.95), memory_mb, exe_s))
        number += 1
        return job

    while len(state.view().running) < n_running:
        job = submitted((2, 4))
        problem = TimeSharedProblem(0.0, [job], state.view())
        (placement,) = Loras().schedule(problem).starts
        state.start(job, placement.nodes, 0.0)
        state.measured(job.id, rng.random() * state.requirement(job.id).cpu_s, 10.0)
    for _ in range(n_waiting):
        submitted((2, 4, 8))
    return state


def took_ms(predictor: Predictor, state: SystemState, calls: int) -> float:
    times_ms = []
    for _ in range(calls):
        began = time.perf_counter()
        predictor.predict(10.0, state.view())
        times_ms.append(1e3 * (time.perf_counter() - began))
    return median(times_ms)


def main() -> None:
    table = Table(title="One prediction for all jobs", title_justify="left")
    table.add_column("nodes, running, waiting")
    table.add_column("policy", no_wrap=True)
    for name in ("ms", "ms per job", "plain / this"):
        table.add_column(name, justify="right")
    kept = []
    for (n_nodes, n_running, n_waiting), selection, nodes, cpu_time in CASES:
        state = state_of(n_nodes, n_running, n_waiting)
        fast = PolicyAware(Loras("fcfs", selection, nodes), "cpu", cpu_time)
        took_ms(fast, state, 1)
        ms = took_ms(fast, state, CALLS)
        ratio = None
        if n_running + n_waiting <= PLAIN_UP_TO:
            plain = Algorithm1(ReferenceLoras("fcfs", selection, nodes), "cpu", cpu_time)
            ratio = took_ms(plain, state, 1) / ms
        per_job = ms / (n_running + n_waiting)
        policy = f"{selection}, {nodes}, cpu-{cpu_time}"
        shown = "-" if ratio is None else f"{ratio:,.0f}"
        size = f"{n_nodes:,}, {n_running}, {n_waiting:,}"
        table.add_row(size, policy, f"{ms:.2f}", f"{per_job:.4f}", shown)
        kept.append(
            {
                "nodes": n_nodes,
                "running": n_running,
                "waiting": n_waiting,
                "policy": policy,
                "ms": round(ms, 3),
                "plain_ratio": None if ratio is None else round(ratio, 1),
            }
        )
    Console().print(table)
    Console().print(f"Kept in {keep('prediction', SEED, kept).name}.")


if __name__ == "__main__":
    main()
