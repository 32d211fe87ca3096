"""Compiled functions: compiled once on a computer, cached on disk, ready before the first decision."""

from __future__ import annotations

import scheduler.compiled.without_local_file  # noqa: F401 (before Numba)

# isort: split
import gc
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from types import MappingProxyType, NoneType
from typing import Annotated, Any, NamedTuple, TypeVar, cast, get_args, get_type_hints

import numpy as np
from numba import config as numba_config
from numba import njit, types
from numba.core import event
from numba.extending import overload
from numba.np.numpy_support import as_dtype
from numpy.typing import NDArray

from scheduler.compiled.code import Compiler, CompilerOfParts, signatures_remembered, typed_once
from scheduler.compiled.kept import Kept, is_writable
from scheduler.compiled.records import Record, RecordByHandle, handle_of, record_at, record_type

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R", bound=tuple[Any, ...])

Floats = Annotated[NDArray[np.float64], types.Array(types.float64, 1, "C")]
Ints = Annotated[NDArray[np.int64], types.Array(types.int64, 1, "C")]
Bytes = Annotated[NDArray[np.uint8], types.Array(types.uint8, 1, "C")]
Flags = Annotated[NDArray[np.bool_], types.Array(types.boolean, 1, "C")]
Floats2 = Annotated[NDArray[np.float64], types.Array(types.float64, 2, "C")]
Ints2 = Annotated[NDArray[np.int64], types.Array(types.int64, 2, "C")]
Flags2 = Annotated[NDArray[np.bool_], types.Array(types.boolean, 2, "C")]
Singles2 = Annotated[NDArray[np.float32], types.Array(types.float32, 2, "C")]
Singles3 = Annotated[NDArray[np.float32], types.Array(types.float32, 3, "C")]
FixedFloats = Annotated[NDArray[np.float64], types.Array(types.float64, 1, "C", readonly=True)]
FixedInts = Annotated[NDArray[np.int64], types.Array(types.int64, 1, "C", readonly=True)]
FixedBytes = Annotated[NDArray[np.uint8], types.Array(types.uint8, 1, "C", readonly=True)]
FixedFlags = Annotated[NDArray[np.bool_], types.Array(types.boolean, 1, "C", readonly=True)]
FixedFloats2 = Annotated[NDArray[np.float64], types.Array(types.float64, 2, "C", readonly=True)]
FixedBits2 = Annotated[NDArray[np.uint64], types.Array(types.uint64, 2, "C", readonly=True)]
"""Arrays, as types of Python and of the compiler. A 2 means two dimensions, Fixed read-only, Singles
are numbers of 32 bits."""

config: Any = numba_config
_log = logging.getLogger(__name__)

OPTIONS: dict[str, Any] = {
    "fastmath": {"nnan", "nsz"},
    "error_model": "numpy",
    "_nrt": False,
    "no_cfunc_wrapper": True,
    "pipeline_class": Compiler,
}
"""The compiler may assume that there is no NaN and that zeros have no sign; it never reorders sums. Callers
allocate all arrays, so passing them on costs no reference counting. No C code calls these functions."""
_OF_PARTS = OPTIONS | {"no_cpython_wrapper": True, "pipeline_class": CompilerOfParts}

SCALARS = {int: types.int64, float: types.float64, bool: types.boolean, NoneType: types.void}


@cache
def _field_types(record: type) -> tuple[Any, ...]:
    return tuple(map(_compiled_type, get_type_hints(record, include_extras=True).values()))


@cache
def _dtypes(record: type) -> tuple[np.dtype[Any], ...]:
    """Of the fields that are arrays."""
    return tuple(as_dtype(field.dtype) for field in _field_types(record) if isinstance(field, types.Array))


def _compiled_type(annotation: Any) -> Any:
    """The compiler's type of a scalar, an array, or a named tuple of these."""
    if annotation in SCALARS:
        return SCALARS[annotation]
    if hasattr(annotation, "__metadata__"):
        return annotation.__metadata__[0]
    return _record_type(annotation)


@cache
def _record_type(record: type) -> Any:
    return record_type(record, _field_types(record))


def allocate(record: type[R], *shapes: int | tuple[int, ...], **last: Any) -> R:
    """A named tuple of new arrays of zeros of these shapes; `last` are its last fields."""
    return record(*map(np.zeros, shapes, _dtypes(record)), **last)


