"""Reservations as `scontrol show reservation` prints them: known from the beginning of a log on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, tzinfo
from pathlib import Path

from scheduler.messages import counted
from sil.settings.log_events import NodesReserved
from site_db.files.access import read_text
from site_db.files.input_errors import InvalidFile
from site_db.slurm.output import blocks, values_of

_FIRST = "ReservationName="
EXPECTED = "expected the output of: scontrol show reservation"
BY_SCONTROL = "SPEC_NODES"
"""A flag that says that operators have named the nodes."""


def is_of_scontrol(path: Path) -> bool:
    return read_text(path).lstrip().startswith(_FIRST)


def reservations_in(
    path: Path, origin_s: float | None, zone: tzinfo, notes: list[str]
) -> Iterator[NodesReserved]:
    """The reservations of a file that are not over at second 0, which is `origin_s` seconds since 1970; adds
    to the `notes` what is left out. Raises InvalidFile."""
    left_out = Counter[str]()
    for line, block in blocks(path):
        values, where = values_of(block), f"{path}, line {line}"
        if not block[0].strip():
            continue
        if not block[0].startswith(_FIRST):
            raise InvalidFile(f"{where}: '{block[0]}' begins no reservation; {EXPECTED}")
        if origin_s is None:
            raise InvalidFile(f"{where}: its times are dates, and the log has no header UnixStartTime")
        times = list[float]()
        for key in ("StartTime", "EndTime"):
            try:
                given = datetime.fromisoformat(text := values.get(key.lower(), ""))
            except ValueError:
                raise InvalidFile(f"{where}: {key} is '{text}'; {EXPECTED}") from None
            times.append(given.replace(tzinfo=zone).timestamp() - origin_s)
        start_s, end_s = times
        if end_s <= 0.0:
            left_out["over when the log begins"] += 1
        elif not values.get("nodes"):
            left_out["of no nodes"] += 1
        else:
            users, accounts, flags = (
                tuple(filter(None, values.get(key, "").split(","))) for key in ("users", "accounts", "flags")
            )
            flags = tuple(flag for flag in flags if flag != BY_SCONTROL)
            name = values["reservationname"]
            yield NodesReserved(0.0, name, max(start_s, 0.0), end_s, values["nodes"], users, accounts, flags)
    notes += [f"{counted(n, 'reservation')} in {path}: {why}, left out" for why, n in left_out.items()]
