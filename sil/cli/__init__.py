"""The `sil` command."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

OURS = "sil-testbed"
MARK = "The scheduler a site would run"
"""From the docstring of our `scheduler` package."""


def shadowed_scheduler(installed_beside: Path) -> str | None:
    """The error message for a `scheduler` package that belongs to another distribution, or None.

    Ours is installed beside `sil`; a package of the same name elsewhere on the path hides it, one installed
    into the same folder overwrites its files.
    """
    expected = installed_beside / "scheduler" / "__init__.py"
    found = find_spec("scheduler")
    origin = Path(found.origin) if found is not None and found.origin else None
    if origin == expected and MARK in expected.read_text(encoding="utf-8"):
        return None
    from importlib.metadata import packages_distributions  # loads the parser of e-mail

    owners = [name for name in packages_distributions().get("scheduler", ()) if name != OURS]
    where = f"the package `scheduler` in {origin.parent if origin else 'an unknown place'}"
    whose = f" belongs to {' and '.join(dict.fromkeys(owners))}" if owners else " is another one"
    return f"{where}{whose} and hides that of {OURS}; install {OURS} in a virtual environment of its own"


_message = shadowed_scheduler(Path(__file__).parent.parent.parent)
if _message is not None:
    print(f"Error: {_message}", file=sys.stderr)
    sys.exit(2)


def main() -> None:
    """Entry point of the command. Processes that it starts import this module, but not the commands."""
    from sil.cli.app import main
    from sil.cli.start.ending import end_now

    try:
        main()
    except SystemExit as done:
        end_now(done)
        raise
