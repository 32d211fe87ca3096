"""What operators did in the time of accounting: nodes that were out of service, and reservations, as
`sacctmgr` lists them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from pathlib import Path

from sil.settings.events_file import Drain, EventsFile, Reservation, events_of
from sil.settings.log_events import Events
from sil.workload.job_log import JobLog
from site_db.files.input_errors import InvalidFile
from site_db.files.readers import read_text
from site_db.jobs.sacct.times import unix_times

EVENTS, RESERVATIONS = "events.txt", "reservations.txt"
"""Files beside slurm.conf."""
COMMANDS = {
    EVENTS: "sacctmgr --parsable2 show event start=2026-01-01 format=nodename,start,end,state,reason",
    RESERVATIONS: "sacctmgr --parsable2 show reservation start=2026-01-01 "
    "format=name,start,end,nodenames,flags",
}
OUT_OF_SERVICE = ("DOWN", "DRAIN", "FAIL", "MAINT", "POWER", "REBOOT")
"""Beginnings of the states in which a node takes no jobs; REBOOT^ and MAINT are of operators."""


@dataclass(frozen=True)
class OperatorsActs:
    """Times that nodes were out of service, with their reasons, and reservations by name; seconds since 1970.
    Without an end, it is infinite."""

    drains: tuple[tuple[str, float, float | None, str], ...] = ()
    reservations: Mapping[str, tuple[float, float, str, tuple[str, ...]]] = field(default_factory=dict)
    folder: Path = Path()
    """Of the files."""

    @classmethod
    def beside(cls, conf: Path, zone: tzinfo) -> OperatorsActs:
        """Those of the files beside a slurm.conf, if they are there. Raises InvalidFile."""
        drains = tuple(
            (row["nodename"], begin_s, end_s, row["reason"] or "out of service")
            for row, begin_s, end_s in _rows(conf.parent / EVENTS, zone)
            if row["nodename"] and row["state"].upper().startswith(OUT_OF_SERVICE)
        )
        reservations = {
            row["name"]: (begin_s, end_s, row["nodenames"], tuple(filter(None, row["flags"].split(","))))
            for row, begin_s, end_s in _rows(conf.parent / RESERVATIONS, zone)
            if end_s is not None
        }
        return cls(drains, reservations, conf.parent)

    def events(self, log: JobLog, users: Mapping[str, Iterable[str]]) -> Events:
        """As commands in the time of a log. Reservations are for the `users` of its jobs in them, and known
        from the beginning on."""
        origin_s = float(log.header["unixstarttime"])
        last_s = float(log.jobs["submit_s"][-1])
        file = EventsFile(
            drain=tuple(
                Drain(at=max(at_s - origin_s, 0.0), nodes=nodes, until=until, reason=reason)
                for nodes, at_s, end_s, reason in self.drains
                for until in [None if end_s is None else end_s - origin_s]
                if at_s - origin_s < last_s and (until is None or until > 0.0)
            ),
            reservation=tuple(
                Reservation(
                    start=max(begin_s - origin_s, 0.0), end=end_s - origin_s, name=name, nodes=nodes,
                    users=(*users.get(name, ()),), flags=flags,
                )
                for name, (begin_s, end_s, nodes, flags) in self.reservations.items()
                if end_s > origin_s and begin_s - origin_s < last_s
            ),
        )  # fmt: skip
        return events_of(file, log, self.folder)


def _rows(path: Path, zone: tzinfo) -> Iterator[tuple[dict[str, str], float, float | None]]:
    """The rows of a file, with their times; none if it is not there. Raises InvalidFile."""
    if not path.is_file():
        return
    header, *rows = read_text(path).strip().splitlines() or [""]
    columns = [_NAMES.get(name, name) for name in header.lower().split("|")]
    needed = {"nodename", "state", "reason"} if path.name == EVENTS else {"name", "nodenames", "flags"}
    if missing := sorted({"start", "end", *needed} - {*columns}):
        raise InvalidFile(
            f"{path}, line 1: there is no column {missing[0]}; expected the output of: {COMMANDS[path.name]}"
        )
    for line, text in enumerate(rows, start=2):
        values = text.split("|")
        row = dict(zip(columns, values, strict=False))
        times = [unix_times(row.get(key, ""), zone) for key in ("start", "end")]
        if len(values) != len(columns) or not times[0]:
            raise InvalidFile(
                f"{path}, line {line}: '{text}' is not a row with a start; expected the output of: "
                f"{COMMANDS[path.name]}"
            )
        yield row, times[0][0], times[1][-1] if times[1] else None


_NAMES = {"node name": "nodename", "node names": "nodenames", "timestart": "start", "timeend": "end"}
