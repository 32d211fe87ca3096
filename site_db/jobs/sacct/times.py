"""When jobs of accounting were submitted, could start, started and ended, and how long they might run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from math import inf

from site_db.files.formats import is_whole, whole
from site_db.jobs.logged import Refused, Tally
from site_db.jobs.sacct.columns import PENDING, RUNNING, is_unknown, state_of
from site_db.jobs.sacct.rows import Fields
from site_db.jobs.swf import LATEST_UNIX_S
from site_db.slurm.output import NO_LIMIT, duration_s


def unix_times(text: str, zone: tzinfo = UTC) -> tuple[float, ...]:
    """The seconds since 1970-01-01 UTC that a time in `zone` may be: two in the hour that occurs twice when
    clocks are set back; none where it is unknown or cannot be read."""
    if "-" not in text and (number := whole(text)) is not None:
        # Slurm's mark for "no time" is 0.
        return (float(number),) if 0 < number <= LATEST_UNIX_S else ()
    time = _date(text)
    if time is None:
        return ()
    if time.tzinfo is not None or zone is UTC:
        time_s = _seconds(time)
        return (time_s,) if 0 < time_s <= LATEST_UNIX_S else ()
    return _in_zone(time, zone)


@lru_cache(4_096)
def _in_zone(time: datetime, zone: tzinfo) -> tuple[float, ...]:
    both = [time.replace(tzinfo=zone, fold=fold) for fold in (0, 1)]
    times = sorted(set(map(_seconds, both)))
    first, second = (one.utcoffset() for one in both)
    occurs_twice = first is not None and second is not None and first > second
    # No clock shows the hour that is left out in spring: it counts as if clocks had not been set forward.
    times = times if len(times) == 1 or occurs_twice else times[-1:]
    return tuple([time_s for time_s in times if 0 < time_s <= LATEST_UNIX_S])


def _date(text: str) -> datetime | None:
    # Python also accepts a date alone, which may be wrong by a day.
    if len(text) < len("2024-01-01T00:00"):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


_LOCAL_EPOCH = datetime(1970, 1, 1)
_EPOCH = _LOCAL_EPOCH.replace(tzinfo=UTC)


def _seconds(time: datetime) -> float:
    try:
        return (time - (_LOCAL_EPOCH if time.tzinfo is None else _EPOCH)).total_seconds()
    except OverflowError:
        return 0.0


_SLACK_S = 2
"""The tolerated difference, in seconds, of the elapsed time from end minus start: each of them is rounded."""

REMEDY = "give the time zone, like Europe/Berlin, or print the log with SLURM_TIME_FORMAT=%s"
CLOCK = (
    "the elapsed time contradicts the local times, as over a change of the clock; "
    f"start moved to end minus elapsed; {REMEDY}"
)
MOVED = "the elapsed time is not end minus start, start moved to end minus elapsed"
BACKWARDS = f"the job ends before it starts, as over a change of the clock; {REMEDY}, and with ElapsedRaw"
TWICE = (
    "times in the hour that occurs twice when the clock is set back, and no elapsed time that decides; the "
    "shorter run is taken; print the log with ElapsedRaw"
)
LATER = (
    "submitted in the hour that occurs twice when the clock is set back, taken as shortly before the start"
)


def runs_of(row: Fields, zone: tzinfo, submits: Sequence[float]) -> list[tuple[float, float]]:
    """When the job started and ended; if it runs, until when it is known to. There are two of these, of which
    the first counts, if nothing decides between the times in the hour that occurs twice. It did not start
    before the first of `submits`. One that waits does so at an infinite time."""
    if (state := state_of(row["state"])) == PENDING:
        if not submits:
            raise Refused("the job waits, and the submission is unknown")
        return [(inf, inf)]
    starts, ends = unix_times(row["start"], zone), unix_times(row["end"], zone)
    if len(starts) == 1 and state == RUNNING:  # `squeue` prints when it will end at the latest
        ends = (starts[0] + (_first_s(row["elapsedraw"], row["elapsed"], 1) or 0),)
    if not starts or not ends:
        unknown = row["end"] if starts else row["start"]
        raise Refused("the start or the end is unknown" if is_unknown(unknown) else "a time cannot be read")
    raw, clock = row["elapsedraw"], row["elapsed"]
    ran_s = _first_s(raw, clock, 1)
    if ran_s and len(starts) == len(ends) == 1 and not duration_s(row["suspended"], 1):
        (started_s,), (ended_s,) = starts, ends
        if abs(ended_s - started_s - ran_s) <= _SLACK_S and ran_s <= ended_s:  # as nearly always
            return [(ended_s - ran_s, ended_s)]
    runs = [(started_s, ended_s) for started_s in starts for ended_s in ends]
    if ran_s is None:
        if raw or clock:
            row.repairs.append("the elapsed time cannot be read, end minus start taken")
        forward = [(started_s, ended_s) for started_s, ended_s in runs if ended_s > started_s]
        if len(forward) > 1:
            row.repairs.append(TWICE)
        likely = _nearest(forward or runs, 0.0)
    else:
        likely = _with_elapsed(row, runs, ran_s, zone)
    if len(likely) > 1:
        likely = [run for run in likely if run[0] >= min(submits, default=0.0)] or likely
    started_s, ended_s = likely[0]
    if started_s == ended_s:
        raise Refused("the run time is zero")
    if started_s > ended_s:
        raise Refused(BACKWARDS if _is_local(row, zone) else "the job ends before it starts")
    if started_s < 0:
        raise Refused("the elapsed time reaches back before 1970")
    return likely


def _nearest(runs: Sequence[tuple[float, float]], long_s: float) -> list[tuple[float, float]]:
    """The runs that took about as long, in order."""
    if len(runs) == 1:  # as nearly always
        return list(runs)
    least_s = min(abs(ended_s - started_s - long_s) for started_s, ended_s in runs)
    return sorted(run for run in runs if abs(run[1] - run[0] - long_s) == least_s)


def _with_elapsed(
    row: Fields, runs: list[tuple[float, float]], ran_s: float, zone: tzinfo
) -> list[tuple[float, float]]:
    """Those of the possible runs that took as long as it says. The elapsed time leaves out suspensions."""
    suspended_s = duration_s(row["suspended"], 1) or 0
    likely = _nearest(runs, ran_s + suspended_s)
    long_s = likely[0][1] - likely[0][0]
    if suspended_s and abs(long_s - ran_s - suspended_s) <= _SLACK_S:
        return [(started_s, started_s + ran_s) for started_s, _ in likely]
    if abs(long_s - ran_s) > _SLACK_S:
        row.repairs.append(CLOCK if _is_local(row, zone) else MOVED)
    return [(ended_s - ran_s, ended_s) for _, ended_s in likely]


def _is_local(row: Fields, zone: tzinfo) -> bool:
    """Whether times may be off by a change of the clock."""
    times = (_date(text) for text in (row["start"], row["end"]) if not is_whole(text))
    return zone is UTC and [time is not None and time.tzinfo is None for time in times] == [True, True]


def arrival_of(
    row: Fields, started_s: float, zone: tzinfo, submits: Sequence[float]
) -> tuple[float, float | None]:
    """When the job, which was submitted at one of `submits`, could start, and when it was submitted, if that
    was earlier. Of two possible times, the later one that is not after the start. A job that is not eligible
    yet could start at an infinite time."""
    if started_s == inf and row["eligible"] and is_unknown(row["eligible"]):
        return inf, submits[0]
    if zone is UTC and len(submits) == 1 and submits[0] <= started_s and row["eligible"] == row["submit"]:
        return submits[0], None  # as nearly always
    found: list[float] = []
    for times in (submits, unix_times(row["eligible"], zone)):
        before = [time_s for time_s in times if time_s <= started_s]
        if times and not before and not found:
            row.repairs.append("submitted after the start, taken as submitted at the start")
            return started_s, None
        if len(before) > 1 and LATER not in row.repairs:
            row.repairs.append(LATER)
        found += before[-1:]
    arrived_s = max(found, default=started_s)
    return arrived_s, found[0] if found and found[0] < arrived_s else None


def time_limit_s(row: Fields) -> float | None:
    found_s = _limit_s(row["timelimitraw"], row["timelimit"])
    if found_s == 0.0:
        row.repairs.append("the time limit cannot be read, taken as none")
        return None
    return found_s


@lru_cache(4_096)
def _limit_s(raw: str, clock: str) -> float | None:
    """A time limit in seconds; None without a limit, and 0 for one that cannot be read."""
    raw, clock = ("" if text.lower() in NO_LIMIT else text for text in (raw, clock))
    if not raw and not clock:
        return None
    found_s = _first_s(raw, clock, 60) or 0
    return float(found_s) if found_s <= LATEST_UNIX_S else 0.0


def _first_s(text: str, other: str, alone_s: int) -> int | None:
    found_s = duration_s(text, alone_s)
    return duration_s(other, alone_s) if found_s is None else found_s


OF_A_DATA_FRAME = "the job id ends in .0, as data frames write whole numbers; taken without it"
UNDECIDED = (
    "ran within the hour that occurs twice when the clock is set back, and neither elapsed time nor ids say "
    "when; the first time is taken; print the log with SLURM_TIME_FORMAT=%s"
)
_ID = re.compile(r"[0-9]{1,18}")


class JobOrder:
    """The numbers of the jobs in a log. Jobs are submitted in their order, which decides about the hour that
    occurs twice."""

    def __init__(self, tally: Tally, zone: tzinfo) -> None:
        self._tally, self._zone = tally, zone
        self._any_whole = False
        self._last_id, self._earliest_s = 0, -inf
        self.undecided: list[str] = []
        """The jobs since the last change of the clock that may have run an hour later."""

    def number(self, row: Fields) -> str:
        """The id of a row. 7.0 is the first step of job 7, or job 7 itself, where a data frame has made ids
        numbers: then it has a user, or, without that column, no row has a whole id."""
        number = row["jobid"] if "jobid" in row else row["jobidraw"]
        self._any_whole |= "." not in number
        id, dot_zero, rest = number.partition(".0")
        if dot_zero and not rest and is_whole(id) and row.get("user", not self._any_whole):
            row.repairs.append(OF_A_DATA_FRAME)
            return id
        return number

    def submits(self, row: Fields, number: str) -> tuple[float, ...]:
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
            self.undecided.clear()
        if id != self._last_id and not whole(row["restarts"]):  # requeued jobs are submitted anew
            self._earliest_s = max(self._earliest_s, possible[0])
        self._last_id = id
        return possible

    def end(self) -> None:
        """Note that no further job decides about those before."""
        for number in self.undecided:
            self._tally.remark(UNDECIDED, number)
        self.undecided.clear()
