from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from site_db.files.given import InvalidFile
from site_db.files.opened import open_lines
from site_db.jobs.logs.logged_job import LoggedJob, Tally
from site_db.jobs.sacct.command import COLUMNS, COMMAND
from site_db.jobs.sacct.order import OF_A_DATA_FRAME
from site_db.jobs.sacct.reader import STEP, read_sacct
from site_db.jobs.sacct.rows import TOO_MANY
from site_db.jobs.sacct.states import RAN
from site_db.jobs.sacct.when import BACKWARDS, CLOCK
from site_db.slurm.tres import Tres

PATH = Path("log.txt")

GOOD = {
    "JobID": "1234",
    "User": "ann",
    "JobName": "bench",
    "Partition": "batch",
    "State": "COMPLETED",
    "Submit": "2024-01-01T09:00:00",
    "Eligible": "2024-01-01T09:30:00",
    "Start": "2024-01-01T10:00:00",
    "End": "2024-01-01T11:00:00",
    "Elapsed": "01:00:00",
    "AllocCPUS": "8",
    "NodeList": "n[01-02]",
}

NINE = 1_704_099_600.0
"""2024-01-01, nine o'clock UTC."""
HOUR = 3600.0


def log(*rows: dict[str, str]) -> list[str]:
    """The header that the first row asks for, and the rows."""
    return ["|".join(rows[0]), *("|".join(row.values()) for row in rows)]


def without(*columns: str, **changed: str) -> dict[str, str]:
    """A good row that lacks some columns and has others changed or added."""
    return {name: text for name, text in (GOOD | changed).items() if name not in columns}


def read(lines: list[str]) -> tuple[list[LoggedJob], Tally]:
    tally = Tally()
    return list(read_sacct((f"{line}\n" for line in lines), PATH, tally)), tally


def the_job(row: dict[str, str], *repairs: str) -> LoggedJob:
    """The job that a row stands for, once with each of the repairs and with no other."""
    (job,), tally = read(log(row))
    assert tally.repaired == dict.fromkeys(repairs, 1)
    assert tally.rows == tally.used == 1
    return job


def refusal(row: dict[str, str]) -> str:
    jobs, tally = read(log(row))
    assert jobs == []
    assert not tally.repaired
    ((reason, count),) = tally.refused.items()
    assert count == 1
    return reason


def run_time_s(job: LoggedJob) -> float:
    return job.ended_unix_s - job.started_unix_s


@pytest.mark.parametrize(
    ("columns", "limit_s"),
    [
        ({}, None),
        ({"TimelimitRaw": "90"}, 5400.0),
        ({"TimelimitRaw": "90.0"}, 5400.0),
        ({"TimelimitRaw": "UNLIMITED"}, None),
        ({"TimelimitRaw": "Partition_Limit"}, None),
        ({"TimelimitRaw": ""}, None),
        ({"Timelimit": "1-02:00:00"}, 93_600.0),
        ({"Timelimit": "00:30:00"}, 1800.0),
        ({"Timelimit": "5000"}, 300_000.0),
        ({"Timelimit": "90:00"}, 5400.0),
        ({"Timelimit": "1-02"}, 93_600.0),
        ({"TimelimitRaw": "60", "Timelimit": "01:00:00"}, 3600.0),
    ],
)
def test_the_limit_is_in_minutes_or_in_clock_format(columns: dict[str, str], limit_s: float | None) -> None:
    assert the_job(GOOD | columns).time_limit_s == limit_s


@pytest.mark.parametrize("text", ["soon", "-5", "0", "9" * 15])
def test_an_unreadable_limit_is_none(text: str) -> None:
    repair = "the time limit cannot be read, taken as none"
    assert the_job(GOOD | {"TimelimitRaw": text}, repair).time_limit_s is None


def test_a_row_becomes_a_run_with_utc_times() -> None:
    assert the_job(GOOD) == LoggedJob(
        "1234",
        "ann",
        "bench",
        "batch",
        8,
        ("n01", "n02"),
        NINE + HOUR / 2,
        NINE + HOUR,
        NINE + 2 * HOUR,
        resources=Tres(8, 2),
        line=2,
    )


def test_columns_may_have_any_order_and_case_and_include_others() -> None:
    row = {name.upper(): text for name, text in reversed(without(ExitCode="0:0", TimelimitRaw="").items())}
    assert the_job(row) == the_job(GOOD)


def test_sacct_p_output_may_end_with_an_empty_column() -> None:
    jobs, tally = read([f"{line}|" for line in log(GOOD, without(JobName="a|b"))])
    assert [job.program for job in jobs] == ["bench", "a|b"]
    assert tally.repaired == {"a | inside JobName": 1}