class Initially(NamedTuple):
    """In the annotation of an array: what its items are before they are set, if that is not 0."""

    value: float


class _Field(NamedTuple):
    """An array or, if `nested`, a named tuple of such fields."""

    nested: type | None
    shape: tuple[str | int, ...] = ()
    initial: float = 0
    dtype: Any = None


@cache
def _fields(record: type) -> tuple[_Field, ...]:
    found, hints = list[_Field](), get_type_hints(record, include_extras=True).values()
    for hint, kind in zip(hints, _field_types(record), strict=True):
        if not isinstance(kind, types.Array):
            found.append(_Field(hint))
            continue
        extras = hint.__metadata__[1:]
        initial = next((extra.value for extra in extras if isinstance(extra, Initially)), 0)
        shape = tuple(extra for extra in extras if not isinstance(extra, Initially))
        found.append(_Field(None, shape or (1,), initial, as_dtype(kind.dtype)))
    return tuple(found)


def made(record: type[R], **sizes: int) -> R:
    """A new named tuple of arrays, and of such named tuples, whose annotations name their dimensions.

    `Annotated[Ints2, "jobs", 4]` has `sizes["jobs"]` rows of 4 items. An array without dimensions has 1 item.
    """
    fields: list[Any] = []
    for nested, shape, initial, dtype in _fields(record):
        if nested is None:
            lengths: list[Any] = [sizes.get(n, n) if isinstance(n, str) else n for n in shape]
            fields.append(np.full(lengths, initial, dtype))
        else:
            fields.append(made(nested, **sizes))
    return record(*fields)


def grown(record: R, **sizes: int) -> R:
    """The named tuple with more of some dimensions (see `made`). What there was comes first; arrays without
    these dimensions are the same ones."""
    fields: list[Any] = []
    for field, old in zip(_fields(type(record)), record, strict=True):
        if field.nested is not None:
            old = grown(old, **sizes)
        elif not sizes.keys().isdisjoint(field.shape):
            shape = [sizes.get(str(n), before) for n, before in zip(field.shape, old.shape, strict=True)]
            new = np.full(shape, field.initial, field.dtype)
            new[tuple(map(slice, old.shape))] = old
            old = new
        fields.append(old)
    return type(record)(*fields)


def copied(record: R) -> R:
    """A named tuple of copies of the arrays of another one."""
    return type(record)(*(array.copy() for array in record))


def part(function: F) -> F:
    """A function that only compiled functions of the same folder call."""
    return _for_callers(function)


def inlined(function: F) -> F:
    """As `part`, for inner loops: its body replaces each call.

    LLVM does so, which takes less time than to let Numba infer the types of each copy. But a function without
    reference counting cannot return an array, unless Numba replaces the call.
    """
    returned = get_type_hints(function, include_extras=True)["return"]
    by_llvm = SCALARS.keys() >= {*(get_args(returned) or (returned,))}
    how: dict[str, Any] = {"forceinline": True} if by_llvm else {"inline": "always"}
    return _for_callers(function, **how)


def _for_callers(function: F, **how: Any) -> F:
    if config.DISABLE_JIT:
        return function
    return cast(F, typed_once(njit(function, **how, **_OF_PARTS)))


def generic(function: F) -> F:
    """A declaration whose own body never runs: the type of the first argument, a named tuple, selects the
    implementation (see `implements`) when the caller is compiled."""
    implementations: dict[type, Any] = {}

    def call(*arguments: Any) -> Any:
        return implementations[type(arguments[0])](*arguments)

    call.__dict__.update(implementations=implementations, __name__=function.__name__)
    if not config.DISABLE_JIT:

        def implementation(first: Any, *_: Any) -> Any:
            return implementations[first.instance_class].py_func

        overload(call, jit_options=cast(Any, _OF_PARTS), strict=False)(implementation)
    return cast(F, call)


def implements(of: Callable[..., Any]) -> Callable[[F], F]:
    """A `part` that implements a generic function for the type of its first argument; for a type variable,
    for each type that it may be."""

    def add(function: F) -> F:
        made = part(function)
        record, *_ = get_type_hints(function).values()
        for each in getattr(record, "__constraints__", (record,)):
            cast(Any, of).implementations[each] = made
        return made

    return add


