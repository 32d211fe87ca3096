"""What the controller says of its jobs if it is asked: with Slurm's own commands, since that is rare."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime

from sil.slurm.controller import Controller
from sil.slurm.daemons import CommandFailed

_NAME = "%F_%K"
"""For squeue's option --format: if the job is not of an array, its index is N/A."""
_WAITING = "-t", "PD"


def states(controller: Controller, names: Iterable[str]) -> dict[str, str]:
    """By name; of jobs that are forgotten there is none."""
    numbers = ",".join(sorted({name.partition("_")[0] for name in names}))
    try:
        return dict(_named(_listed(controller, f"{_NAME} %T", "-t", "all", "-j", numbers)))
    except CommandFailed:
        return {}


def reasons(controller: Controller) -> dict[str, str]:
    """Why jobs wait, by name."""
    return dict(_named(_listed(controller, f"{_NAME} %r", *_WAITING)))


def times_to_come(controller: Controller, expects: bool = True) -> Iterator[float]:
    """When it will begin or end a reservation, or `expects` to start jobs, as far as it knows: seconds since
    the epoch."""
    starts = _listed(controller, "%S", *_WAITING) if expects else ""
    reserved = controller.slurm("scontrol", "show", "reservation", "-o")
    for text in (*starts.split(), *re.findall(r"(?:Start|End)Time=(\S+)", reserved)):
        with suppress(ValueError):  # N/A
            at_s = datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
            if at_s > controller.clock.now_s:
                yield at_s


def _listed(controller: Controller, columns: str, *chosen: str) -> str:
    return controller.slurm("squeue", "-h", "-a", "-r", "-o", columns, *chosen)


def _named(listed: str) -> Iterator[tuple[str, str]]:
    """Names of jobs in lines that begin with them, and the rest."""
    for line in listed.splitlines():
        name, _, rest = line.partition(" ")
        yield name.removesuffix("_N/A"), rest