def test_lines_may_have_windows_endings_or_be_blank() -> None:
    header, row = log(GOOD)
    assert read(["", f"{header}\r", "  ", f"{row}\r", ""]) == read([header, row])


def test_a_repeated_header_in_a_concatenated_log_is_not_a_row() -> None:
    jobs, tally = read(log(GOOD) + log(GOOD))
    assert len(jobs) == tally.rows == 2


def test_the_required_columns_are_sufficient() -> None:
    row = {name: GOOD[name] for name in ("User", "Start", "End", "State")} | {"JobIDRaw": "99"}
    assert the_job(row, "the number of processors is unknown, taken as 1") == LoggedJob(
        "99", "ann", "unknown", "", 1, (), NINE + HOUR, NINE + HOUR, NINE + 2 * HOUR, resources=Tres(1, 1)
    )


def test_irrelevant_columns_are_ignored() -> None:
    assert the_job(without(Reason="None", NTasks="3")) == the_job(GOOD)


@pytest.mark.parametrize("number", ["1234", "1234_7", "1234+1", "99+0"])
def test_array_tasks_and_heterogeneous_job_components_keep_their_ids(number: str) -> None:
    assert the_job(without(JobID=number)).number == number


def test_job_id_takes_precedence_over_the_raw_id() -> None:
    assert the_job({"JobIDRaw": "1300"} | without(JobID="1234_7")).number == "1234_7"


@pytest.mark.parametrize("number", ["1234.batch", "1234.extern", "1234.0", "1234_7.batch", "1234+1.0"])
@pytest.mark.parametrize("state", ["COMPLETED", "FAILED"])
def test_a_job_step_is_rejected_in_any_state(number: str, state: str) -> None:
    reason = "a step of a job, not a job (use sacct -X)"
    assert refusal(without(JobID=number, State=state, User="")) == reason


@pytest.mark.parametrize("columns", [(), ("User",)])
def test_ids_and_numbers_of_a_data_frame_are_read_as_whole_ones(columns: tuple[str, ...]) -> None:
    rows = [without(*columns, JobID=number, AllocCPUS="8.0", NNodes="2.0") for number in ("7.0", "8.0")]
    jobs, tally = read(log(*rows))
    assert [(job.number, job.processors, job.resources.nodes) for job in jobs] == [("7", 8, 2), ("8", 8, 2)]
    assert tally.repaired == {OF_A_DATA_FRAME: 2}


@pytest.mark.parametrize("columns", [{}, {"User": ""}])
def test_a_first_step_is_one_also_in_a_log_without_users(columns: dict[str, str]) -> None:
    steps = [without("User", JobID="1234.0") | columns, without("User", JobID="1235.0") | columns]
    jobs, tally = read(log(without("User") | columns, *steps))
    assert (len(jobs), tally.refused) == (1, {STEP: 2})


def test_a_row_without_a_job_id_is_rejected() -> None:
    assert refusal(without(JobID=" ")) == "there is no job id"


def test_every_completed_run_of_a_requeued_job_counts() -> None:
    jobs, tally = read(log(GOOD, without(State="REQUEUED"), GOOD))
    assert len(jobs) == 2
    assert tally.refused == {"the job was requeued": 1}


def test_a_run_that_ended_in_a_requeue_used_its_nodes() -> None:
    lines = log(GOOD, without(State="REQUEUED"))
    assert [job.state for job in read_sacct(lines, Path("log.txt"), Tally(), RAN)] == [
        "COMPLETED",
        "REQUEUED",
    ]


STATES = {
    "RUNNING": "the job has not ended",
    "PENDING": "the job has not ended",
    "SUSPENDED": "the job has not ended",
    "REQUEUED": "the job was requeued",
    "RECONFIG_FAIL": "a node of the job could not be reconfigured",
    "REQUEUE_HOLD": "the job has not ended",
    "FAILED": "the job failed",
    "failed": "the job failed",
    "TIMEOUT": "the job ran into its time limit",
    "OUT_OF_MEMORY": "the job ran out of memory",
    "OUT_OF_ME+": "the job ran out of memory",
    "NODE_FAIL": "a node of the job failed",
    "BOOT_FAIL": "a node of the job did not boot",
    "DEADLINE": "the job would have missed its deadline",
    "PREEMPTED": "the job was preempted",
    "CANCELLED": "the job was cancelled",
    "CANCELLED by 1234": "the job was cancelled",
    "CANCELLED b+": "the job was cancelled",
    "CANCELLED+": "the job was cancelled",
    "REQUEUE+": "the state is not known",
    "COMPLET+": "the state is not known",
    "P+": "the state is not known",
    "+": "the state is not known",
    "": "the state is not known",
    "DONE": "the state is not known",
    "COMPLETED by 1234": "the state is not known",
}


