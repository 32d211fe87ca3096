"""Names of schedulers, experiments and charts as names of files."""

from __future__ import annotations

import hashlib
import re

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
