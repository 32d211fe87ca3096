"""A month of accounting is met again as it was: its beginning, its submissions, and what operators did."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from scheduler import UserError
from sil.rehearsal.month import LEAD_S, WAITED, Arrivals, Month
from sil.slurm.submissions import commands_of
from site_db.files.input_errors import InvalidFile
from site_db.jobs.sacct.reader import DEPENDENT, ELIGIBLE, NAMED_NODES, RESERVED, UNFINISHED
from tests.sil.rehearsal.months import ORIGIN_S, month, row, written

FIRST = row("1", 0, 0, 1_000)
"""Whose end is when what ran and waited is known."""


def ids(found: Month) -> dict[str, int]:
    return {found.log.ids.text(number): number for number in found.log.jobs["job"].to_list()}


def counting(found: Month) -> list[str]:
    return found.runs.filter("counts")["log_id"].to_list()


def arrival_s(found: Month, job: str) -> float:
    """In seconds since the time from which on the month is known."""
    rows = found.log.jobs.filter(job=ids(found)[job])
    unix_s = float(found.log.header["unixstarttime"]) + rows["submit_s"].item()
    return float(unix_s - ORIGIN_S - 1_000)


def test_what_ran_at_the_beginning_gets_its_nodes_for_the_rest_of_its_time(tmp_path: Path) -> None:
    raised = row("4", 10, 20, 5_000, node="n4", minutes=30 * 1440)
    found = month(tmp_path, FIRST, row("2", 10, 20, 5_000, node="n3"), raised, row("3", 2_000, 2_000, 3_000))
    assert arrival_s(found, "2") == -LEAD_S
    assert found.log.jobs.filter(job=4)["estimate_s"].item() == 86_400, "more, and it would never start"
    assert found.log.jobs.filter(job=2)["run_s"].item() == 4_000 + LEAD_S
    assert found.log.jobs.filter(job=2)["estimate_s"].item() == 600 * 60 - 980 + LEAD_S
    assert found.events.options[2] == {"nodes": "n3"}
    assert found.begun == {2, 4}
    assert counting(found) == ["3"]
    assert "1" not in ids(found), "it had ended"


def test_what_waited_at_the_beginning_is_submitted_then_and_counts(tmp_path: Path) -> None:
    found = month(tmp_path, FIRST, row("2", 10, 1_500, 5_000), row("3", 2_000, 2_000, 3_000))
    assert arrival_s(found, "2") == 0.0
    assert set(counting(found)) == {"2", "3"}
    assert found.causes[WAITED] == {2}


def test_what_runs_at_the_export_keeps_its_nodes_until_then_and_what_waits_is_counted(tmp_path: Path) -> None:
    running = [
        row(str(k), start_s, start_s, 9_000, node="n3", state="RUNNING")
        for k, start_s in ((2, 10), (4, 2_100))
    ]
    pending = row("5", 2_200, 2_200, 2_200, state="PENDING")
    found = month(tmp_path, FIRST, *running, row("3", 2_000, 2_000, 3_000), pending)
    assert found.events.options[2] == {"nodes": "n3"}
    assert found.log.jobs.filter(job=4)["run_s"].item() == 9_000 - 2_100
    assert counting(found) == ["3", "4"]
    assert found.causes[UNFINISHED] == {2, 4}
    assert "1 row, line 6: the job has not ended; left out" in found.log.notes


def test_only_jobs_since_a_time_count_and_those_of_a_warm_up_are_replayed(tmp_path: Path) -> None:
    day = 86_400
    rows = [row(str(k + 2), day * k + 2_000, day * k + 2_000, day * k + 3_000) for k in range(5)]
    since = datetime.fromtimestamp(ORIGIN_S + 3 * day, UTC)
    found = month(tmp_path, FIRST, *rows, since=since, warm_up_days=1.0)
    assert [*ids(found)] == ["4", "5", "6"]
    assert counting(found) == ["5", "6"]
    assert found.warm_up_days == pytest.approx((day - 2_000) / day, abs=1e-3)


def test_a_time_at_which_it_is_not_known_what_ran_is_refused(tmp_path: Path) -> None:
    for since_s in (500, 90_000):
        since = datetime.fromtimestamp(ORIGIN_S + since_s, UTC)
        with pytest.raises(UserError, match=r"known from 2026-01-01 00:16.*give a time in between"):
            month(tmp_path, FIRST, row("2", 2_000, 2_000, 3_000), since=since)


def test_jobs_wait_for_those_on_which_they_depended_from_their_submission_on(tmp_path: Path) -> None:
    found = month(
        tmp_path,
        FIRST,
        row("2_1", 2_000, 2_000, 4_000),
        row("2_2", 2_000, 2_000, 5_000),
        row("3", 2_100, 5_000, 6_000, "sbatch -d afternotok:2 job.sh", eligible_s=5_000),
        row("4", 2_200, 6_000, 7_000, "sbatch -d singleton job.sh", eligible_s=6_000),
        row("5", 2_300, 2_300, 7_000, "sbatch -d afterok:1 job.sh"),
        row("6", 2_400, 2_400, 7_000, "sbatch -d 'afterok:2?afterok:3' job.sh"),
    )
    number = ids(found)
    tasks = sorted(number[name] for name in ("2_1", "2_2"))
    assert found.events.options[number["3"]]["dependency"] == f"afterany:{tasks[0]}:{tasks[1]}"
    assert arrival_s(found, "3") == 1_100.0
    waits = found.events.options[number["4"]]["dependency"].removeprefix("afterany:").split(":")
    assert {*map(int, waits)} == {*tasks, number["3"]}, "all of its name and user that had not ended"
    assert number["5"] not in found.events.options, "job 1 had ended before the beginning"
    assert ELIGIBLE not in found.causes, "they are submitted when they were"
    assert found.causes[DEPENDENT] == {number["6"]}, "of any of several, it is not known which one it was"


def test_jobs_for_built_in_schedulers_arrive_when_they_were_eligible_and_their_dependencies_are_counted(
    tmp_path: Path,
) -> None:
    dependent = row("3", 2_100, 5_000, 6_000, "sbatch -d afterok:2 --nodelist n2 job.sh", eligible_s=4_500)
    rows = (FIRST, row("4", 10, 20, 5_000), row("2", 2_000, 2_000, 4_000), dependent)
    found = month(tmp_path, *rows, arrivals=Arrivals.WHEN_ELIGIBLE)
    assert arrival_s(found, "3") == 3_500.0
    assert found.causes[ELIGIBLE] == found.causes[NAMED_NODES] == {3}
    assert not found.events.options
    assert "order of arrival" in {gap.instead for gap in found.gaps}


def test_limits_of_arrays_licences_and_nodes_that_exist_are_kept_and_others_counted(tmp_path: Path) -> None:
    found = month(
        tmp_path,
        FIRST,
        *(row(f"2_{k}", 2_000, 2_000 + k, 4_000, "sbatch -a 1-3%2 job.sh") for k in (1, 2, 3)),
        row("3", 2_000, 2_000, 4_000, "sbatch -L matlab -x n4 job.sh"),
        row("4", 2_000, 2_000, 4_000, "sbatch -L ansys -w m7 --switches=1 job.sh"),
    )
    ((jobs, at_once),) = found.events.arrays
    assert (len(jobs), at_once) == (3, 2)
    assert found.events.options[3] == {"licenses": "matlab", "excluded_nodes": "n4"}
    assert found.events.options[4] == {"others": ("--switches=1",)}
    assert any("submits 1 job (first: 4), because of --switches in" in note for note in found.log.notes)
    about = [cause for cause, numbers in found.causes.items() if numbers == {4}]
    assert len(about) == 2, about
    assert all(any(cause in note for note in found.log.notes) for cause in about)


def test_drains_and_reservations_that_sacctmgr_lists_happen_again(tmp_path: Path) -> None:
    (tmp_path / "events.txt").write_text(
        "NodeName|Start|End|State|Reason\n"
        "n2|2026-01-01T01:00:00|2026-01-01T02:00:00|DRAIN|fan\n|2026-01-01T01:00:00|Unknown||Cluster\n"
        "n3|2026-01-01T01:00:00|Unknown|IDLE|up\nn4|2025-12-01T00:00:00|Unknown|DOWN*|disk\n"
    )
    (tmp_path / "reservations.txt").write_text(
        "Name|Start|End|NodeNames|Flags\ncourse|2026-01-01T02:00:00|2026-01-01T03:00:00|n1|SPEC_NODES\n"
    )
    found = month(
        tmp_path,
        FIRST,
        row("2", 2_000, 7_300, 7_400, reservation="course"),
        row("3", 2_000, 7_300, 7_400, reservation="other"),
        row("4", 20_000, 20_000, 21_000),
    )
    words = [" ".join(map(str, command.words[:3])) for command in commands_of(found.events)]
    assert words == [
        "scontrol update NodeName=n4",
        "scontrol create reservation",
        "scontrol update NodeName=n2",
        "scontrol update NodeName=n2",
    ]
    assert found.events.options[2]["reservation"] == "course"
    assert "Users=ann" in commands_of(found.events)[1].words
    assert found.causes[RESERVED] == {3}


def test_a_list_of_events_without_a_column_is_refused_with_the_command(tmp_path: Path) -> None:
    (tmp_path / "events.txt").write_text("NodeName|Start|End\n")
    with pytest.raises(InvalidFile, match=r"line 1: there is no column reason; expected .* show event"):
        month(tmp_path, FIRST, row("2", 2_000, 2_000, 3_000))


def test_a_log_in_which_nothing_arrives_later_is_refused(tmp_path: Path) -> None:
    written(tmp_path)
    with pytest.raises(UserError, match="no job arrived"):
        month(tmp_path, FIRST, row("2", 10, 20, 5_000))


def test_what_the_accounting_does_not_say_is_counted_with_what_the_replay_does(tmp_path: Path) -> None:
    rows = [
        row("2", 10, 20, 5_000, node="n3"),
        row("3", 10, 1_500, 5_000, line=""),
        row("4", 2_000, 2_000, 3_000, node="", account="", reservation="course"),
    ]
    found = {gap.missing: gap for gap in month(tmp_path, FIRST, *rows).gaps}
    assert (
        found["priority at each time, and changes of it by operators"].instead == "computed by the controller"
    )
    for missing, n_jobs in {
        "account": 1,
        "nodes on which it ran": 1,
        "options of submission (SubmitLine)": 1,
        "nodes and times of its reservation (reservations.txt)": 1,
        "progress of what ran at the beginning": 1,
        "age of what waited at the beginning": 1,
        "usage before the beginning": 1,
        "times out of service of nodes (events.txt)": 3,
    }.items():
        assert found[missing].jobs == n_jobs, missing
    assert "time limit" not in found
