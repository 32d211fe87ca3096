"""Matrices of numbers in text: separated by commas, semicolons, tabs or blanks, or in the HCSP format."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import chain
from math import inf, isinf, isnan, nan
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scheduler import counted
from site_db.files.given import InvalidFile, quoted
from site_db.files.opened import read_text
from site_db.files.plain_numbers import is_decimal, is_whole

EACH = 96.0
"""Bytes of memory that a byte of text takes as numbers, at most."""
INFINITE = ("inf", "+inf", "infinity", "+infinity")
"""Texts for where a job cannot run."""
NO_NUMBER = "is not a number, or too great for one"


_MISSING = ("", "nan", "na", "n/a", "null", "none")
"""Texts in place of a number; no names of machines."""
_INDEX = ("job", "jobs", "job_id", "jobid", "task", "index", "id", "row")


def read_rows(path: Path) -> NDArray[np.float64]:
    """A row per line, perhaps after a header, in which no cell is a number; lines that begin with `#` are
    comments.

    HCSP: a line `jobs machines 0`, then their values, one per line. Raises InvalidFile, also for a file that
    can be read in both ways.
    """
    lines = _cells(path)
    first = next(lines, None)
    if first is None:
        raise InvalidFile(f"{path}: the file has no jobs; expected a line of seconds per job")
    number, head, separator = first
    has_header = _is_header(head)
    if has_header and not head[0]:
        raise InvalidFile(
            f"{path}, line {number}: the first cell of the header is empty, as above a column of names or "
            f"numbers of jobs; leave that column out"
        )
    values, odd = array("d"), ""
    for number, cells, _ in lines if has_header else chain((first,), lines):
        values.extend(_row(cells, f"{path}, line {number}"))
        if len(cells) != len(head) and not odd:
            of = "the header" if has_header else "the first job"
            odd = f"{path}, line {number}: {counted(len(cells), 'value')} where {of} has {len(head)}"
    found = np.array(values)
    jobs, machines = _announced(head) if separator in (None, "\t") else (0, 0)
    if jobs * machines and len(found) - len(head) == jobs * machines:
        if odd:
            return found[len(head) :].reshape(jobs, machines)
        raise InvalidFile(
            f"{path}: the file can be read in two ways: as {counted(jobs, 'job')} on "
            f"{counted(machines, 'machine')} after a header of the HCSP format, or as "
            f"{counted(len(found) // len(head), 'job')} on 3 machines; write the values one per line, or "
            f"separate them by commas"
        )
    if odd and jobs * machines:
        n = len(found) - len(head)
        raise InvalidFile(f"{path}: line 1 announces {jobs:,} x {machines:,} values, and there are {n:,}")
    if odd:
        raise InvalidFile(f"{odd}; expected as many, or a header 'jobs machines 0', as in the HCSP format")
    if not len(found):
        raise InvalidFile(f"{path}: the file has no jobs; expected a line of seconds per job")
    table = found.reshape(-1, len(head))
    if has_header and len(head) > 1 and _counts_rows(head[0], table[:, 0]):
        raise InvalidFile(
            f"{path}: the first column, {quoted(head[0])}, numbers the rows; leave it out, or if it has the "
            f"times of a machine, leave out the header"
        )
    return table


def _counts_rows(name: str, column: NDArray[np.float64]) -> bool:
    """Whether a column is the index of a data frame rather than the times of a machine."""
    counts = len(column) > 2 and column[0] in (0.0, 1.0) and bool((np.diff(column) == 1.0).all())
    return counts or name.lower() in _INDEX


def _cells(path: Path) -> Iterator[tuple[int, list[str], str | None]]:
    """The lines with content, and what separates their values, as the first of them tells; None: blanks."""
    separator: str | None = ""
    for number, line in enumerate(read_text(path, EACH).split("\n"), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        if separator == "":
            separator = next((sign for sign in (",", ";", "\t") if sign in line), None)
        yield number, [cell.strip(' \t"') for cell in line.split(separator)], separator


def _is_header(cells: list[str]) -> bool:
    return any(cells) and all(
        isnan(number_of(cell)) and (not cell or cell.lower() not in _MISSING) for cell in cells
    )


def _announced(cells: list[str]) -> tuple[int, int]:
    """The numbers of jobs and machines in a header of the HCSP format; zeros if it is none."""
    is_head = len(cells) == 3 and all(map(is_whole, cells))
    return (int(cells[0]), int(cells[1])) if is_head else (0, 0)


def _row(cells: list[str], where: str) -> Iterator[float]:
    for cell in cells:
        value = number_of(cell)
        if isnan(value):
            raise InvalidFile(f"{where}: {quoted(cell)} {NO_NUMBER}; expected seconds, or inf")
        yield value


def number_of(text: str) -> float:
    """NaN for a text that is no number, or too great a one."""
    if text.lower() in INFINITE:
        return inf
    value = float(text) if is_decimal(text) else nan
    return nan if isinf(value) else value
