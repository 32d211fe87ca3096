"""Local times of accounting, above all those of the hours in which clocks are changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from site_db.files.formats import zone_named
from site_db.files.input_errors import InvalidFile
from site_db.jobs.logged import LoggedJob, Tally
from site_db.jobs.sacct.columns import RAN
from site_db.jobs.sacct.reader import read_sacct
from site_db.jobs.sacct.times import BACKWARDS, CLOCK, LATER, TWICE, UNDECIDED

FIRST_S = 1_792_888_200  # 2026-10-25T00:30:00Z, 02:30 in Berlin for the first time


def read(
    zone: str | None, *rows: str, columns: str = "Submit|Start|End|ElapsedRaw"
) -> tuple[list[LoggedJob], Tally]:
    tally = Tally()
    lines = [
        f"JobID|NCPUS|State|{columns}",
        *(f"{k}|1|COMPLETED|{row}" for k, row in enumerate(rows, start=1)),
    ]
    return list(read_sacct(lines, Path("log"), tally, RAN, zone_named(zone))), tally


def moments(job: LoggedJob) -> tuple[float, float, float]:
    """Submission and start after FIRST_S, and the run time."""
    s = job.submitted_unix_s, job.started_unix_s, job.ended_unix_s
    return s[0] - FIRST_S, s[1] - FIRST_S, s[2] - s[1]


@pytest.mark.parametrize(
    ("times", "expected", "repairs"),
    [
        ("02:30:00|02:30:00|02:45:00|4500", (0, 0, 4500), []),
        ("02:50:00|02:50:00|02:20:00|1800", (1200, 1200, 1800), []),
        ("02:30:00|02:30:00|02:45:00|900", (0, 0, 900), []),
        ("02:30:00|03:30:00|04:00:00|1800", (3600, 7200, 1800), [LATER]),
        ("01:30:00|01:30:00|03:30:00|10800", (-3600, -3600, 10800), []),
        ("01:30:00|01:30:00|03:30:00|", (-3600, -3600, 10800), []),
        ("02:50:00|02:50:00|02:20:00|", (1200, 1200, 1800), []),
        ("02:30:00|02:30:00|02:45:00|", (0, 0, 900), [TWICE]),
    ],
)
def test_of_two_readings_of_an_hour_that_occurs_twice_the_elapsed_time_decides(
    times: str, expected: tuple[float, float, float], repairs: list[str]
) -> None:
    dated = "|".join(f"2026-10-25T{text}" if ":" in text else text for text in times.split("|"))
    (job,), tally = read("Europe/Berlin", dated)
    assert moments(job) == expected
    assert list(tally.repaired) == repairs


DAY = "2026-10-25T"
CROSSING = f"{DAY}00:30:00|{DAY}00:50:00|{DAY}02:10:00|02:20:00"
INSIDE = f"{DAY}02:10:00|{DAY}02:20:00|{DAY}02:50:00|00:30:00"
LATE = f"{DAY}02:40:00|{DAY}02:40:00|{DAY}02:50:00|00:10:00"


@pytest.mark.parametrize(
    ("rows", "starts", "undecided"),
    [
        ((CROSSING, INSIDE), (-6000, -600), ["2"]),
        ((CROSSING, LATE, INSIDE, INSIDE), (-6000, 600, 3000, 3000), []),
        ((LATE, INSIDE, LATE), (600, 3000, 4200), []),
        (
            (INSIDE, INSIDE, f"{DAY}05:00:00|{DAY}05:00:00|{DAY}05:10:00|00:10:00"),
            (-600, -600, 12600),
            ["1", "2"],
        ),
    ],
    ids=["nothing decides", "set back in between", "set back once", "not set back in between"],
)
def test_jobs_within_an_hour_that_occurs_twice_are_in_order_of_their_ids_or_in_a_note(
    rows: tuple[str, ...], starts: tuple[int, ...], undecided: list[str]
) -> None:
    jobs, tally = read("Europe/Berlin", *rows, columns="Submit|Start|End|Elapsed")
    assert tuple(job.started_unix_s - FIRST_S for job in jobs) == starts
    assert [*tally.remarked.get(UNDECIDED, ())] == undecided


def test_in_spring_no_hour_is_counted_that_there_was_not() -> None:
    day = "2026-03-29T"
    (job,), tally = read(
        "Europe/Berlin", f"{day}01:30:00|{day}01:30:00|{day}03:30:00", columns="Submit|Start|End"
    )
    assert job.ended_unix_s - job.started_unix_s == 3600
    assert not tally.repaired


def test_without_a_zone_contradictions_name_the_change_of_the_clock_and_the_remedy() -> None:
    day = "2026-10-25T"
    _, tally = read(
        None, f"{day}02:30:00|{day}02:30:00|{day}02:45:00|4500", f"{day}02:50:00|{day}02:50:00|{day}02:20:00|"
    )
    assert CLOCK in tally.repaired
    assert tally.refused == {BACKWARDS: 1}
    assert all("time zone" in rule and "SLURM_TIME_FORMAT=%s" in rule for rule in (CLOCK, BACKWARDS))


def test_seconds_and_given_zones_are_not_changed_by_the_zone_of_the_log() -> None:
    row = f"{FIRST_S}|{FIRST_S}|2026-10-25T02:45:00+01:00|4500"
    assert moments(read("Europe/Berlin", row)[0][0]) == (0, 0, 4500)
    assert not read(None, f"{FIRST_S}|{FIRST_S}|{FIRST_S + 900}|4500")[1].repaired.keys() & {CLOCK}


def test_suspensions_are_no_change_of_the_clock_and_do_not_move_the_start() -> None:
    row = f"{FIRST_S}|{FIRST_S + 60}|{FIRST_S + 1060}|400|00:10:00"
    (job,), tally = read(None, row, columns="Submit|Start|End|ElapsedRaw|Suspended")
    assert moments(job) == (0, 60, 400)
    assert not tally.repaired


@pytest.mark.parametrize("name", ["Europe/Berlinn", "../../etc/passwd", "Europe", "/etc/x", "a\0b", ""])
def test_a_zone_that_this_computer_does_not_know_is_refused_with_the_remedy(name: str) -> None:
    with pytest.raises(InvalidFile, match="tzdata"):
        zone_named(name)
