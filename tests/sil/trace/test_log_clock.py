"""Logs with times since 1970 are shown from their first submission on, and with dates that are known."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

import sil
from sil.trace.log_clock import LogClock
from tests.commands import sil as command
from tests.sil.workload.swf_files import job

FIRST_S = 1_709_175_930
ONE = {"run": 3000, "requested": 8, "requested_time": 3600}
LINES = "".join(f"{job(job=k, submit=FIRST_S + 600 * k, **ONE)}\n" for k in range(8))

pytestmark = pytest.mark.usefixtures("in_this_process", "without_reports")


def log(folder: Path, header: str = "") -> Path:
    path = folder / "log.swf"
    path.write_text(f"{header}; MaxProcs: 8\n{LINES}")
    return path


def test_why_counts_from_the_first_submission_also_in_reasons(tmp_path: Path) -> None:
    command("replay", log(tmp_path), "--scheduler", "easy", "--reasons", "--out", tmp_path / "out")
    lines = command("why", tmp_path / "out" / "easy", "--job", "3").stdout.splitlines()
    assert lines[0].strip().split("  ") == ["1,800 s", "job 3 arrives and requests 8 nodes"]
    assert any(line.endswith("reserved for 9,600 s") for line in lines)
    assert not any("1,709" in line for line in lines)


def test_dates_are_shown_where_the_header_has_them(tmp_path: Path) -> None:
    path = log(tmp_path, "; UnixStartTime: 0\n")
    replays = sil.replay(sil.read_log(path, time_zone="Europe/Berlin"), "easy", progress=False)
    assert "1,800 s  2024-02-29 04:35:30  job 3 arrives" in str(replays.why("easy", 3))
    replays = sil.read_replays(replays.save(tmp_path / "saved"))
    chart = replays.plot.gantt("easy", window=("2024-02-29T04:05", datetime(2024, 2, 29, 4, 30, tzinfo=UTC)))
    assert chart is not None
    with pytest.raises(sil.UserError, match="expected an end after the beginning"):
        replays.plot.gantt("easy", window=("2024-02-29T04:05", "2024-02-29T04:05"))


def test_a_simulation_goes_on_from_the_first_submission(tmp_path: Path) -> None:
    simulation = sil.Simulation(sil.read_log(log(tmp_path)), "easy")
    assert (simulation.state.time_s, simulation.state.since_first_s) == (FIRST_S, 0)
    simulation.run_until("2h")
    assert (simulation.state.since_first_s, simulation.state.n_ended) == (7200, 2)
    assert simulation.state.running["time_s"].to_list() == [FIRST_S + 6000]
    simulation.run_until(simulation.state.time_s + 1800)
    assert simulation.state.n_ended == 3
    assert simulation.facts["time_s"].min() == FIRST_S  # as in its trace
    with pytest.raises(
        sil.UserError, match="no header UnixStartTime, so the date 2024-02-29T06:00 is unknown"
    ):
        simulation.run_until("2024-02-29T06:00")
    with pytest.raises(sil.UserError, match="'yesterday' is no time; expected seconds, a text like"):
        simulation.run_until("yesterday")


def test_a_simulation_goes_on_to_a_date(tmp_path: Path) -> None:
    simulation = sil.Simulation(sil.read_log(log(tmp_path, "; UnixStartTime: 0\n")), "easy")
    simulation.run_until("2024-02-29T06:00")
    assert repr(simulation.state).startswith("10,470 s (2024-02-29 06:00:00): waiting 4, running 1, ended 3")


@pytest.mark.parametrize(
    "clock", [None, [], {"unix_start_s": "x"}, {"unix_start_s": 1e300}, {"time_zone": "../etc"}]
)
def test_a_description_that_was_changed_has_no_dates(clock: object) -> None:
    found = LogClock.described({"log": "a.swf", "clock": clock}, 5.0)
    assert found.first_s == 5.0
    assert found.date(0.0) is None


def test_a_clock_is_described_and_read_again() -> None:
    clock = LogClock(3.0, 1e9, ZoneInfo("Europe/Berlin"))
    assert LogClock.described({"log": "a.swf", **clock.description()}) == clock
    assert LogClock(3.0).description() == {}
