"""How many examples Hypothesis tries: a part in `make test`, all that a test asks for in `make test-all`."""

from __future__ import annotations

import os


def up_to(examples: int, part: int = 5) -> int:
    """All `examples`, or in `make test` one `part`-th of them, at least 10."""
    return examples if os.environ.get("SIL_ALL_EXAMPLES") else max(10, examples // part)
