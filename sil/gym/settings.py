"""Settings of environments: checked, with one sentence for the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np

from scheduler import UserError

F = TypeVar("F", bound=Callable[..., object])


def positive(value: object, name: str) -> int:
    """Raises UserError unless it is a whole number from 1 on."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise UserError(f"{name} is {value!r}; expected a whole number from 1 on")
    return int(value)


def reward_of(given: str | F, known: Mapping[str, F], of: str) -> F:
    """The reward of that name, or the function itself. Raises UserError."""
    if not isinstance(given, str) and callable(given):
        return given
    if given not in known:
        raise UserError(f"reward is {given!r}; expected one of {', '.join(known)}, or a function of {of}")
    return known[given]
