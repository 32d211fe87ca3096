"""Signatures of calls that were found before, so that the compiler need not look for them again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import types as numba_types

types: Any = numba_types


@contextmanager
def signatures_remembered() -> Iterator[None]:
    """For each addition, comparison, and call of `min` or `len`, Numba tries all implementations there are,
    when it infers types and again when it writes code. Within this context, it remembers the one it found: a
    sixth of the time that compilation takes."""
    look_for = types.BaseFunction.get_call_type

    def remembered(function: Any, context: Any, arguments: Any, keywords: Any) -> Any:
        found = vars(function).setdefault("remembered_signatures", {})
        call = tuple(arguments), tuple(sorted(keywords.items()))
        if call not in found:
            found[call] = look_for(function, context, arguments, keywords)
        return found[call]

    types.BaseFunction.get_call_type = remembered
    try:
        yield
    finally:
        types.BaseFunction.get_call_type = look_for
