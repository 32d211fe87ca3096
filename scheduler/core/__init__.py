"""What is compiled ahead of time: modules in plain Python, to which `.pxd` files give the types of C."""

import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

PACKAGES = Path(__file__).parent.parent.parent


def _check_machine_code() -> None:
    """Raise ImportError if there is none for this Python or, in a clone, it is not that of the sources."""
    remedy = "run `make compiled` in the clone"
    if not Path(__file__).with_name(f"queue{EXTENSION_SUFFIXES[0]}").exists():
        raise ImportError(
            f"{Path(__file__).parent} has no machine code for this Python ({sys.implementation.cache_tag}); "
            f"install sil-testbed with this Python, or {remedy}"
        )
    if (PACKAGES / "hatch_build.py").exists():
        for types in (
            file for name in ("scheduler", "sil") for file in (PACKAGES / name).rglob("core/*.pxd")
        ):
            source, code = types.with_suffix(".py"), types.with_suffix(EXTENSION_SUFFIXES[0])
            last_s = max(source.stat().st_mtime, types.stat().st_mtime)
            if not code.exists() or code.stat().st_mtime < last_s:
                raise ImportError(f"{source} has changed since it was compiled; {remedy}")


_check_machine_code()
