"""The reward of an environment, by its name or as a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduler import UserError
from scheduler.messages import counted

S = TypeVar("S")
Numbers = NDArray[np.float64]


def reward_of(
    given: str | Callable[[S], object], known: Mapping[str, Callable[[S], Numbers]], of: str, n: int
) -> Callable[[S], Numbers]:
    """The reward of that name, or the function itself, for `n` environments. Raises UserError, and whenever
    the function does not return a number for each."""
    if not isinstance(given, str) and callable(given):
        return lambda steps: _for_each(given(steps), n)
    if given not in known:
        raise UserError(f"reward is {given!r}; expected one of {', '.join(known)}, or a function of {of}")
    return known[given]


def _for_each(rewards: Any, n: int) -> Numbers:
    if np.shape(rewards) != (n,):
        raise UserError(
            f"the reward function returned {rewards!r}; expected an array with {counted(n, 'number')}"
        )
    return np.asarray(rewards, np.float64)
