"""What tests with the real Slurm need, which skip without it."""

from __future__ import annotations

import pytest

from scheduler import UserError
from sil.slurm.clock.library import built
from sil.slurm.installation import installed


def missing() -> str | None:
    """Why Slurm's controller cannot run here; None if it can."""
    try:
        installed()
        built()
    except UserError as error:
        return str(error)
    return None


needs_slurm = pytest.mark.skipif(missing() is not None, reason=f"without Slurm: {missing()}")
