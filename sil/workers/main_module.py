"""The script that this process runs, hidden from the processes that it starts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def script_is_not_imported() -> Iterator[None]:
    """Within this context, new processes do not import the script that starts them, which would run it again:
    what it defines is sent to them by value."""
    main = sys.modules["__main__"]
    hidden: dict[str, Any] = {
        name: vars(main).pop(name) for name in ("__file__", "__spec__") if name in vars(main)
    }
    main.__spec__ = None
    try:
        yield
    finally:
        vars(main).update(hidden)
