"""What the ids of jobs say: whose rows these are, and in which order the jobs were submitted."""

from __future__ import annotations

import re
from datetime import UTC, tzinfo
from math import inf

from site_db.files.plain_numbers import is_whole, whole
from site_db.jobs.logs.logged_job import Tally
from site_db.jobs.sacct.rows import Fields
from site_db.jobs.sacct.times import unix_times

OF_A_DATA_FRAME = "the job id ends in .0, as data frames write whole numbers; taken without it"
UNDECIDED = (
    "ran within the hour that occurs twice when the clock is set back, and neither elapsed time nor ids say "
    "when; the first time is taken; print the log with SLURM_TIME_FORMAT=%s"
)
_ID = re.compile(r"[0-9]{1,18}")


class JobNumbers:
    """The numbers of the jobs in a log."""

    def __init__(self) -> None:
        self._any_whole = False

    def of(self, row: Fields) -> str:
        """The id of a row. 7.0 is the first step of job 7, or job 7 itself, where a data frame has made ids
        numbers: then it has a user, or, without that column, no row has a whole id."""
        number = row["jobid"] if "jobid" in row else row["jobidraw"]
        self._any_whole |= "." not in number
        id, dot_zero, rest = number.partition(".0")
        if not dot_zero or rest or not is_whole(id):
            return number
        if row.get("user", not self._any_whole):
            row.repairs.append(OF_A_DATA_FRAME)
            return id
        return number


class Submissions:
    """Jobs are submitted in the order of their ids, which decides about the hour that occurs twice."""

    def __init__(self, tally: Tally, zone: tzinfo) -> None:
        self._tally, self._zone = tally, zone
        self._last_id, self._earliest_s = 0, -inf
        self._undecided: list[str] = []

    def times(self, row: Fields, number: str) -> tuple[float, ...]:
        """The times at which the job may have been submitted, in order."""
        times = unix_times(row["submit"], self._zone) if row["submit"] else ()
        if self._zone is UTC or not times or (found := _ID.match(number)) is None:
            return times
        id = int(found[0])
        if id < self._last_id:  # of another log
            self._earliest_s = -inf
        possible = tuple(time_s for time_s in times if time_s >= self._earliest_s) or times
        if len(times) == 1:
            self.end()
        elif len(possible) == 1:  # the clock has been set back since the jobs before
            self._undecided.clear()
        if id != self._last_id and not whole(row["restarts"]):  # requeued jobs are submitted anew
            self._earliest_s = max(self._earliest_s, possible[0])
        self._last_id = id
        return possible

    def is_undecided(self, number: str) -> None:
        """The last job may have run an hour later."""
        self._undecided.append(number)

    def end(self) -> None:
        """No further job decides about those before."""
        for number in self._undecided:
            self._tally.remark(UNDECIDED, number)
        self._undecided.clear()
