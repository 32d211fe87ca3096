"""Arrays of numbers in files of NumPy (`.npy`).

<https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>
"""

from __future__ import annotations

import ast
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from site_db.files.formats import without_suffix
from site_db.files.given import InvalidFile
from site_db.files.memory import Memory
from site_db.files.opened import beginning, read_bytes

_MAGIC = b"\x93NUMPY"
_SIZE = 8
"""Bytes of a number in memory."""
_HEADER = re.compile(r"[\w\s'\"<>=|(){}\[\],:-]{,400}", re.ASCII)
_MOST_AXES = 32
_KINDS = "iuf"
"""Integers, with or without a sign, and floating-point numbers."""


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
        if not all(type(n) is int and 0 < n < 2**62 for n in shape) or len(shape) > _MOST_AXES:
            raise ValueError("a shape has whole numbers")
        dtype = np.dtype(descr)
    except (ValueError, SyntaxError, TypeError, LookupError, RecursionError, MemoryError) as error:
        what = f"the header of this NumPy file is damaged ({type(error).__name__})"
        raise InvalidFile(f"{path}: {what}") from None
    if not isinstance(descr, str) or dtype.kind not in _KINDS:
        raise InvalidFile(f"{path}: its values are of type {str(descr)[:20]}; expected numbers")
    return dtype, is_fortran, tuple(shape), begin
