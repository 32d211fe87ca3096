"""How many examples Hypothesis tries: a fifth in `make test`, all that a test asks for in `make test-all`."""

from __future__ import annotations

import os


def up_to(examples: int) -> int:
    return examples if os.environ.get("SIL_ALL_EXAMPLES") else max(10, examples // 5)
