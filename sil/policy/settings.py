"""Settings of policies and environments: checked, with one sentence for the user."""

from __future__ import annotations

import numpy as np

from scheduler import UserError


def whole_number(value: object, name: str, least: int = 1) -> int:
    """Raises UserError unless it is a whole number from `least` on."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise UserError(f"{name} is {value!r}; expected a whole number from {least} on")
    return int(value)
