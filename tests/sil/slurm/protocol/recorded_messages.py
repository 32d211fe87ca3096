"""Messages that `record.py` has written down, in a folder for each release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sil.slurm.protocol.authentication import Stated
from sil.slurm.protocol.envelope import SlurmMessage, decode
from tests.sil.slurm.protocol.record import FOLDER

RELEASES = sorted(path.name for path in FOLDER.iterdir())
ALL = sorted(f"{path.parent.name}/{path.stem}" for path in FOLDER.glob("*/*.bin"))
ANYONE = Stated()


def recorded_bytes(name: str) -> bytes:
    """With a release in front; else that of the oldest."""
    path = FOLDER / (name if "/" in name else f"{RELEASES[0]}/{name}")
    return Path(f"{path}.bin").read_bytes()


def recorded(name: str) -> SlurmMessage:
    return decode(recorded_bytes(name), ANYONE)


def body(name: str) -> Any:
    return recorded(name).body
