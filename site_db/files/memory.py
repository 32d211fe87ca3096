"""How much memory what users give may take: the content of files, and the sizes that they name."""

from __future__ import annotations

import os

from scheduler import UserError
from site_db.files.given import InvalidFile

VARIABLE = "SIL_INPUT_MEMORY_MB"
"""The environment variable with the limit, in megabytes (10^6 bytes)."""
DEFAULT_MB = 4096
OF_JSON = 24.0
"""Bytes of memory that a byte of JSON takes as objects, at most."""
_MB = 1e6


def most_bytes() -> float:
    """The limit. Raises UserError if the environment variable is not a number above 0."""
    text = os.environ.get(VARIABLE, "").strip() or str(DEFAULT_MB)
    if not (text.isascii() and text.isdigit() and len(text) <= 12 and int(text) > 0):
        raise UserError(
            f"the environment variable {VARIABLE} is '{text}'; expected a whole number of megabytes above 0, "
            f"like {DEFAULT_MB}"
        )
    return int(text) * _MB


class Memory:
    """The memory that `what` takes, by estimate, as it grows."""

    def __init__(self, what: object) -> None:
        self._what = what
        self._taken, self._most = 0.0, most_bytes()

    def take(self, n_bytes: float) -> None:
        """Raises InvalidFile if that is more than there may be."""
        self._taken += n_bytes
        if self._taken > self._most:
            raise InvalidFile(
                f"{self._what}: this takes {amount(self._taken)} of memory or more, by estimate, and inputs "
                f"may take {amount(self._most)}; give less, or a greater number of megabytes in the "
                f"environment variable {VARIABLE}"
            )


def amount(n_bytes: float) -> str:
    """Megabytes, or a greater unit."""
    for unit in ("MB", "GB", "TB", "PB"):
        n_bytes /= 1000 if unit != "MB" else _MB
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
    return f"{n_bytes:,.0f} PB"
