"""The `sil` command."""

from __future__ import annotations

import sys

from sil.usable import unusable


def main() -> None:
    """Entry point of the command. Processes that it starts import this module, but not the commands."""
    if (message := unusable()) is not None:
        print(f"Error: {message}", file=sys.stderr)
        sys.exit(2)
    from sil.cli.app import main
    from sil.cli.process import end_now

    try:
        main()
    except SystemExit as done:
        end_now(done)
        raise
