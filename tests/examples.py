"""How many examples Hypothesis tries: a part in `make test`, all that a test asks for in `make test-all`."""

from __future__ import annotations

import os

ALL = bool(os.environ.get("SIL_ALL_EXAMPLES"))


def up_to(examples: int, part: int = 5) -> int:
    """All `examples`, or in `make test` one `part`-th of them, at least 10."""
    return examples if ALL else max(10, examples // part)
