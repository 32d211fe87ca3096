"""The library of the clock, which is compiled when the package is installed."""

from __future__ import annotations

import ctypes
import platform
import sys
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from scheduler import UserError

LIBRARY = Path(__file__).with_name(f"preloaded{EXTENSION_SUFFIXES[0]}")


@cache
def built() -> Path:
    """Raises UserError."""
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        raise UserError(
            f"Slurm's controller gets simulated time on Linux with the GNU C library only, and this is "
            f"{platform.system()} {platform.libc_ver()[0]}; use a container of Debian or Ubuntu"
        )
    try:
        ctypes.CDLL(str(LIBRARY))
    except OSError as error:
        raise UserError(
            f"the clock of Slurm's controller, which is compiled when sil-testbed is installed, cannot be "
            f"loaded ({error}); install sil-testbed again, where programs may run"
        ) from None
    return LIBRARY
