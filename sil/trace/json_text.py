"""Results as JSON, for files and for `--json`."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

from scheduler.messages import printable


def json_text(value: object) -> str:
    """JSON with a member on each line, in ASCII if some characters could not be printed. JSON has no infinity
    and no NaN: they are null."""
    finite = _finite(value)
    text = json.dumps(finite, indent=2, ensure_ascii=False, allow_nan=False)
    return text if printable(text) == text else json.dumps(finite, indent=2)


def _finite(value: Any) -> Any:
    match value:
        case float():
            return value if isfinite(value) else None
        case dict():
            return {key: _finite(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_finite(inner) for inner in value]
    return value
