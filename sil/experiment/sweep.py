"""Many runs: every replication at every point of the grid, on several processes, resumable."""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from sil.experiment.output_folder import as_file_name
from sil.outcome.metrics import faults
from sil.runs.composition import RunKey
from sil.runs.scenario import Scenario
from sil.settings.experiment_file import Experiment
from sil.trace.facts import RUN, Fact
from sil.trace.recorder import TraceRecorder
from sil.trace.tables import SCHEMAS, RunTables
from sil.workers.pool import finished, pool
from sil.world.guard.faults import PROCESS_SURVIVES


@dataclass(frozen=True, slots=True)
class Task:
    """All schedulers under test at one point in one replication: they meet the same jobs and luck."""

    index: int
    point: int
    replication: int


class Interrupted(Exception):
    """The user stopped the sweep. What was finished is kept."""

    def __init__(self, done: int, total: int) -> None:
        super().__init__(f"{done} of {total} replications are done")
        self.done = done
        self.total = total


def tasks_of(experiment: Experiment) -> list[Task]:
    """Replication by replication, so that what an interrupted sweep leaves is balanced over the points."""
    cells = [(p, r) for r in range(experiment.replications) for p in range(len(experiment.points))]
    return [Task(index, point, replication) for index, (point, replication) in enumerate(cells)]


class Sweep:
    """The runs of one experiment. Each finished task is a file in `folder`; a new sweep goes on from there.
    What schedulers in processes of their own print goes into the folder `printed`.

    A scheduler's first fault, in order of tasks, ends its runs: what it did in later tasks is left out, so
    that the outcome does not depend on the number of workers.
    """

    def __init__(self, scenario: Scenario, folder: Path, printed: Path, fingerprint: str) -> None:
        self._scenario = scenario
        self._experiment = experiment = scenario.experiment
        self._folder = folder
        self._printed = printed
        self._tasks = tasks_of(experiment)
        self._faulted_at: dict[str, int] = {}
        self._done: set[int] = set()
        self._handed_over = 0
        self._on_tables: Callable[[RunTables], None] | None = None
        self._take_up(fingerprint)

    @property
    def total(self) -> int:
        return len(self._tasks)

    @property
    def done(self) -> int:
        return len(self._done)

    def run(
        self,
        workers: int,
        on_progress: Callable[[int], None],
        on_tables: Callable[[RunTables], None] | None = None,
    ) -> None:
        """Carry out what is not done yet. Raises Interrupted on Ctrl-C.

        `on_tables` is given the tables of every task, also of those done earlier, in order of tasks and as
        soon as all before it are done: the order does not depend on the number of workers.
        """
        self._on_tables = on_tables
        self._hand_over()
        pending = deque(task for task in self._tasks if task.index not in self._done)
        try:
            while pending:
                self._run_until_broken(pending, workers, on_progress)
        except KeyboardInterrupt:
            raise Interrupted(self.done, self.total) from None

    def collect(self) -> RunTables:
        """The tables of all tasks, in order of point, replication and scheduler as listed."""
        ordered = sorted(self._tasks, key=lambda task: (task.point, task.replication))
        return RunTables(*(self._concatenated(kind, ordered) for kind in SCHEMAS))

    def clear(self) -> None:
        """Remove the files of the tasks."""
        shutil.rmtree(self._folder)

    def _take_up(self, fingerprint: str) -> None:
        """Go on from an earlier sweep if it was the same one, else begin anew."""
        if not is_begun(self._folder, fingerprint):
            shutil.rmtree(self._folder, ignore_errors=True)
            shutil.rmtree(self._printed, ignore_errors=True)
            self._folder.mkdir(parents=True)
            (self._folder / MARK).write_text(fingerprint)
        for task in self._tasks:
            if _path(self._folder, task, "facts").is_file():
                self._note_done(task)

    def _note_done(self, task: Task) -> None:
        self._done.add(task.index)
        for name in faults(_read(self._folder, task, "facts"))["scheduler"].unique():
            self._faulted_at[name] = min(task.index, self._faulted_at.get(name, task.index))

    def _schedulers_for(self, task: Task) -> tuple[str, ...]:
        return tuple(
            name
            for name in self._experiment.schedulers
            if self._faulted_at.get(name, task.index) >= task.index
        )

    def _run_until_broken(
        self, pending: deque[Task], workers: int, on_progress: Callable[[int], None]
    ) -> None:
        """Work off `pending` on a pool. Where a worker dies, the tasks under way are run apart."""
        under_way: dict[Future[None], Task] = {}
        with pool(workers) as (made, watchdog):
            try:
                while pending or under_way:
                    while pending and len(under_way) < 2 * workers:
                        task = pending.popleft()
                        future = self._submit(made, task, self._schedulers_for(task), self._folder)
                        under_way[future] = task
                    for future in finished(under_way, watchdog):
                        future.result()
                        self._note_done(under_way.pop(future))
                        self._hand_over()
                        on_progress(self.done)
            except BrokenProcessPool:
                pass
        for task in sorted(under_way.values(), key=lambda task: task.index):
            self._run_apart(task)
            self._note_done(task)
            self._hand_over()
            on_progress(self.done)

    def _hand_over(self) -> None:
        while self._on_tables and self._handed_over in self._done:
            task = self._tasks[self._handed_over]
            self._on_tables(RunTables(*(self._concatenated(kind, [task]) for kind in SCHEMAS)))
            self._handed_over += 1

    def _submit(
        self, pool: ProcessPoolExecutor, task: Task, schedulers: Sequence[str], folder: Path
    ) -> Future[None]:
        scenario = self._scenario.at(task.point)
        return pool.submit(_carry_out, scenario, task, tuple(schedulers), folder, self._printed)

    def _run_apart(self, task: Task) -> None:
        """Run a task with each scheduler in a process of its own; one that dies is reported."""
        apart = self._folder / "apart"
        apart.mkdir(exist_ok=True)
        parts: list[RunTables] = []
        for name in self._schedulers_for(task):
            try:
                with pool(1) as (made, watchdog):
                    future = self._submit(made, task, [name], apart)
                    finished([future], watchdog)
                    future.result()
                parts.append(RunTables(*(_read(apart, task, kind) for kind in SCHEMAS)))
            except BrokenProcessPool:
                parts.append(RunTables.of(_died(task, name)))
        _write(self._folder, task, parts)

    def _concatenated(self, kind: str, tasks: Sequence[Task]) -> pl.DataFrame:
        return pl.concat(
            _read(self._folder, task, kind).filter(pl.col("scheduler").is_in(self._schedulers_for(task)))
            for task in tasks
        )