def handle(record: R) -> R:
    """What functions made by `called_by_handle` take for a named tuple of arrays: their description, made
    once. Making it in each call, as for the named tuple itself, takes longer than many of the calls."""
    return record if config.DISABLE_JIT else cast(R, handle_of(record))


def record_of(kind: type[R]) -> Callable[[int], R]:
    """For compiled functions that work on many records: the one with this `handle`."""
    return cast("Callable[[int], R]", record_at(_record_type(kind)))


def compiled(
    function: F,
    where: Mapping[TypeVar, type] = MappingProxyType({}),
    argument_type: Callable[[Any], Any] = _compiled_type,
    **options: Any,
) -> F:
    """Compile a function for its annotations as its module is imported, or load it from the cache. `where`
    gives types for annotations that are type variables.

    Indices of arrays must not be negative (see `items`).

    The code is kept (see `Kept`) in `__pycache__` beside the source, or in the user's cache folder where that
    cannot be written, and made again when a source changes on which it may depend.
    """
    if config.DISABLE_JIT:
        return function
    hints = get_type_hints(function, include_extras=True)
    hints = {name: where.get(hint, hint) for name, hint in hints.items()}
    returned = _compiled_type(hints.pop("return"))
    signature = returned(*map(argument_type, hints.values()))
    kept = Kept(function)
    with (
        event.install_listener("numba:compile", _Announcement(kept)),
        _without_collections(),
        signatures_remembered(),
    ):
        made: Any = njit(function, **OPTIONS, **options)
        made._cache = kept
        made.compile(signature)
        made.disable_compile()
    return cast(F, made)


def long_running(function: F, where: Mapping[TypeVar, type] = MappingProxyType({})) -> F:
    """As `compiled`; other threads go on while it runs."""
    return compiled(function, where, nogil=True)


def direct(function: F) -> F:
    """Call a compiled function without checking its arguments, which takes longer than many of the calls.

    An array of another type, dimension or layout is read and written as if it fitted. Compiled functions
    cannot call it; what they share with it is a `part`.
    """
    if config.DISABLE_JIT:
        return function
    made: Any = function
    (only,) = made.overloads.values()
    return cast(F, only.entry_point)


def called_from_python(function: F, where: Mapping[TypeVar, type] = MappingProxyType({})) -> F:
    """A `part` or `inlined` function, also compiled for `direct` calls; for `where` see `compiled`."""
    return direct(compiled(getattr(function, "py_func", function), where))


def called_by_handle(function: F, where: Mapping[TypeVar, type] = MappingProxyType({})) -> F:
    """As `called_from_python`; the caller gives the `handle` of a record."""
    return direct(compiled(getattr(function, "py_func", function), where, _type_by_handle))


def _type_by_handle(annotation: Any) -> Any:
    found = _compiled_type(annotation)
    return RecordByHandle(found) if isinstance(found, Record) else found


_others_froze = False
"""Whether others have frozen objects, which stay so; to count these, Python looks through them."""


@contextmanager
def _without_collections() -> Iterator[None]:
    """Most of what the compiler makes is in use until it is done: looking for garbage meanwhile takes a sixth
    of its time, and finds little. What is garbage then waits for the next full collection."""
    global _others_froze
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            _others_froze = _others_froze or gc.get_freeze_count() > 0
            if not _others_froze:
                gc.freeze()
                gc.unfreeze()  # into the oldest generation
            gc.enable()


class _Announcement(event.Listener):
    """Logs, once in a process, that something has to be compiled."""

    was_logged = False

    def __init__(self, kept: Kept) -> None:
        self._kept = kept

    def on_start(self, event: Any) -> None:
        if not _Announcement.was_logged:
            _Announcement.was_logged = True
            if any(map(is_writable, self._kept.folders)):
                _log.info("compiling the schedulers for this computer: a few seconds, the first time only")
            else:
                _log.warning(
                    "compiling the schedulers for this computer: a few seconds each time, since no folder "
                    "can be written to keep the result; set NUMBA_CACHE_DIR to one that can"
                )

    def on_end(self, event: Any) -> None:
        pass
