"""The reward of an environment, by its name or as a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from scheduler import UserError

F = TypeVar("F", bound=Callable[..., object])


def reward_of(given: str | F, known: Mapping[str, F], of: str) -> F:
    """The reward of that name, or the function itself. Raises UserError."""
    if not isinstance(given, str) and callable(given):
        return given
    if given not in known:
        raise UserError(f"reward is {given!r}; expected one of {', '.join(known)}, or a function of {of}")
    return known[given]
