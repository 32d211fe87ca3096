"""Durations, time limits and trackable resources (TRES) as Slurm writes them: 1-12, cpu=4,mem=8G.

<https://slurm.schedmd.com/tres.html>
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil, inf

from site_db.files.input_errors import MOST
from site_db.files.plain_values import whole

NO_LIMIT = ("", "unlimited", "infinite", "infinity", "partition_limit", "none", "n/a", "unknown", "-1")
"""Texts of limits that are none, in small letters."""
_UNITS_S = (86_400, 3_600, 60, 1)


@lru_cache(16_384)
def duration_s(text: str, alone_s: int) -> int | None:
    """The seconds of minutes:seconds, hours:minutes:seconds, days-hours and so on, or of a number alone, in
    units of `alone_s`; None for other texts."""
    if "-" not in text and ":" not in text:
        return None if (alone := whole(text)) is None else alone * alone_s
    days, dash, clock = text.rpartition("-")
    numbers = [whole(part) for part in ([days] if dash else []) + clock.split(":")]
    if len(numbers) > 3 + bool(dash):
        return None
    first = 0 if dash else 1 if len(numbers) == 3 else 2
    known = [number for number in numbers if number is not None]
    counted = sum(number * unit_s for number, unit_s in zip(known, _UNITS_S[first:], strict=False))
    return counted if len(known) == len(numbers) else None


def limit_s(text: str) -> float:
    """Seconds of a limit, of which a number alone counts minutes, in whole minutes, rounded up; infinite if
    there is none. Raises ValueError with a clause."""
    if text.lower() in NO_LIMIT:
        return inf
    found_s = duration_s(text, 60)
    if not found_s or found_s > MOST:
        raise ValueError(f"'{text}'; expected minutes, hours:minutes:seconds, days-hours, or UNLIMITED")
    return 60.0 * ceil(found_s / 60)


_MIB = {"": 1.0, "K": 2.0**-10, "M": 1.0, "G": 2.0**10, "T": 2.0**20, "P": 2.0**30}
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


class BadTres(ValueError):
    """A text cannot be read. The message says which part of it, and what is expected."""


@dataclass(frozen=True, slots=True)
class Tres:
    """Totals of a job: 0 where the text does not say. `gpus` by type; "" for those of any type. `others` are
    of nodes (gres), `site_resources` of the whole site (licences, burst buffers)."""

    cpus: int = 0
    nodes: int = 0
    memory_mib: int = 0
    gpus: Mapping[str, int] = field(default_factory=dict)
    others: Mapping[str, int] = field(default_factory=dict)
    site_resources: Mapping[str, int] = field(default_factory=dict)

    @property
    def n_gpus(self) -> int:
        return sum(self.gpus.values())


@lru_cache(16_384)
def tres_of(text: str) -> Tres:
    """Raises BadTres."""
    counts: dict[str, int] = {}
    gpus: dict[str, int] = {}
    others: dict[str, int] = {}
    of_site: dict[str, int] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, sign, value = part.partition("=")
        if not sign:
            raise BadTres(f"'{part}' is not of the form name=amount, like cpu=64")
        if name == "mem":
            counts["memory_mib"] = memory_mib(value)
        elif name in ("cpu", "node"):
            counts[f"{name}s"] = amount_of(value, part)
        elif name.startswith("gres/gpu"):
            gpus[name.removeprefix("gres/gpu").removeprefix(":").strip()] = amount_of(value, part)
        elif name.startswith("gres/"):
            others[name.removeprefix("gres/")] = amount_of(value, part)
        elif name.startswith(("license/", "bb/")):
            of_site[name.partition("/")[2]] = amount_of(value, part)
    # gres/gpu is the total, gres/gpu:a100 a part of it.
    if (total := gpus.pop("", 0)) > (typed := sum(gpus.values())):
        gpus[""] = total - typed
    gpus = {kind: n for kind, n in gpus.items() if n}
    return Tres(gpus=gpus, others=others, site_resources=of_site, **counts)


def memory_mib(text: str) -> int:
    """The MiB of a text like 256G or 4000M, rounded up. Raises BadTres."""
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)([KMGTP]?)", text, re.IGNORECASE)
    if match is None:
        raise BadTres(f"'{text}' is not an amount of memory, like 256G or 4000M")
    return ceil(float(match[1]) * _MIB[match[2].upper()])


def amount_of(text: str, part: str) -> int:
    """The number of a text like 4 or 800G, which `part` of a list names. Raises BadTres."""
    match = re.fullmatch(r"([0-9]{1,15})([KMGT]?)", text, re.IGNORECASE)
    if match is None:
        raise BadTres(f"'{part}' has no whole number of at least 0")
    return int(match[1]) * _UNITS[match[2].upper()]
