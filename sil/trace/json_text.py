"""Results as JSON, for files and for `--json`, and names as names of files."""

from __future__ import annotations

import hashlib
import json
import re
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


MOST_BYTES = 120
"""Of a name, which leaves room for endings: file systems have 255."""


def file_name(name: str) -> str:
    """A single part of a path, however the name reads: letters, digits and some signs of it, where others and
    a dot at its beginning become hyphens. A long name is cut, and ends with a hash of the whole."""
    found = re.sub(r"[^\w.=,()+-]+|^\.+", "-", name) or "-"
    if len(found.encode()) <= MOST_BYTES:
        return found
    mark = f"-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
    return found.encode()[: MOST_BYTES - len(mark)].decode(errors="ignore") + mark
