"""Matrices of numbers: in text, separated by commas, semicolons, tabs or blanks, in the HCSP format, or in
files of NumPy (`.npy`).

<https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>
"""

from __future__ import annotations

import ast
import math
import re
from array import array
from collections.abc import Iterator
from itertools import chain
from math import inf, isinf, isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler.messages import counted
from site_db.files.access import Memory, beginning, read_bytes, read_text
from site_db.files.formats import is_decimal, is_whole, without_suffix
from site_db.files.input_errors import InvalidFile, quoted

EACH = 96.0
"""The most memory, in bytes, that a byte of text takes as numbers."""
INFINITE = ("inf", "+inf", "infinity", "+infinity")
"""Texts for where a job cannot run."""
NO_NUMBER = "is not a number, or too great for one"

_MISSING = ("", "nan", "na", "n/a", "null", "none")
"""Texts for a missing number; no names of machines."""
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
    is_name = [isnan(number_of(cell)) and (not cell or cell.lower() not in _MISSING) for cell in head]
    has_header = any(head) and all(is_name)
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
    # The numbers of jobs and machines in a header of the HCSP format.
    is_hcsp = separator in (None, "\t") and len(head) == 3 and all(map(is_whole, head))
    jobs, machines = map(int, head[:2]) if is_hcsp else (0, 0)
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
    first_column = table[:, 0]
    counts = len(table) > 2 and first_column[0] in (0.0, 1.0) and bool((np.diff(first_column) == 1.0).all())
    if has_header and len(head) > 1 and (counts or head[0].lower() in _INDEX):
        raise InvalidFile(
            f"{path}: the first column, {quoted(head[0])}, numbers the rows; leave it out, or if it has the "
            f"times of a machine, leave out the header"
        )
    return table


def _cells(path: Path) -> Iterator[tuple[int, list[str], str | None]]:
    """The lines with content, and what separates their values, as the first of them tells; None: blanks."""
    separator: str | None = ""
    for number, line in enumerate(read_text(path, EACH).split("\n"), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        if separator == "":
            separator = next((sign for sign in (",", ";", "\t") if sign in line), None)
        yield number, [cell.strip(' \t"') for cell in line.split(separator)], separator


def _row(cells: list[str], where: str) -> Iterator[float]:
    for cell in cells:
        value = number_of(cell)
        if isnan(value):
            raise InvalidFile(f"{where}: {quoted(cell)} {NO_NUMBER}; expected seconds, or inf")
        yield value


def number_of(text: str) -> float:
    """The number of a text; NaN for a text that is no number, or too great a one."""
    if text.lower() in INFINITE:
        return inf
    value = float(text) if is_decimal(text) else nan
    return nan if isinf(value) else value


_MAGIC = b"\x93NUMPY"
_SIZE = 8
"""The bytes of a number in memory."""
_HEADER = re.compile(r"[\w\s'\"<>=|(){}\[\],:-]{,400}", re.ASCII)
_MAX_AXES = 32
_KINDS = "iuf"
"""The kinds of numbers: integers, with or without a sign, and floating-point numbers."""


def is_npy(path: Path) -> bool:
    """Whether a file, which may be compressed, begins as those of NumPy, or has their name. Raises
    InvalidFile."""
    return without_suffix(path).suffix.lower() == ".npy" or beginning(path, len(_MAGIC)) == _MAGIC


def read_numbers(path: Path) -> NDArray[np.float64]:
    """The array in a file, which may be compressed. Its header is checked before there is memory for the
    numbers. Raises InvalidFile, also for dates, complex numbers and objects."""
    if beginning(path, len(_MAGIC)) != _MAGIC:  # a file of another kind may be large
        raise InvalidFile(f"{path}: this is not a NumPy file (.npy)")
    data = read_bytes(path)
    dtype, is_fortran, shape, begin = _header(data, path)
    n = math.prod(shape)
    where = f"{path}: the array of shape {shape}"
    Memory(where).take(n * max(_SIZE, dtype.itemsize))
    there = len(data) - begin
    if n * dtype.itemsize != there:
        raise InvalidFile(f"{where} needs {n * dtype.itemsize:,} bytes, and the file has {there:,}")
    array = np.frombuffer(data, dtype, n, begin).reshape(shape, order="F" if is_fortran else "C")
    return np.ascontiguousarray(array, dtype=np.float64)


def _header(data: bytes, path: Path) -> tuple[np.dtype[Any], bool, tuple[int, ...], int]:
    """The type of the numbers, whether columns come first, the shape, and where the numbers begin."""
    size = {1: 2, 2: 4, 3: 4}.get(data[6] if len(data) > 6 else 0)
    if not data.startswith(_MAGIC) or size is None:
        raise InvalidFile(f"{path}: this is not a NumPy file (.npy)")
    begin = 8 + size + int.from_bytes(data[8 : 8 + size], "little")
    text = data[8 + size : begin].decode("latin-1").strip()
    try:
        if begin > len(data) or not _HEADER.fullmatch(text):
            raise ValueError("there is no header")
        found = ast.literal_eval(text)
        descr, is_fortran, shape = found["descr"], bool(found["fortran_order"]), found["shape"]
        if not all(type(n) is int and 0 < n < 2**62 for n in shape) or len(shape) > _MAX_AXES:
            raise ValueError("a shape has whole numbers")
        dtype = np.dtype(descr)
    except (ValueError, SyntaxError, TypeError, LookupError, RecursionError, MemoryError) as error:
        what = f"the header of this NumPy file is damaged ({type(error).__name__})"
        raise InvalidFile(f"{path}: {what}") from None
    if not isinstance(descr, str) or dtype.kind not in _KINDS:
        raise InvalidFile(f"{path}: its values are of type {str(descr)[:20]}; expected numbers")
    return dtype, is_fortran, tuple(shape), begin
