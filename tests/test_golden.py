"""The behaviour that is frozen in tests/golden: `python -m tests.golden compare`."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.long
def test_what_commands_write_and_print_is_as_it_was() -> None:
    """Catches a change of any column of a result, message, signature, or seed that a seeded bug needs."""
    done = subprocess.run([sys.executable, "-m", "tests.golden", "compare"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
