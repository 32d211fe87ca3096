"""Time as it passes."""

from __future__ import annotations

import time


class WallClock:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    @property
    def now_s(self) -> float:
        return time.monotonic() - self._began_s
