"""Reservations as `scontrol show reservation` prints them, known from the beginning of a log on; and jobs
that name reservations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, tzinfo
from pathlib import Path

import polars as pl

from scheduler import UserError
from scheduler.messages import counted
from sil.settings.log_events import Events, NodesReserved
from sil.workload.job_log import JobLog, user_names
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


def with_reservations(log: JobLog, events: Events, path: Path) -> JobLog:
    """The log, of which jobs request the reservations that the events in this file have for them. Raises
    UserError for jobs that Slurm would reject."""
    named = {job: given["reservation"] for job, given in events.options.items() if "reservation" in given}
    if not named or log.cluster is None:
        return log
    requests, places = list(log.requests), dict[tuple[int, str], int]()
    classes, names = list(log.job_classes), user_names(log.jobs["user"].unique(), log.users)
    known = {event.name: event for event in events.on_nodes if isinstance(event, NodesReserved)}
    column = log.jobs["request"].to_list()
    for x, row in enumerate(log.jobs.iter_rows(named=True)):
        if (name := named.get(row["job"])) is None:
            continue
        account = log.charged[row["charged"]].account if log.charged else ""
        why = _why_rejected(known.get(name), row["submit_s"], names[row["user"]], account)
        if why is not None:
            job = log.ids.text(row["job"])
            raise UserError(f"{path}: job {job} names reservation '{name}', {why}")
        key = row["request"], name
        if key not in places:
            places[key] = len(requests)
            requests.append(replace(log.requests[row["request"]], reservation=name))
            classes += [classes[row["request"]]] if classes else []
        column[x] = places[key]
    jobs = log.jobs.with_columns(request=pl.Series(column, dtype=log.jobs["request"].dtype))
    return replace(log, jobs=jobs, requests=tuple(requests), job_classes=tuple(classes))


def _why_rejected(made: NodesReserved | None, submit_s: float, user: str, account: str) -> str | None:
    if made is None:
        return "which is not among the reservations; add it, or leave it out of [[submission]]"
    if submit_s < made.at_s:
        return (
            f"which is known from {made.at_s:,.10g} s on, and is submitted at {submit_s:,.10g} s; make the "
            f"reservation known before"
        )
    if user not in made.users and account not in made.accounts:
        whose = ", ".join((*made.users, *made.accounts)) or "root"
        return f"which is for {whose}, and is of user {user}; add the user to its users"
    return None