@pytest.mark.parametrize(("state", "reason"), STATES.items(), ids=STATES)
def test_an_incomplete_job_is_rejected_with_the_reason_for_its_state(state: str, reason: str) -> None:
    assert refusal(without(State=state)) == reason


def test_a_pending_array_has_not_ended() -> None:
    row = without(JobID="1234_[1-10%4]", State="PENDING", Start="Unknown", End="Unknown", NodeList="")
    assert refusal(row) == "the job has not ended"


@pytest.mark.parametrize("column", ["Start", "End"])
@pytest.mark.parametrize("text", ["Unknown", "None", "NONE", "", "0"])
def test_a_job_with_unknown_start_or_end_is_rejected(column: str, text: str) -> None:
    assert refusal(without(**{column: text})) == "the start or the end is unknown"


@pytest.mark.parametrize("column", ["Start", "End"])
@pytest.mark.parametrize(
    "text",
    [
        "01 Jan 10:00",
        "2024-01-01",
        "2024-01-01T10:61:00",
        "2024-W01-1",
        "1969-12-31T23:59:59",
        "-1704103200",
        "1704103200.5",
        "9" * 12,
        "9" * 5000,
        "9999-12-31T23:59:59-01:00",
    ],
)
def test_an_unreadable_time_is_rejected(column: str, text: str) -> None:
    assert refusal(without(**{column: text})) == "a time cannot be read"


def test_times_may_be_unix_seconds() -> None:
    row = without(Submit="1704099600", Start="1704103200", End="1704106800")
    assert the_job(row) == the_job(GOOD)


def test_a_time_zone_is_respected() -> None:
    assert the_job(without(Start="2024-01-01T11:00:00+0100")) == the_job(GOOD)


@pytest.mark.parametrize(
    ("row", "hours"),
    [
        (GOOD, 0.5),
        (without("Eligible"), 0),
        (without("Submit"), 0.5),
        (without(Submit="Unknown"), 0.5),
        (without(Eligible="Unknown"), 0),
        (without(Eligible="2024-01-01T08:00:00"), 0),
        (without(Eligible="2024-01-01T10:30:00"), 0),
        (without("Submit", Eligible="None"), 1),
        (without("Submit", "Eligible"), 1),
    ],
)
def test_a_job_arrives_when_it_was_eligible_to_run(row: dict[str, str], hours: float) -> None:
    assert the_job(row).submitted_unix_s == NINE + hours * HOUR


def test_submission_is_never_after_the_start() -> None:
    repair = "submitted after the start, taken as submitted at the start"
    assert the_job(without(Submit="2024-01-01T10:00:01"), repair).submitted_unix_s == NINE + HOUR


@pytest.mark.parametrize(
    ("column", "text", "run_s"),
    [
        ("Elapsed", "01:00:00", 3600),
        ("Elapsed", "0-01:00:00", 3600),
        ("Elapsed", "60:00", 3600),
        ("Elapsed", "0-01:00", 3600),
        ("Elapsed", "01:00:01", 3601),
        ("Elapsed", "00:59:58", 3598),
        ("ElapsedRaw", "3600", 3600),
        ("ElapsedRaw", "3602", 3602),
    ],
)
def test_the_run_time_is_the_elapsed_time(column: str, text: str, run_s: int) -> None:
    job = the_job(without("Elapsed") | {column: text})
    assert run_time_s(job) == run_s
    assert job.ended_unix_s == NINE + 2 * HOUR


@pytest.mark.parametrize(
    ("column", "text", "run_s"),
    [
        ("Elapsed", "00:59:57", 3597),
        ("Elapsed", "05:06", 306),
        ("Elapsed", "1-02:03:04", 93784),
        ("ElapsedRaw", "3603", 3603),
    ],
)
def test_a_conflicting_elapsed_time_moves_the_start(column: str, text: str, run_s: int) -> None:
    job = the_job(without("Elapsed", "Submit", "Eligible") | {column: text}, CLOCK)
    assert run_time_s(job) == run_s
    assert job.ended_unix_s == NINE + 2 * HOUR
    assert job.submitted_unix_s == job.started_unix_s


