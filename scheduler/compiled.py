"""Compiled functions: made once for a machine, kept on disk, ready before anybody is asked to decide."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numba import config as numba_config
from numba import njit, types
from numba.core import event
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FLOATS = types.Array(types.float64, 1, "C")
INTS = types.Array(types.int64, 1, "C")

config: Any = numba_config
_log = logging.getLogger(__name__)

OPTIONS: dict[str, Any] = {"fastmath": {"nnan", "nsz"}, "error_model": "numpy", "_nrt": False}
"""No NaN, and zeros without sign, may be taken for granted; sums are never reordered. Nothing is allocated:
arrays are made by the caller, so that passing them on costs no counting of references."""


def named_tuple(fields: tuple[Any, ...], kind: type) -> Any:
    """The compiler's type of a named tuple."""
    alike: Any = types.NamedUniTuple
    unlike: Any = types.NamedTuple
    return alike(fields[0], len(fields), kind) if len(set(fields)) == 1 else unlike(fields, kind)


def room_for_ints(n: int) -> Ints:
    return np.empty(n, dtype=np.int64)


def part(function: F) -> F:
    """A function that only compiled functions of the same folder call."""
    return cast(F, njit(function, **OPTIONS))


def inlined(function: F) -> F:
    """As `part`, for what is called at every step: its body is put in the place of each call."""
    return cast(F, njit(function, inline="always", **OPTIONS))


def compiled(signature: Any) -> Callable[[F], F]:
    """Compile a function for `signature` as its module is imported, or load it from where it was kept.

    It is kept in `__pycache__` beside its source, or in the user's cache folder where that cannot be written,
    for as long as no file in its source's folder changes.
    """

    def compile_it(function: F) -> F:
        with _kept_for(Path(function.__code__.co_filename).parent), _announced():
            try:
                made = njit(signature, cache=True, **OPTIONS)(function)
            except RuntimeError as error:
                if "cannot cache" not in str(error):
                    raise
                _log.warning("no folder can be written to keep compiled code, so it is made again each time")
                made = njit(signature, **OPTIONS)(function)
        return cast(F, made)

    return compile_it


def direct(function: F) -> F:
    """Call a compiled function without a look at the types of its arguments, which takes longer than many do.

    Nobody checks: an array of another type, dimension or layout is read and written as if it fitted. Other
    compiled functions cannot call it; what they need as well is a `part` beside it.
    """
    if config.DISABLE_JIT:
        return function
    made: Any = function
    (only,) = made.overloads.values()
    return cast(F, only.entry_point)


@contextmanager
def _kept_for(folder: Path) -> Iterator[None]:
    """Keep what is compiled under a name that changes with the sources.

    Numba itself would only notice a change in the very file of a function, and not in what it calls.
    """
    before = config.CACHE_DIR
    parent = Path(before) if before else folder / "__pycache__"
    config.CACHE_DIR = str(parent / f"compiled-{_fingerprint(folder)}")
    try:
        yield
    finally:
        config.CACHE_DIR = before


@cache
def _fingerprint(folder: Path) -> str:
    sources = hashlib.sha256()
    for source in (Path(__file__), *sorted(folder.glob("*.py"))):
        sources.update(source.name.encode() + source.read_bytes())
    return sources.hexdigest()[:16]


class _Announcement(event.Listener):
    """Tells, once in a process, that something has to be compiled."""

    was_told = False

    def on_start(self, event: Any) -> None:
        if not _Announcement.was_told:
            _Announcement.was_told = True
            _log.info(
                "compiling the schedulers for this machine; this takes some seconds, and the result is cached"
            )

    def on_end(self, event: Any) -> None:
        pass


def _announced() -> Any:
    return event.install_listener("numba:compile", _Announcement())
