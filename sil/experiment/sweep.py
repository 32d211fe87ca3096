"""All runs of an experiment: each scheduler in every replication at every point of the grid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from io import BytesIO
from itertools import takewhile
from math import inf
from pathlib import Path

import polars as pl
from pydantic import Base64Bytes

from sil.outcome.metrics import faults
from sil.report.listing import file_name
from sil.runs.scenario import Scenario
from sil.runs.simulation import RunKey
from sil.trace.facts import SCHEMAS, Fact, RunTables
from sil.trace.reading import difference
from sil.trace.recorder import TraceRecorder
from sil.workers.executor import Attempt, Item
from sil.workers.runner import Runner
from sil.world.guard.faults import Died

Packed = dict[str, Base64Bytes]
"""The tables of a run as Parquet files, in base64, by name; FAULTED is there if the run ended in a fault."""
FAULTED = "faulted"


class ExperimentRuns:
    """The runs of one experiment, whose results `runner` stores under keys that begin with `fingerprint`.

    A task is a point with a replication: all its schedulers meet the same jobs. Output of schedulers in other
    processes goes into the folder `printed`. A scheduler's first fault, in order of tasks, ends its runs: its
    results of later tasks are left out, so that the outcome does not depend on the executor.
    """

    def __init__(self, scenario: Scenario, runner: Runner, printed: Path, fingerprint: str) -> None:
        experiment = scenario.experiment
        # Replication by replication, so that what an interrupted sweep leaves is balanced over the points.
        self._n_points = len(experiment.points)
        points = [(p, r) for r in range(experiment.replications) for p in range(self._n_points)]
        self._tasks = [[RunKey(*point, name) for name in experiment.schedulers] for point in points]
        self._task_of = {run: number for number, task in enumerate(self._tasks) for run in task}
        self._runs = {f"{fingerprint}/{n}/{run.scheduler}": run for run, n in self._task_of.items()}
        self._items = [
            Item(key, partial(_carry_out, scenario, run), printed, gets_attempt=True)
            for key, run in self._runs.items()
        ]
        self._runner = runner
        runner.total = len(self._items)
        self._finished: dict[RunKey, str | Packed] = {}
        """The key of the stored result of each run; the result itself if the process died."""
        self._faulted_at: dict[str, int] = {}
        self.killed: set[RunKey] = set()
        """Runs that were killed from outside, each time that they were tried."""

    def run(self, on_tables: Callable[[RunTables, bool], None] | None = None) -> None:
        """Carry out the runs that are not stored. Raises what `Runner.run` raises.

        `on_tables` is called with the tables of each task and whether it is the last one, in order of tasks
        and as soon as all tasks before it are done, so that the order does not depend on the executor. A task
        with a run that was killed from outside is not done: the same command continues there.
        """
        following = iter(self._tasks)
        next_task = next(following, None)

        def finish(item: Item, value: Packed | Died) -> None:
            nonlocal next_task
            run = self._runs[item.key]
            self._finished[run] = item.key
            if isinstance(value, Died):
                if value.from_outside:
                    self.killed.add(run)
                trace = TraceRecorder()
                trace.note(0.0, Fact.FAULT, detail=value.rule, message=str(value))
                facts = trace.frame(*run).with_columns(time_s=pl.lit(None, pl.Float64))
                self._finished[run] = value = _packed(RunTables.of(facts=facts))
            if FAULTED in value:
                task = self._task_of[run]
                self._faulted_at[run.scheduler] = min(task, self._faulted_at.get(run.scheduler, task))
            while on_tables and next_task and self._are_over(next_task) and self.killed.isdisjoint(next_task):
                done, next_task = next_task, next(following, None)
                on_tables(self._tables(done), next_task is None)

        self._runner.run(
            self._items, finish, skip=lambda item: self._is_left_out(self._runs[item.key]), kind=Packed
        )

    @property
    def n_whole_replications(self) -> int:
        """The number of first replications whose runs are all done."""
        return sum(1 for _ in takewhile(self._are_over, self._tasks)) // self._n_points

    def collect(self) -> RunTables:
        """The tables of all runs, in order of point, replication and scheduler as listed."""
        runs = [run for task in self._tasks for run in task]
        return self._tables(sorted(runs, key=lambda run: (run.point, run.replication)))

    def _is_left_out(self, run: RunKey) -> bool:
        return self._task_of[run] > self._faulted_at.get(run.scheduler, inf)

    def _are_over(self, runs: Iterable[RunKey]) -> bool:
        return all(run in self._finished or self._is_left_out(run) for run in runs)

    def _tables(self, runs: Sequence[RunKey]) -> RunTables:
        store = self._runner.store
        found = [self._finished[run] for run in runs if not self._is_left_out(run)]
        packed = [store.get(each, Packed) if isinstance(each, str) else each for each in found]
        if not packed:
            return RunTables.of()
        with store.reading():  # whose values may have any content
            return RunTables(*(pl.concat(_table(of_run, kind) for of_run in packed) for kind in SCHEMAS))


def _carry_out(scenario: Scenario, run: RunKey, printed: Path, attempt: Attempt) -> Packed:
    log = printed / f"{file_name(run.scheduler)}-{run.point}-{run.replication}.log"
    return _packed(scenario.run(run, log, attempt))


def _packed(tables: RunTables) -> Packed:
    packed = {}
    for kind, frame in tables._asdict().items():
        if len(frame):
            buffer = BytesIO()
            frame.write_parquet(buffer)
            packed[kind] = buffer.getvalue()
    if len(faults(tables.facts)):
        packed[FAULTED] = b""
    return packed


def _table(packed: Packed, kind: str) -> pl.DataFrame:
    if kind not in packed and kind != "facts":  # which every run has
        return pl.DataFrame(schema=SCHEMAS[kind])
    table = pl.read_parquet(packed[kind])
    if differs := difference(table, SCHEMAS[kind]):
        raise ValueError(differs)
    return table
