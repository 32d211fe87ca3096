from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from site_db.files.input_errors import InvalidFile
from site_db.jobs.logged import LoggedJob, Tally
from site_db.jobs.sacct.columns import COLUMNS, COMMAND, RAN
from site_db.jobs.sacct.reader import STEP, read_sacct
from site_db.jobs.sacct.rows import TOO_MANY
from site_db.jobs.sacct.times import BACKWARDS, CLOCK, OF_A_DATA_FRAME
from site_db.slurm.output import Tres

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
ENDED = NINE + 2 * HOUR


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
        queued_unix_s=NINE,
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


UNREADABLE = [
    *(
        "01 Jan 10:00",
        "2024-01-01",
        "2024-01-01T10:61:00",
        "2024-W01-1",
        "1969-12-31T23:59:59",
        "-1704103200",
    ),
    *("1704103200.5", "9" * 12, "9" * 5000, "9999-12-31T23:59:59-01:00"),
]
STEPS = ("1234.batch", "1234.extern", "1234.0", "1234_7.batch", "1234+1.0")
REFUSED = {
    STEP: [without(JobID=id, State=state, User="") for id in STEPS for state in ("COMPLETED", "FAILED")],
    "there is no job id": [without(JobID=" ")],
    "the job has not ended": [
        without(JobID="1234_[1-10%4]", State="PENDING", Start="Unknown", End="Unknown", NodeList="")
    ],
    "the start or the end is unknown": [
        without(**{column: text})
        for column in ("Start", "End")
        for text in ("Unknown", "None", "NONE", "", "0")
    ],
    "a time cannot be read": [
        without(**{column: text}) for column in ("Start", "End") for text in UNREADABLE
    ],
    "the run time is zero": [without(Elapsed="00:00:00"), without("Elapsed", End=GOOD["Start"])],
    BACKWARDS: [without("Elapsed", End="2024-01-01T09:59:59")],
    "the elapsed time reaches back before 1970": [
        without(Elapsed=f"{days}-00:00:00") for days in ("99999", "9" * 18)
    ],
    TOO_MANY: [without("JobName", Partition="a|b")],
    "the job failed": [without(JobName="a|b", State="FAILED")],
}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        *((without(State=state), reason) for state, reason in STATES.items()),
        *((row, reason) for reason, rows in REFUSED.items() for row in rows),
    ],
)
def test_a_row_that_is_no_completed_run_is_refused_with_the_reason_and_without_repairs(
    row: dict[str, str], reason: str
) -> None:
    jobs, tally = read(log(row))
    assert (jobs, tally.refused) == ([], {reason: 1})
    assert not tally.repaired


