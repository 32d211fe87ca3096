"""What does a process of its own cost a scheduler, compared with the same one in the testbed's process?

* Small problems: FCFS in Python replays a synthetic log on 128 processors; microseconds of wall time for each
  decision, of the whole replay.
* Large problems: decisions in Python with NumPy on a matrix, as `sil overhead` measures them, after a first
  one; and the whole call of `sil schedule`, which hands a matrix over to a new process. Milliseconds.
* Starting a run: milliseconds until a new process has sent its first message, and until it has ended.

Without the determinism check; medians, in turns. Run with `python -m benchmarks.bench_isolation`.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.record import keep
from scheduler.free_nodes.consumable_problem import Placer
from scheduler.mapping.problem import MappingProblem
from scheduler.model import Assignments, NodeSchedule, Schedule
from sil.experiment.matrix import Matrix, map_matrix
from sil.experiment.overhead import COLUMNS, random_problem, timed_rows
from sil.runs.on_log import Replay
from sil.runs.under_test import InProcess, resolve
from sil.settings.replays import Engine
from sil.workers import channel
from sil.workers.channel import Message
from sil.workers.executor import FIRST
from sil.workers.own_process import own_process
from sil.workload.lublin import Lublin

SEED, RUNS = 1, 7
JOBS, PROCESSORS, LOAD = 3_000, 128, 0.7
MATRIX, DECISIONS = (20_000, 500), 5
COLUMNS_OF_ROWS = list(COLUMNS)


class Fcfs:
    """In order of arrival, while jobs fit."""

    kind = "free-nodes"

    def schedule(self, problem: Any) -> NodeSchedule:
        placing = Placer(problem)
        for i, job in enumerate(problem.jobs):
            if job.n_tasks > placing.n_free:
                break
            placing.start(i)
        return placing.schedule("no room")


class OneAfterAnother:
    """Each job where it completes first."""

    kind = "mapping"

    def schedule(self, problem: MappingProblem) -> Schedule:
        ready_s = problem.ready_times.machine_s.copy()
        etc_s = problem.machine_etc_s
        n = problem.n_jobs
        machines, starts_s, ends_s = np.empty(n, np.int64), np.empty(n), np.empty(n)
        for i in range(n):
            j = int((ready_s + etc_s[i]).argmin())
            machines[i], starts_s[i] = j, ready_s[j]
            ends_s[i] = ready_s[j] = ready_s[j] + etc_s[i, j]
        return Schedule(Assignments(np.arange(n), machines, starts_s, ends_s))


def in_turns(measure: Callable[[bool], tuple[float, ...]]) -> dict[bool, tuple[float, ...]]:
    """Medians of each value, by whether the scheduler has a process of its own."""
    found: dict[bool, list[tuple[float, ...]]] = {False: [], True: []}
    for _ in range(RUNS):
        for isolates, values in found.items():
            values.append(measure(isolates))
    return {isolates: tuple(map(median, zip(*values, strict=True))) for isolates, values in found.items()}


def of_small_problems(scheduler: InProcess, folder: Path) -> tuple[float, ...]:
    log = Lublin().jobs(JOBS, PROCESSORS, np.random.default_rng(SEED)).at_load(LOAD)
    replay = Replay(log, engine=Engine.HARNESS, determinism_check=False)
    n = 0

    def count(decisions: Any) -> None:
        nonlocal n
        n += len(decisions)

    began_s = time.perf_counter()
    replay._carry_out(scheduler, None, lambda facts: None, folder / "printed", FIRST, count)
    return (1e6 * (time.perf_counter() - began_s) / n,)


def of_a_large_problem(scheduler: InProcess, matrix: Matrix) -> tuple[float, ...]:
    rows = timed_rows(scheduler, random_problem, (*MATRIX, 0, 0), DECISIONS, 600.0)
    assert isinstance(rows, list), rows
    wall = COLUMNS_OF_ROWS.index("wall_s")
    began_s = time.perf_counter()
    map_matrix(matrix, scheduler, 600.0)
    return 1e3 * median(float(str(row[wall])) for row in rows), 1e3 * (time.perf_counter() - began_s)


def of_a_start() -> tuple[float, ...]:
    began_s = time.perf_counter()
    with own_process(_say_something) as process:
        process.receive(1_000)
        first_s = time.perf_counter() - began_s
    return 1e3 * first_s, 1e3 * (time.perf_counter() - began_s)


def _say_something(connection: socket.socket) -> None:
    channel.send(connection, Message({"here": True}))


def main() -> None:
    here = __spec__.name if __spec__ is not None else __name__
    table = Table(
        "", "in process", "apart", "difference", "ratio", title="Schedulers in processes of their own"
    )
    for _ in range(2):
        of_a_start()  # starts what is started once
    with TemporaryDirectory() as name:
        fcfs, mapped = (
            {
                isolated: resolve(f"{here}:{each.__name__}", isolated).require_in_process("a benchmark")
                for isolated in (False, True)
            }
            for each in (Fcfs, OneAfterAnother)
        )
        matrix = Matrix(np.random.default_rng(SEED).uniform(1.0, 100.0, MATRIX))
        small = in_turns(lambda isolated: of_small_problems(fcfs[isolated], Path(name)))
        large = in_turns(lambda isolated: of_a_large_problem(mapped[isolated], matrix))
    starts = tuple(map(median, zip(*(of_a_start() for _ in range(RUNS)), strict=True)))
    rows = {
        "small problems, us for each decision": (small[False][0], small[True][0]),
        f"matrix {MATRIX[0]:,} x {MATRIX[1]:,}, decision, ms": (large[False][0], large[True][0]),
        "one decision with handing it over, ms": (large[False][1], large[True][1]),
    }
    for what, (inside, outside) in rows.items():
        table.add_row(
            what, f"{inside:.1f}", f"{outside:.1f}", f"{outside - inside:+.1f}", f"{outside / inside:.2f}"
        )
    table.add_row("a start, ms until the first message", "", f"{starts[0]:.1f}", "", "")
    table.add_row("a start and its end, ms", "", f"{starts[1]:.1f}", "", "")
    Console().print(table)
    keep(
        "isolation", SEED, {**{what: list(values) for what, values in rows.items()}, "start_ms": list(starts)}
    )


if __name__ == "__main__":
    main()
