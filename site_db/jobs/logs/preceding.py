"""Jobs of SWF logs that name a preceding one (field 17): counted by kind, since none waits for another."""

from __future__ import annotations

from dataclasses import dataclass, field

from site_db.jobs.logs.logged_job import Tally

NAMES = (
    "in field 17 a preceding job, after whose end it may start; not modelled: jobs do not wait for preceding "
    "jobs and think times (field 18)"
)


@dataclass(slots=True)
class Preceding:
    """What the lines of a log name, in their order."""

    _place: dict[float, int] = field(default_factory=dict)
    """Of each job: its first line."""
    _named: list[tuple[float, float, int]] = field(default_factory=list)
    """Jobs, their preceding ones, and their lines."""

    def add(self, job: float, preceding: float, line: int) -> None:
        self._place.setdefault(job, line)
        if preceding > 0:
            self._named.append((job, preceding, line))

    def remark(self, tally: Tally) -> None:
        """After the last line."""
        is_one = len({preceding for _, preceding, _ in self._named}) == 1 < len(self._named)
        for job, preceding, line in self._named:
            number, place = f"{job:.0f}", self._place.get(preceding)
            tally.remark(f"named {NAMES}", number)
            if preceding == job:
                tally.remark("named the job itself", number)
            elif place is None:
                tally.remark("named a preceding job that is not in the log", number)
            elif place > line:
                tally.remark("named a preceding job on a later line", number)
            if is_one:
                tally.remark(f"named job {preceding:.0f}, as all others do: probably no dependency", number)
