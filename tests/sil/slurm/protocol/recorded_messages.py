"""Messages that `record.py` has written down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sil.slurm.protocol.authentication import Stated
from sil.slurm.protocol.envelope import Message, decode
from tests.sil.slurm.protocol.record import FOLDER

ALL = sorted(path.stem for path in FOLDER.glob("*.bin"))
ANYONE = Stated()


def recorded_bytes(name: str) -> bytes:
    return Path(FOLDER / f"{name}.bin").read_bytes()


def recorded(name: str) -> Message:
    return decode(recorded_bytes(name), ANYONE)


def body(name: str) -> Any:
    return recorded(name).body
