"""Maps the jobs of an ETC matrix in a file by several schedulers."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scheduler.mapping.problem import MappingProblem
from scheduler.messages import counted
from scheduler.model import Schedule
from scheduler.registry import SchedulerSpec
from sil.isolation.host import Host
from sil.runs.hosting import call_isolated
from sil.runs.under_test import InProcess
from sil.world.events import SimClock
from sil.world.guard.scheduler import Guard, GuardedScheduler, Timing
from site_db.files import arrays
from site_db.files.access import read_text
from site_db.files.arrays import EACH, NO_NUMBER, number_of, read_rows
from site_db.files.formats import escaped, is_whole
from site_db.files.input_errors import MAX_VALUE, InvalidFile, quoted


@dataclass(frozen=True, slots=True)
class MappedMatrix:
    """The schedule of one scheduler for a matrix, and its decision time."""

    scheduler: str
    schedule: Schedule
    decision_s: float


@dataclass(frozen=True, eq=False)
class Matrix:
    """Seconds of each job (row) on each machine, then cluster (column); the machines' ready times, by default
    0; and the machines of each cluster."""

    etc_s: NDArray[np.float64]
    ready_s: NDArray[np.float64] | None = None
    members: Sequence[Sequence[int]] = ()

    @property
    def n_machines(self) -> int:
        return int(self.etc_s.shape[1]) - len(self.members)


def map_matrix(matrix: Matrix, scheduler: InProcess, limit_s: float) -> MappedMatrix:
    """Map all jobs. Raises SchedulerFault if the scheduler breaks a rule."""
    return call_isolated(partial(_mapped, matrix, scheduler.spec, limit_s), scheduler)


def _mapped(matrix: Matrix, scheduler: SchedulerSpec, limit_s: float, host: Host) -> MappedMatrix:
    timings: list[Timing] = []
    guard = Guard(SimClock(), limit_s, timings.append)
    problem = MappingProblem.from_matrix(matrix.etc_s, matrix.ready_s, matrix.members)
    schedule = GuardedScheduler(host.respondent(scheduler, 0, guard), guard, context="").schedule(problem)
    *_, wall_s, _, _ = timings[0]
    return MappedMatrix(scheduler.name, schedule, wall_s)


def write_mapping(path: Path, mapped: list[MappedMatrix]) -> None:
    """Write job, machine, start, completion; with several schedulers, their name comes first. Jobs and
    machines are counted from 0, clusters after the machines; times are seconds. Raises InvalidFile if `path`
    cannot be written."""
    rows: list[list[object]] = [["scheduler", "job", "machine", "start", "completion"]]
    for result in mapped:
        assignments = sorted(result.schedule.assignments, key=lambda a: a.job)
        rows += [
            [escaped(result.scheduler), a.job, a.resource, a.start_s, a.completion_s] for a in assignments
        ]
    try:
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows if len(mapped) > 1 else [row[1:] for row in rows])
    except OSError as error:
        raise InvalidFile(f"{path} cannot be written: {error.strerror}") from None


def read_problem(matrix: Path, ready: Path | None = None, clusters: Path | None = None) -> Matrix:
    """The matrix in a file, perhaps with ready times of the machines, and with the members of clusters, from
    other files.

    The matrix is in seconds per job (row) and machine, then cluster (column); `inf` = cannot run there, but
    each job must be able to run somewhere. Raises InvalidFile.
    """
    etc_s = read_matrix(matrix)
    members = [] if clusters is None else _read_clusters(clusters, etc_s.shape[1])
    ready_s = None if ready is None else _read_ready(ready, etc_s.shape[1] - len(members))
    return Matrix(etc_s, ready_s, members)


def read_matrix(path: Path) -> NDArray[np.float64]:
    """The matrix in a file of NumPy, or in text (`matrix_text`); each may be compressed."""
    etc_s = arrays.read_numbers(path) if arrays.is_npy(path) else read_rows(path)
    if etc_s.ndim != 2 or 0 in etc_s.shape:
        raise InvalidFile(f"{path}: expected jobs x machines, at least 1 x 1; found shape {etc_s.shape}")
    for i, j in np.argwhere(~(((etc_s >= 0) & (etc_s < MAX_VALUE)) | (etc_s == np.inf))):
        expected = f"seconds >= 0 and < {MAX_VALUE:g}, or inf where it cannot run"
        raise InvalidFile(f"{path}: job {i} on machine {j} is {etc_s[i, j]:g}; expected {expected}")
    for i in np.flatnonzero(np.isinf(etc_s).all(axis=1)):
        raise InvalidFile(f"{path}: job {i} cannot run on any machine; give it one finite time")
    return etc_s


def _read_ready(path: Path, n_machines: int) -> NDArray[np.float64]:
    """Ready times, one per machine: a file of NumPy, or numbers separated by commas or white space."""
    if arrays.is_npy(path):
        ready_s = arrays.read_numbers(path).ravel()
    else:
        tokens = read_text(path, EACH).replace(",", " ").split()
        ready_s = np.fromiter(map(number_of, tokens), np.float64, len(tokens))
        for k in np.flatnonzero(np.isnan(ready_s))[:1].tolist():
            raise InvalidFile(f"{path}: value {k + 1}, {quoted(tokens[k])}, {NO_NUMBER}")
    if len(ready_s) != n_machines:
        raise InvalidFile(
            f"{path}: {counted(len(ready_s), 'ready time')} for a matrix of {counted(n_machines, 'machine')}"
        )
    for j in np.flatnonzero(~((ready_s >= 0) & (ready_s < MAX_VALUE))):
        expected = f"seconds >= 0 and < {MAX_VALUE:g}"
        raise InvalidFile(f"{path}: the ready time of machine {j} is {ready_s[j]:g}; expected {expected}")
    return ready_s


def _read_clusters(path: Path, n_columns: int) -> list[list[int]]:
    """The machines of each cluster: a line per cluster, separated by commas or white space."""
    text = read_text(path, EACH)
    lines = [(k, line.replace(",", " ").split()) for k, line in enumerate(text.split("\n"), start=1)]
    given = [(k, tokens) for k, tokens in lines if tokens]
    n_machines = n_columns - len(given)
    if not given or n_machines < 1:
        expected = "a line per cluster, and in the matrix a column per machine before one per cluster"
        raise InvalidFile(
            f"{path}: {counted(len(given), 'cluster')}, {counted(n_columns, 'column')}; expected {expected}"
        )
    clusters = []
    for k, tokens in given:
        for token in tokens:
            if not is_whole(token) or len(token) > len(str(n_machines)) or int(token) >= n_machines:
                expected = f"expected numbers from 0 to {n_machines - 1}"
                raise InvalidFile(f"{path}, line {k}: {quoted(token)} is not a machine; {expected}")
        members = [*map(int, tokens)]
        if len(set(members)) < len(members):
            twice = next(j for j in members if members.count(j) > 1)
            raise InvalidFile(f"{path}, line {k}: machine {twice} occurs twice in the cluster; leave one out")
        clusters.append(members)
    return clusters
