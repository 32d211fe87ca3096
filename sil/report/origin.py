"""Where a report comes from: the command, the versions, the input and the host.

They are recorded beside the results when these are made, so that a report that is rebuilt later shows them.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from scheduler.messages import counted
from sil.report.listing import json_text
from sil.usable import VERSION, library_versions
from site_db.files.access import digest, no_link, regular

ORIGIN = "origin.json"
COMMAND = "sil"


def record_origin(folder: Path, inputs: Mapping[str, str]) -> None:
    """Write the origin of the results in a folder. `inputs` are the SHA-256 sums of what they were made
    from, by name."""
    found = {
        "command": _command(),
        "versions": {"sil": VERSION, "Python": platform.python_version(), **library_versions()},
        "inputs": dict(inputs),
        "host": f"{platform.node()}, {platform.system()} {platform.release()} on {platform.machine()}, "
        f"{counted(os.cpu_count() or 1, 'CPU')}",
    }
    no_link(folder / ORIGIN).write_text(json_text(found) + "\n", encoding="utf-8")


def origin_terms(folder: Path) -> Iterator[tuple[str, str]]:
    """The origin of the results in a folder: pairs of a term and its description; none if it is unknown."""
    try:
        found = json.loads(regular(folder / ORIGIN).read_text(encoding="utf-8"))
        yield "Command", found["command"]
        yield "Versions", ", ".join(f"{name} {number}" for name, number in found["versions"].items())
        for name, digest in found["inputs"].items():
            yield "Input", f"{name}, SHA-256 {digest}"
        yield "Host", found["host"]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return


def sha256_sums(*files: Path) -> dict[str, str]:
    """The SHA-256 sums of the contents of files, by their names. Raises InvalidFile."""
    return {path.name: digest(path) for path in files}


def _command() -> str:
    """The command as it can be repeated in a shell, or that there is no such command."""
    program, *arguments = sys.argv
    path = Path(program)
    if path.name == COMMAND or (path.name == "__main__.py" and path.parent.name == COMMAND):
        return shlex.join([COMMAND, *arguments])
    if path.name.startswith("ipykernel"):
        return "none: made in a notebook"
    if program in ("", "-", "-c"):
        return "none: made in a session of Python"
    return shlex.join(["python", program, *arguments])
