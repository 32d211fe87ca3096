"""JSON for files and terminals."""

from __future__ import annotations

import json

from scheduler import printable


def json_text(value: object) -> str:
    """A value as JSON; in ASCII if characters in it could not be printed as they are."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text if printable(text) == text else json.dumps(value, indent=2)