def test_a_run_across_the_end_of_daylight_saving_time_may_appear_to_end_before_it_starts() -> None:
    row = without(
        "Submit", "Eligible", Start="2024-10-27T02:50:00", End="2024-10-27T02:10:00", Elapsed="20:00"
    )
    assert run_time_s(the_job(row, CLOCK)) == 20 * 60


def test_the_raw_elapsed_time_takes_precedence() -> None:
    assert run_time_s(the_job(without(ElapsedRaw="3601"))) == 3601
    assert run_time_s(the_job(without(ElapsedRaw="?", Elapsed="01:00:02"))) == 3602


@pytest.mark.parametrize("text", ["INVALID", "1:2:3:4", "-01:00", "1-", ":", "01:00:00.5", "²"])
def test_an_unreadable_elapsed_time_is_replaced_by_end_minus_start(text: str) -> None:
    repair = "the elapsed time cannot be read, end minus start taken"
    assert the_job(without(Elapsed=text), repair) == the_job(GOOD)


def test_without_an_elapsed_time_the_run_time_is_end_minus_start() -> None:
    assert the_job(without("Elapsed")) == the_job(without(Elapsed="")) == the_job(GOOD)


def test_a_run_of_zero_length_is_rejected() -> None:
    assert refusal(without(Elapsed="00:00:00")) == "the run time is zero"
    assert refusal(without("Elapsed", End=GOOD["Start"])) == "the run time is zero"


def test_a_run_that_ends_before_its_start_or_precedes_1970_is_rejected() -> None:
    assert refusal(without("Elapsed", End="2024-01-01T09:59:59")) == BACKWARDS
    reason = "the elapsed time reaches back before 1970"
    assert refusal(without(Elapsed="99999-00:00:00")) == reason
    assert refusal(without(Elapsed=f"{'9' * 18}-00:00:00")) == reason


@pytest.mark.parametrize(
    ("processors", "number"),
    [
        ({"AllocCPUS": "8", "NCPUS": "4", "ReqCPUS": "2"}, 8),
        ({"NCPUS": "4", "ReqCPUS": "2", "AllocCPUS": "8"}, 8),
        ({"NCPUS": "4", "ReqCPUS": "2"}, 4),
        ({"AllocCPUS": "0", "NCPUS": "", "ReqCPUS": "2"}, 2),
        ({"AllocCPUS": "", "NCPUS": "1K"}, 1024),
        ({"AllocCPUS": "2K"}, 2048),
        ({"AllocCPUS": "4294967294", "ReqCPUS": "2"}, 2),
    ],
)
def test_allocated_processors_take_precedence_over_requested_ones(
    processors: dict[str, str], number: int
) -> None:
    assert the_job(without("AllocCPUS") | processors).processors == number


@pytest.mark.parametrize("text", ["", "0", "many", "-3", "1.5"])
def test_an_unknown_number_of_processors_is_one(text: str) -> None:
    repair = "the number of processors is unknown, taken as 1"
    assert the_job(without(AllocCPUS=text), repair).processors == 1


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("n1", ("n1",)),
        ("n1,n2", ("n1", "n2")),
        ("n[01-03],x7", ("n01", "n02", "n03", "x7")),
        ("x7,n[1,3-4],m[8],k", ("x7", "n1", "n3", "n4", "m8", "k")),
        ("n[1-2]-ib,m[1-2]", ("n1-ib", "n2-ib", "m1", "m2")),
        ("n1,,n2,", ("n1", "n2")),
        ("None assigned", ()),
        ("", ()),
    ],
)
def test_nodes_are_read_from_bracket_notation(text: str, nodes: tuple[str, ...]) -> None:
    assert the_job(without(NodeList=text)).nodes == nodes


@pytest.mark.parametrize("text", ["n[1-3", "n1-3]", "n[a]", "x,n[1,2", "n[0-999999]", "n[]"])
def test_an_unreadable_node_list_is_ignored(text: str) -> None:
    assert the_job(without(NodeList=text), "the list of nodes cannot be read, taken as none").nodes == ()


@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("run.sh", "run.sh"),
        ("/home/x/run.sh", "run.sh"),
        ("./a b", "a b"),
        ("folder/", "folder"),
        ("", "batch"),
        ("/", "batch"),
        ("\t\0", "batch"),
        ("b\ta\x1b[31md\u200b", "ba[31md"),
        ("Señor", "Señor"),
    ],
)
def test_the_program_is_the_job_name_without_its_folder_or_the_partition(name: str, program: str) -> None:
    assert the_job(without(JobName=name)).program == program


def test_a_missing_program_or_user_is_unknown() -> None:
    job = the_job(without("JobName", "User", Partition=""))
    assert (job.program, job.partition, job.user) == ("unknown", "", "unknown")


