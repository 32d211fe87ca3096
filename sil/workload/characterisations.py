"""Jobs as they were measured in isolation, from a table."""

from __future__ import annotations

import csv
from pathlib import Path

from scheduler.loras.requirement import Requirement
from scheduler.model import Job

COLUMNS = ("job_class", "n_tasks", "exe_s", "cpu", "memory_mb")


class InvalidCharacterisations(ValueError):
    """A table cannot be used. The message is one sentence with file and line."""


class Characterisations:
    """What jobs of each class with each number of tasks need."""

    def __init__(self, requirements: dict[tuple[str, int], Requirement]) -> None:
        self._requirements = requirements

    def requirement(self, job: Job) -> Requirement | None:
        return self._requirements.get((job.job_class, job.n_tasks))

    def of(self, job_class: str, n_tasks: int) -> Requirement:
        return self._requirements[job_class, n_tasks]


def read_characterisations(path: Path) -> Characterisations:
    """A CSV table with COLUMNS; lines that begin with # are remarks. Raises InvalidCharacterisations."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidCharacterisations(f"{path}: it cannot be read ({error})") from None
    lines = [(k, line) for k, line in enumerate(text.splitlines(), 1) if line and line[0] != "#"]
    header = lines[0][1].split(",") if lines else []
    if tuple(header) != COLUMNS:
        raise InvalidCharacterisations(
            f"{path}: the first line names the columns {','.join(COLUMNS)}, "
            f"not {','.join(header) or 'nothing'}"
        )
    requirements: dict[tuple[str, int], Requirement] = {}
    for (k, _), row in zip(lines[1:], csv.reader(line for _, line in lines[1:]), strict=True):
        where = f"{path}, line {k}"
        if len(row) != len(COLUMNS):
            raise InvalidCharacterisations(f"{where}: {len(COLUMNS)} values are expected, not {len(row)}")
        try:
            made = Requirement(int(row[1]), float(row[3]), float(row[4]), float(row[2]))
        except ValueError as error:
            raise InvalidCharacterisations(f"{where}: {error}") from None
        if (row[0], made.n_tasks) in requirements:
            raise InvalidCharacterisations(f"{where}: {row[0]} with {made.n_tasks} tasks stands there twice")
        requirements[row[0], made.n_tasks] = made
    return Characterisations(requirements)