READ: dict[str, list[tuple[dict[str, str], object]]] = {
    "number": [
        *((without(JobID=number), number) for number in ("1234", "1234_7", "1234+1", "99+0")),
        ({"JobIDRaw": "1300"} | without(JobID="1234_7"), "1234_7"),
    ],
    "time_limit_s": [
        (GOOD, None),
        *((without(TimelimitRaw=text), 5400.0) for text in ("90", "90.0")),
        *((without(TimelimitRaw=text), None) for text in ("UNLIMITED", "Partition_Limit", "Infinity", "")),
        *((without(Timelimit=text), 93_600.0) for text in ("1-02:00:00", "1-02")),
        (without(Timelimit="00:30:00"), 1800.0),
        (without(Timelimit="5000"), 300_000.0),
        (without(Timelimit="90:00"), 5400.0),
        (without(TimelimitRaw="60", Timelimit="01:00:00"), 3600.0),
    ],
    "submitted_unix_s": [  # when it was eligible to run
        (GOOD, NINE + HOUR / 2),
        (without("Eligible"), NINE),
        (without("Submit"), NINE + HOUR / 2),
        (without(Submit="Unknown"), NINE + HOUR / 2),
        (without(Eligible="Unknown"), NINE),
        (without(Eligible="2024-01-01T08:00:00"), NINE),
        (without(Eligible="2024-01-01T10:30:00"), NINE),
        (without("Submit", Eligible="None"), NINE + HOUR),
        (without("Submit", "Eligible"), NINE + HOUR),
    ],
    "started_unix_s": [  # the end less the elapsed time
        *((without(Elapsed=text), ENDED - HOUR) for text in ("01:00:00", "0-01:00:00", "60:00", "0-01", "")),
        (without("Elapsed"), ENDED - HOUR),
        (without(Elapsed="01:00:01"), ENDED - 3601),
        (without(Elapsed="00:59:58"), ENDED - 3598),
        (without("Elapsed", ElapsedRaw="3600"), ENDED - HOUR),
        (without("Elapsed", ElapsedRaw="3602"), ENDED - 3602),
        (without(ElapsedRaw="3601"), ENDED - 3601),
        (without(ElapsedRaw="?", Elapsed="01:00:02"), ENDED - 3602),
        (without(Submit="1704099600", Start="1704103200", End="1704106800"), ENDED - HOUR),
        (without(Start="2024-01-01T11:00:00+0100"), ENDED - HOUR),
    ],
    "processors": [
        (without(NCPUS="4", ReqCPUS="2"), 8),
        (without("AllocCPUS", NCPUS="4", ReqCPUS="2"), 4),
        (without(AllocCPUS="0", NCPUS="", ReqCPUS="2"), 2),
        (without(AllocCPUS="", NCPUS="1K"), 1024),
        (without(AllocCPUS="2K"), 2048),
        (without("AllocCPUS", ReqTRES="cpu=3,node=1"), 3),
        (without(AllocCPUS="4294967294", ReqCPUS="2"), 2),
    ],
    "nodes": [
        (without(NodeList="n1"), ("n1",)),
        (without(NodeList="n1,n2"), ("n1", "n2")),
        (without(NodeList="n[01-03],x7"), ("n01", "n02", "n03", "x7")),
        (without(NodeList="x7,n[1,3-4],m[8],k"), ("x7", "n1", "n3", "n4", "m8", "k")),
        (without(NodeList="n[1-2]-ib,m[1-2]"), ("n1-ib", "n2-ib", "m1", "m2")),
        (without(NodeList="n1,,n2,"), ("n1", "n2")),
        *((without(NodeList=text), ()) for text in ("None assigned", "")),
    ],
    "program": [  # the name without its folder, else the partition
        (without(JobName="run.sh"), "run.sh"),
        (without(JobName="/home/x/run.sh"), "run.sh"),
        (without(JobName="./a b"), "a b"),
        (without(JobName="folder/"), "folder"),
        *((without(JobName=name), "batch") for name in ("", "/", "\t\0")),
        (without(JobName="b\ta\x1b[31md\u200b"), "ba[31md"),
        (without(JobName="Señor"), "Señor"),
        (without("JobName", Partition=""), "unknown"),
    ],
    "user": [(GOOD, "ann"), (without("User"), "unknown")],
    "partition": [(GOOD, "batch"), (without(Partition=""), "")],
}
REPAIRED: dict[str, list[tuple[dict[str, str], str, object]]] = {
    "the time limit cannot be read, taken as none": [
        (without(TimelimitRaw=text), "time_limit_s", None) for text in ("soon", "-5", "0", "9" * 15)
    ],
    "submitted after the start, taken as submitted at the start": [
        (without(Submit="2024-01-01T10:00:01"), "submitted_unix_s", NINE + HOUR)
    ],
    "the elapsed time cannot be read, end minus start taken": [
        (without(Elapsed=text), "started_unix_s", NINE + HOUR)
        for text in ("INVALID", "1:2:3:4", "-01:00", "1-", ":", "01:00:00.5", "²")
    ],
    CLOCK: [
        *(
            (without("Submit", "Eligible", Elapsed=text), name, ENDED - run_s)
            for text, run_s in (("00:59:57", 3597), ("05:06", 306), ("1-02:03:04", 93_784))
            for name in ("started_unix_s", "submitted_unix_s")
        ),
        (without("Elapsed", ElapsedRaw="3603"), "started_unix_s", ENDED - 3603),
        (without("Submit", Start="2024-01-01T11:40:00", Elapsed="20:00"), "started_unix_s", ENDED - 1200),
    ],
    "the number of processors is unknown, taken as 1": [
        (without(AllocCPUS=text), "processors", 1) for text in ("", "0", "many", "-3", "1.5")
    ],
    "the list of nodes cannot be read, taken as none": [
        (without(NodeList=text), "nodes", ())
        for text in ("n[1-3", "n1-3]", "n[a]", "x,n[1,2", "n[0-999999]", "n[]")
    ],
    "a | inside JobName": [
        (without(JobName="a|b|/c"), "program", "c"),
        (without(JobName="a|b|/c"), "partition", "batch"),
        (without(JobName="a|b"), "program", "a|b"),
    ],
}


@pytest.mark.parametrize(
    ("row", "attribute", "value", "repairs"),
    [
        *((row, name, value, []) for name, rows in READ.items() for row, value in rows),
        *((*row, [repair]) for repair, rows in REPAIRED.items() for row in rows),
    ],
)
def test_a_row_has_what_its_columns_say_with_each_repair_in_the_tally(
    row: dict[str, str], attribute: str, value: object, repairs: list[str]
) -> None:
    job = the_job(row, *repairs)
    assert getattr(job, attribute) == value
    assert job.ended_unix_s == ENDED


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
@example(lines=["0||", f"||COMPLETED{'|0000-00-00T00:00' * 4}|0||0"], headed=True)
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
        rows = [line for line in lines if printable(line) not in ("", header)]
        # Lines with fewer fields than the header may be parts of one row, in a text of which a line ends.
        may_be_joined = any(len(line.split("|")) < len(GOOD) for line in rows)
        assert tally.rows <= len(rows) if may_be_joined else tally.rows == len(rows)
        assert (tally.rows > 0) == (len(rows) > 0)
    assert tally.used == len(jobs)
    for job in jobs:
        assert 0 <= job.submitted_unix_s <= job.started_unix_s < job.ended_unix_s
        assert 1 <= job.processors < 2**31
        names = (job.number, job.user, job.program, job.partition, *job.nodes)
        assert all(name.isprintable() for name in names)
        assert all((job.number, job.user, job.program, *job.nodes))