def test_a_job_name_that_contains_the_separator_is_rejoined() -> None:
    job = the_job(without(JobName="a|b|/c"), "a | inside JobName")
    assert job.program == "c"
    assert job.partition == "batch"
    assert the_job(without(JobName="a|b"), "a | inside JobName").program == "a|b"


def test_repairs_of_a_rejected_row_are_not_counted() -> None:
    assert refusal(without(JobName="a|b", State="FAILED")) == "the job failed"


def test_extra_fields_are_rejected_if_no_job_name_can_contain_them() -> None:
    assert refusal(without("JobName", Partition="a|b")) == TOO_MANY


def test_missing_fields_are_rejected() -> None:
    header, row = log(GOOD)
    _, tally = read([header, row.rpartition("|")[0], "1234", row])
    assert tally.refused == {"fewer fields than the header": 2}
    assert tally.used == 1


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (["JobID|User|Start|State"], "log.txt, line 1: 'JobID|User|Start|State' has no column End"),
        (
            ["", "JobID|User|Start"],
            "log.txt, line 2: 'JobID|User|Start' has no column End and no column State",
        ),
        (["User|Start|End|State"], "log.txt, line 1: 'User|Start|End|State' has no column JobID"),
        (
            log(GOOD)[1:],
            "log.txt, line 1: '1234|ann|bench|batch|COMPLETED|2024-01-01T09:00:00|2024-0...' is not a header",
        ),
        (['name = "small"'], "log.txt, line 1: 'name = \"small\"' is not a header"),
        ([], "log.txt: the file is empty"),
        ([" ", ""], "log.txt: the file is empty"),
    ],
)
def test_a_file_without_a_sacct_header_is_rejected_with_the_command_that_creates_one(
    lines: list[str], sentence: str
) -> None:
    with pytest.raises(InvalidFile) as caught:
        read(lines)
    expected = "expected a header with Start, End, State and JobID or JobIDRaw, as printed by"
    assert str(caught.value) == f"{sentence}; {expected}: {COMMAND}"


def test_the_command_in_the_error_message_gives_a_valid_header() -> None:
    asked_for = ",".join(re.findall(r"-o (\S+)", COMMAND))
    assert asked_for == COLUMNS
    assert read([asked_for.replace(",", "|")]) == ([], Tally())


def test_a_log_is_read_as_a_stream() -> None:
    def endless() -> Iterator[str]:
        header, row = log(GOOD)
        yield header
        while True:
            yield row

    tally = Tally()
    jobs = read_sacct(endless(), PATH, tally)
    assert next(jobs) == next(jobs)
    assert tally.used == 2


def test_a_log_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    path.write_bytes("\r\n".join(log(GOOD, without(User="Se\xf1or"))).encode("latin-1"))
    with open_lines(path) as lines:
        users = [job.user for job in read_sacct(lines, path, Tally())]
    assert users == ["ann", "Señor"]


TEXTS = st.one_of(
    st.sampled_from(
        [*GOOD.values(), *STATES, "None", "Unknown", "0", "9" * 5000, "²", "٣", "n[", "1-01:00:00"]
    ),
    st.integers().map(str),
    st.datetimes().map(str),
    st.text(max_size=5),
)
LINES = st.one_of(
    st.text(),
    st.just("|".join(GOOD)),
    st.lists(TEXTS, min_size=10, max_size=14).map("|".join),
    st.dictionaries(st.sampled_from(list(GOOD)), TEXTS, max_size=3).map(lambda texts: log(GOOD | texts)[1]),
)


def printable(line: str) -> str:
    return "".join(filter(str.isprintable, line)).strip()


@given(st.lists(LINES), st.booleans())
def test_any_row_is_used_or_rejected_and_every_job_is_valid(lines: list[str], headed: bool) -> None:
    header = "|".join(GOOD)
    lines = [header, *lines] if headed else lines
    tally = Tally()
    jobs: list[LoggedJob] = []
    try:
        jobs.extend(read_sacct(lines, PATH, tally))
    except InvalidFile:
        assert not headed
        assert tally == Tally()
        return
    if headed:
        assert tally.rows == sum(1 for line in lines if printable(line) not in ("", header))
    assert tally.used == len(jobs)
    for job in jobs:
        assert 0 <= job.submitted_unix_s <= job.started_unix_s < job.ended_unix_s
        assert 1 <= job.processors < 2**31
        names = (job.number, job.user, job.program, job.partition, *job.nodes)
        assert all(name.isprintable() for name in names)
        assert all((job.number, job.user, job.program, *job.nodes))
