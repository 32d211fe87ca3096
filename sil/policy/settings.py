"""Settings of policies and environments: checked, with one sentence for the user."""

from __future__ import annotations

import numpy as np

from scheduler import UserError


def positive(value: object, name: str) -> int:
    """Raises UserError unless it is a whole number from 1 on."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise UserError(f"{name} is {value!r}; expected a whole number from 1 on")
    return int(value)
