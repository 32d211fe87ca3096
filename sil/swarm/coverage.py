"""Which lines of the resource managers a swarm has reached."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import scheduler.durability
import scheduler.managers

Lines = frozenset[tuple[str, int]]
"""Lines of functions: the file, relative to the packages' folder, and the number."""

_ROOT = Path(scheduler.managers.__file__).parent.parent.parent
_FOLDERS = tuple(
    str(Path(package.__file__ or "").parent) for package in (scheduler.durability, scheduler.managers)
)


@contextmanager
def lines_reached(into: set[tuple[str, int]]) -> Iterator[None]:
    """Add the lines of the managers that are executed within this context, which takes ten times as long."""

    def line(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            into.add((frame.f_code.co_filename, frame.f_lineno))
        return line

    def call(frame: FrameType, _event: str, _argument: Any) -> Any:
        return line if frame.f_code.co_filename.startswith(_FOLDERS) else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        yield
    finally:
        sys.settrace(before)


@cache
def all_lines() -> Lines:
    """All lines of functions of the managers."""
    return frozenset(
        (str(path), number)
        for folder in _FOLDERS
        for path in sorted(Path(folder).glob("*.py"))
        for number in _lines_of(compile(path.read_text(), str(path), "exec"), is_function=False)
    )


def relative(path: str) -> str:
    return str(Path(path).relative_to(_ROOT))


def _lines_of(code: CodeType, is_function: bool = True) -> Iterator[int]:
    """The lines of the functions in `code`, without those that define them."""
    if is_function and code.co_flags & CO_OPTIMIZED:  # classes are not
        yield from {line for *_, line in code.co_lines() if line and line != code.co_firstlineno}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _lines_of(constant)
