"""Maps the jobs of an ETC matrix in a file by several schedulers."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scheduler import UserError
from scheduler.mapping.problem import MappingProblem
from scheduler.model import Schedule
from scheduler.registry import SchedulerSpec
from sil.isolation.sides import side
from sil.runs.composition import asked_apart
from sil.runs.under_test import UnderTest
from sil.world.events import SimClock
from sil.world.guard.scheduler import CheckedScheduler, Guard, Timing


class BadMatrix(UserError):
    """A matrix that cannot be used. The message is one sentence: file, place, value, what was expected."""


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
    def n_jobs(self) -> int:
        return len(self.etc_s)

    @property
    def n_machines(self) -> int:
        return int(self.etc_s.shape[1]) - len(self.members)

    def problem(self) -> MappingProblem:
        return MappingProblem.from_matrix(self.etc_s, self.ready_s, self.members)


def map_matrix(matrix: Matrix, scheduler: UnderTest, limit_s: float) -> MappedMatrix:
    """Map all jobs. Raises SchedulerFault if the scheduler breaks a rule."""
    return asked_apart(partial(_mapped, matrix, scheduler.spec, limit_s), [scheduler])


def _mapped(matrix: Matrix, scheduler: SchedulerSpec, limit_s: float) -> MappedMatrix:
    timings: list[Timing] = []
    guard = Guard(SimClock(), limit_s, timings.append)
    schedule = CheckedScheduler(side().respondent(scheduler, 0, guard), guard).schedule(matrix.problem())
    *_, wall_s, _, _ = timings[0]
    return MappedMatrix(scheduler.name, schedule, wall_s)


def write_mapping(path: Path, mapped: list[MappedMatrix]) -> None:
    """Write job, machine, start, completion; with several schedulers, their name comes first. Jobs and
    machines are counted from 0, clusters after the machines; times are seconds. Raises BadMatrix if `path`
    cannot be written."""
    rows: list[list[object]] = [["scheduler", "job", "machine", "start", "completion"]]
    for result in mapped:
        assignments = sorted(result.schedule.assignments, key=lambda a: a.job)
        rows += [[result.scheduler, a.job, a.resource, a.start_s, a.completion_s] for a in assignments]
    try:
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows if len(mapped) > 1 else [row[1:] for row in rows])
    except OSError as error:
        raise BadMatrix(f"{path} cannot be written: {error.strerror}") from None


def read_problem(matrix: Path, ready: Path | None = None, clusters: Path | None = None) -> Matrix:
    """The matrix in a file, perhaps with ready times of the machines, and with the members of clusters, from
    other files.

    The matrix is in seconds per job (row) and machine, then cluster (column); `inf` = cannot run there, but
    each job must be able to run somewhere. Raises BadMatrix.
    """
    etc_s = read_matrix(matrix)
    members = [] if clusters is None else _read_clusters(clusters, etc_s.shape[1])
    ready_s = None if ready is None else _read_ready(ready, etc_s.shape[1] - len(members))
    return Matrix(etc_s, ready_s, members)


def read_matrix(path: Path) -> NDArray[np.float64]:
    """The matrix in a `.npy`, a `.csv`, or a text file of the HCSP format; the last two may be gzipped. HCSP:
    a line `jobs machines 0`, then one value per line, job by job. A CSV file may have a header line."""
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    if plain.suffix == ".npy":
        etc_s = _from_npy(path)
    elif plain.suffix == ".csv":
        etc_s = _from_csv(path)
    else:
        etc_s = _from_hcsp(path)
    if etc_s.ndim != 2 or 0 in etc_s.shape:
        raise BadMatrix(f"{path}: expected jobs x machines, at least 1 x 1; found shape {etc_s.shape}")
    bad = np.argwhere(np.isnan(etc_s) | (etc_s < 0))
    if len(bad):
        i, j = bad[0]
        expected = "seconds >= 0, or inf where it cannot run"
        raise BadMatrix(f"{path}: job {i} on machine {j} is {etc_s[i, j]:g}; expected {expected}")
    nowhere = np.flatnonzero(np.isinf(etc_s).all(axis=1))
    if len(nowhere):
        raise BadMatrix(f"{path}: job {nowhere[0]} cannot run on any machine; give it one finite time")
    return etc_s


def _read_ready(path: Path, n_machines: int) -> NDArray[np.float64]:
    """Ready times, one per machine: a `.npy` file, or numbers separated by commas or white space."""
    if path.suffix == ".npy":
        ready_s = _from_npy(path).ravel()
    else:
        ready_s = _numbers(" ".join(_lines(path)).replace(",", " ").split(), path)
    if len(ready_s) != n_machines:
        raise BadMatrix(f"{path}: {len(ready_s)} ready times for a matrix of {n_machines} machines")
    bad = np.flatnonzero(~(ready_s >= 0) | np.isinf(ready_s))
    if len(bad):
        j = bad[0]
        raise BadMatrix(f"{path}: the ready time of machine {j} is {ready_s[j]:g}; expected seconds >= 0")
    return ready_s


def _read_clusters(path: Path, n_columns: int) -> list[list[int]]:
    """The machines of each cluster: a line per cluster, separated by commas or white space."""
    lines = [(k, line.replace(",", " ").split()) for k, line in enumerate(_lines(path), start=1)]
    given = [(k, tokens) for k, tokens in lines if tokens]
    n_machines = n_columns - len(given)
    if not given or n_machines < 1:
        expected = "a line per cluster, and in the matrix a column per machine before one per cluster"
        raise BadMatrix(f"{path}: {len(given)} clusters, {n_columns} columns; expected {expected}")
    clusters = []
    for k, tokens in given:
        members = [_machine(token, n_machines, f"{path}, line {k}") for token in tokens]
        if len(set(members)) < len(members):
            twice = next(j for j in members if members.count(j) > 1)
            raise BadMatrix(f"{path}, line {k}: machine {twice} occurs twice in the cluster; leave one out")
        clusters.append(members)
    return clusters


def _machine(token: str, n_machines: int, where: str) -> int:
    if token.isascii() and token.isdigit() and len(token) <= len(str(n_machines)) and int(token) < n_machines:
        return int(token)
    raise BadMatrix(f"{where}: '{token}' is not a machine; expected numbers from 0 to {n_machines - 1}")


def _from_npy(path: Path) -> NDArray[np.float64]:
    try:
        return np.ascontiguousarray(np.load(path, allow_pickle=False), dtype=np.float64)
    except FileNotFoundError:
        raise BadMatrix(f"{path}: there is no such file") from None
    except (OSError, ValueError, EOFError, TypeError) as error:
        raise BadMatrix(f"{path}: this is not a NumPy file with an array of numbers: {error}") from None


def _from_csv(path: Path) -> NDArray[np.float64]:
    rows: list[list[float]] = []
    for number, line in enumerate(csv.reader(_lines(path)), start=1):
        if not line:
            continue
        try:
            row = [float(value) for value in line]
        except ValueError:
            if not rows and number == 1:
                continue  # a header
            bad = next(value for value in line if not _is_number(value))
            raise BadMatrix(f"{path}, line {number}: '{bad}' is not a number") from None
        if rows and len(row) != len(rows[0]):
            found = f"{len(row)} values where the first job has {len(rows[0])}"
            raise BadMatrix(f"{path}, line {number}: {found}")
        rows.append(row)
    if not rows:
        raise BadMatrix(f"{path}: the file has no jobs; expected a line of seconds per job")
    return np.array(rows)


def _from_hcsp(path: Path) -> NDArray[np.float64]:
    lines = _lines(path)
    head = lines[0].split() if lines else []
    if len(head) not in (2, 3) or not all(token.isdigit() for token in head):
        raise BadMatrix(f"{path}, line 1: expected 'jobs machines 0', as in the HCSP format")
    n, m = int(head[0]), int(head[1])
    values = _numbers(" ".join(lines[1:]).split(), path)
    if len(values) != n * m:
        raise BadMatrix(f"{path}: expected {n} x {m} = {n * m} values, found {len(values)}")
    return values.reshape(n, m)


def _numbers(tokens: list[str], path: Path) -> NDArray[np.float64]:
    try:
        return np.array(tokens, dtype=np.float64)
    except ValueError:
        k = next(k for k, token in enumerate(tokens) if not _is_number(token))
        raise BadMatrix(f"{path}: value {k + 1} is '{tokens[k]}', not a number") from None


def _is_number(token: str) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return True


def _lines(path: Path) -> list[str]:
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8-sig").splitlines()
    except FileNotFoundError:
        raise BadMatrix(f"{path}: there is no such file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise BadMatrix(f"{path}: the gzip file is truncated or damaged") from None
    except UnicodeDecodeError:
        raise BadMatrix(f"{path}: this is not a text file") from None
    except OSError as error:
        raise BadMatrix(f"{path}: the file cannot be read: {error.strerror}") from None