MARK = "fingerprint"


def is_begun(folder: Path, fingerprint: str) -> bool:
    """Whether `folder` holds finished tasks of the very experiment that the fingerprint stands for."""
    mark = folder / MARK
    return mark.is_file() and mark.read_text() == fingerprint


def _carry_out(
    scenario: Scenario,
    task: Task,
    schedulers: Sequence[str],
    folder: Path,
    printed: Path,
) -> None:
    parts = []
    for name in schedulers:
        log = printed / f"{as_file_name(name)}-{task.point}-{task.replication}.log"
        parts.append(scenario.run(RunKey(task.point, task.replication, name), log))
    _write(folder, task, parts)


def _write(folder: Path, task: Task, parts: Sequence[RunTables]) -> None:
    """Write the parts of a task; `facts` comes last, since its file says that the task is done."""
    tables = RunTables.join(parts)._asdict()
    for kind, frame in reversed(tables.items()):
        path = _path(folder, task, kind)
        unfinished = path.with_suffix(f".{os.getpid()}")
        frame.write_parquet(unfinished)
        unfinished.replace(path)


def _read(folder: Path, task: Task, kind: str) -> pl.DataFrame:
    return pl.read_parquet(_path(folder, task, kind))


def _path(folder: Path, task: Task, kind: str) -> Path:
    return folder / f"{task.index:07d}.{kind}.parquet"


def _died(task: Task, scheduler: str) -> pl.DataFrame:
    trace = TraceRecorder()
    message = "its process died, or had to be ended because it did not come back from a decision"
    trace.note(0.0, Fact.FAULT, detail=PROCESS_SURVIVES, message=message)
    frame = trace.frame(task.point, task.replication, scheduler)
    return frame.with_columns(time_s=pl.lit(None, pl.Float64)).select(*RUN, pl.exclude(RUN))
