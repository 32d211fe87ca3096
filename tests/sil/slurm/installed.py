"""What tests with the real Slurm need, which skip without it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scheduler import UserError
from sil.slurm.clock.driver import built
from sil.slurm.installation import installed
from sil.slurm.running import munged


def missing() -> str | None:
    """Why Slurm's controller cannot run here; None if it can."""
    try:
        installed()
        built()
    except UserError as error:
        return str(error)
    return None


def missing_munge() -> str | None:
    """Why munge cannot be used with this Slurm; None if it can."""
    try:
        munged(installed())
    except UserError as error:
        return str(error)
    return None


needs_slurm = pytest.mark.skipif(missing() is not None, reason=f"without Slurm: {missing()}")
needs_munge = pytest.mark.skipif(missing_munge() is not None, reason=f"without munge: {missing_munge()}")


def skip_unless_programs_run_in(folder: Path) -> None:
    """Skip a test if nothing can be executed there, as in a file system that is mounted with noexec."""
    file = folder / "executable"
    file.touch(0o755)
    if not os.access(file, os.X_OK):
        pytest.skip(f"nothing can be executed in {folder}")
