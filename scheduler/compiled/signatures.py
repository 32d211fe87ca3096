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
    call, given = (tuple(arguments), tuple(sorted(keywords.items()))), options.top_or_none()
    values = None if given is None else given._values  # those that are set; to compare all takes longer
    by_options = vars(function).setdefault("remembered_signatures", {}).setdefault(call, [])
    found = next((each for each in by_options if each[0] == values), None)
    if found is None:
        signature = _look_for(function, context, arguments, keywords)
        found = None if values is None else dict(values), signature, function._impl_keys[signature.args]
        by_options.append(found)
    _, signature, function._impl_keys[signature.args] = found
    return signature
