from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.messages import printable
from sil.workload.batsim_json import read_batsim_json, write_batsim_json
from sil.workload.job_log import SCHEMA, JobLog
from site_db.files.input_errors import InvalidFile
from tests.sil.workload.swf_files import assert_sound

MISSING = object()


def workload(*jobs: dict[str, Any], **top: Any) -> dict[str, Any]:
    """Jobs on 8 resources; profile "p" takes 60 s."""
    profiles = {
        "p": {"type": "delay", "delay": 60},
        "sum": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0},
    }
    whole = {"nb_res": 8, "jobs": list(jobs), "profiles": profiles, **top}
    return {key: value for key, value in whole.items() if value is not MISSING}


def job(**fields: Any) -> dict[str, Any]:
    whole = {"id": 1, "subtime": 0, "walltime": 90, "res": 4, "profile": "p", **fields}
    return {key: value for key, value in whole.items() if value is not MISSING}


def lasting(delay: Any) -> dict[str, Any]:
    return {"profiles": {"p": {"type": "delay", "delay": delay}}}


def read(folder: Path, document: object, processors: int | None = None) -> JobLog:
    path = folder / "workload.json"
    path.write_text(json.dumps(document))
    log = read_batsim_json(path, processors)
    assert_sound(log)
    return log


def refusal(folder: Path, document: object) -> str:
    path = folder / "workload.json"
    path.write_text(json.dumps(document))
    return refusal_of(path)


def refusal_of(path: Path) -> str:
    with pytest.raises(InvalidFile) as refused:
        read_batsim_json(path)
    message = str(refused.value)
    assert message.startswith(str(path))
    assert printable(message) == message
    return message


def test_run_time_is_the_profile_delay_and_estimate_is_the_walltime(tmp_path: Path) -> None:
    log = read(tmp_path, workload(job(id=17, subtime=5.5)))
    assert log.jobs.rows(named=True) == [
        {"job": 17, "submit_s": 5.5, "run_s": 60.0, "processors": 4, "estimate_s": 90.0, "user": -1}
    ]
    assert (log.name, log.processors, log.notes) == ("workload.json", 8, ())


def test_only_non_negative_integer_users_are_kept_and_round_trip(tmp_path: Path) -> None:
    log = read(tmp_path, workload(job(user=7), job(id=2), job(id=3, user="ann"), job(id=4, user=-5)))
    assert log.jobs["user"].to_list() == [7, -1, -1, -1]
    write_batsim_json(tmp_path / "again.json", log)
    assert read_batsim_json(tmp_path / "again.json").jobs.equals(log.jobs)


@pytest.mark.parametrize("walltime", [MISSING, -1, -1.0, None])
def test_without_a_walltime_the_estimate_is_the_run_time(walltime: object, tmp_path: Path) -> None:
    log = read(tmp_path, workload(job(walltime=walltime)))
    assert log.jobs["estimate_s"].to_list() == [60]
    assert log.notes == ()


@pytest.mark.parametrize("kind", ["delay", "DelayProfile"])
def test_delays_of_old_and_new_batsim_versions_are_read(kind: str, tmp_path: Path) -> None:
    document = workload(job(), profiles={"p": {"type": kind, "delay": 20.25, "ret": 0}})
    assert read(tmp_path, document).jobs["run_s"].to_list() == [20.25]


def test_jobs_are_sorted_by_submission_then_by_number(tmp_path: Path) -> None:
    jobs = [job(id=3, subtime=5), job(id=2, subtime=5), job(id=1, subtime=9)]
    assert read(tmp_path, workload(*jobs)).jobs["job"].to_list() == [2, 3, 1]


def test_a_walltime_below_the_delay_cuts_the_run_with_a_note(tmp_path: Path) -> None:
    log = read(tmp_path, workload(job(), job(id=2, walltime=45), job(id=3, walltime=50.5)))
    assert log.jobs["run_s"].to_list() == [60, 45, 50.5]
    assert log.jobs["estimate_s"].to_list() == [90, 45, 50.5]
    assert log.cut == {2, 3}
    assert log.notes == (
        "2 jobs, the first is job '2': the delay is longer than the walltime; the run is cut to the walltime",
    )


@pytest.mark.parametrize("delay", [0, 0.25])
def test_a_run_below_one_second_becomes_one_second_with_a_note(delay: float, tmp_path: Path) -> None:
    log = read(tmp_path, workload(job(), **lasting(delay)))
    assert log.jobs["run_s"].to_list() == [1]
    assert log.notes == ("job '1': a run time below 1 s; 1 s is taken",)


def test_a_walltime_below_one_second_becomes_one_second_with_a_note(tmp_path: Path) -> None:
    log = read(tmp_path, workload(job(walltime=0.5), **lasting(0.25)))
    assert log.jobs.select("run_s", "estimate_s").row(0) == (1, 1)
    assert "job '1': a walltime below 1 s; 1 s is taken" in log.notes


@pytest.mark.parametrize(
    ("ids", "numbers"),
    [
        ([3, 1, 2], [3, 1, 2]),
        (["w0!17", "w0!4"], [17, 4]),
        (["17", 4], [17, 4]),
        (["007", "7"], [7, 8]),
        (["w0!17", "w1!17"], [17, 18]),
        (["a", 9, "b"], [10, 9, 11]),
        ([0, 1], [2, 1]),
        ([-3, "w0!x5", ""], [1, 2, 3]),
        (["9" * 40, 10**30, "٣"], [1, 2, 3]),
    ],
)
def test_numeric_ids_are_kept_and_others_are_renumbered(
    ids: list[int | str], numbers: list[int], tmp_path: Path
) -> None:
    jobs = [job(id=given, subtime=place) for place, given in enumerate(ids)]
    log = read(tmp_path, workload(*jobs))
    assert log.jobs["job"].to_list() == numbers
    kept = [str(number) for number in numbers] == [str(given).removeprefix("w0!") for given in ids]
    assert bool(log.notes) is not kept


def test_a_given_machine_size_overrides_nb_res(tmp_path: Path) -> None:
    assert read(tmp_path, workload(job()), processors=4).processors == 4
    assert read(tmp_path, workload(job(), nb_res=MISSING), processors=4).processors == 4


REFUSED_JOBS = {
    "other profile": (
        job(profile="sum"),
        "its profile 'sum' is of the type 'parallel_homogeneous'; only delays",
    ),
    "no such profile": (job(profile="q"), "there is no profile 'q'"),
    "no profile": (job(profile=MISSING), "profile has to be the name of a profile; it is missing"),
    "numbered profile": (job(profile=3), "profile has to be the name of a profile; it is 3"),
    "no subtime": (
        job(subtime=MISSING),
        "subtime has to be a number of seconds from 0 to 1e+15; it is missing",
    ),
    "early": (job(subtime=-1), "it is -1"),
    "never": (job(subtime=float("inf")), "it is Infinity"),
    "nan": (job(subtime=float("nan")), "it is NaN"),
    "late": (job(subtime=10**400), "it is a number beyond 1e15"),
    "text": (job(subtime="soon"), "it is 'soon'"),
    "true": (job(subtime=True), "it is true"),
    "walltime 0": (job(walltime=0), "walltime has to be above 0, or -1 for none; it is 0"),
    "walltime -2": (job(walltime=-2), "walltime has to be a number of seconds"),
    "walltime text": (job(walltime="1h"), "it is '1h'"),
    "no res": (job(res=MISSING), "res has to be a whole number from 1 on; it is missing"),
    "res 0": (job(res=0), "res has to be a whole number from 1 on; it is 0"),
    "res 1.5": (job(res=1.5), "res has to be a whole number from 1 on; it is 1.5"),
    "res text": (job(res="4"), "it is '4'"),
    "too large": (job(res=9), "res is 9, and the machine has 8 (nb_res)"),
    "id twice": (job(id="5"), "jobs[1] repeats the id"),
}


@pytest.mark.parametrize(("bad", "reason"), REFUSED_JOBS.values(), ids=REFUSED_JOBS.keys())
def test_a_job_that_cannot_be_replayed_is_rejected_with_its_id(
    bad: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    bad = {**bad, "id": 5}
    message = refusal(tmp_path, workload(job(id=5 if "repeats the id" in reason else 1), bad))
    assert ", job '5': " in message
    assert reason in message


@pytest.mark.parametrize("given", [MISSING, None, True, 1.5, [1]])
def test_a_job_without_an_id_is_rejected_with_its_position(given: object, tmp_path: Path) -> None:
    assert "the id of jobs[1] has to be a text or a whole number" in refusal(
        tmp_path, workload(job(), job(id=given))
    )


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), "60", None, 1e16, {}])
def test_an_invalid_delay_is_rejected(delay: object, tmp_path: Path) -> None:
    assert "job '1': delay has to be a number of seconds" in refusal(
        tmp_path, workload(job(), **lasting(delay))
    )


def test_a_delay_profile_without_a_delay_is_rejected(tmp_path: Path) -> None:
    document = workload(job(), profiles={"p": {"type": "delay"}})
    assert "job '1': its profile 'p' has no delay" in refusal(tmp_path, document)


REFUSED_WORKLOADS: dict[str, tuple[object, str]] = {
    "a list": ([], "expected an object with nb_res, jobs and profiles, found a list"),
    "null": (None, "found null"),
    "no jobs": (workload(jobs=MISSING), "there is no 'jobs' in it"),
    "jobs an object": (workload(jobs={}), "'jobs' has to be a list; it is an object"),
    "empty": (workload(), "the list of jobs is empty"),
    "a number as a job": (workload(jobs=[7]), "jobs[0] has to be an object; it is 7"),
    "no profiles": (workload(job(), profiles=MISSING), "there is no 'profiles' in it"),
    "profiles a list": (workload(job(), profiles=[]), "'profiles' has to be an object; it is a list"),
    "profile a list": (workload(job(), profiles={"p": []}), "job '1': there is no profile 'p'"),
    "no size": (workload(job(), nb_res=MISSING), "(nb_res); give it with processors="),
    "size of text": (workload(job(), nb_res="8"), "nb_res has to be a whole number; it is '8'"),
    "size 0": (workload(job(), nb_res=0), "a machine cannot have 0 processors"),
    "vast": (workload(job(), nb_res=10**9), "a machine cannot have 1,000,000,000 processors"),
}


@pytest.mark.parametrize(("document", "reason"), REFUSED_WORKLOADS.values(), ids=REFUSED_WORKLOADS.keys())
def test_an_invalid_workload_document_is_rejected(document: object, reason: str, tmp_path: Path) -> None:
    assert reason in refusal(tmp_path, document)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "line 1: this is not valid JSON: Expecting value"),
        (b'{\n"nb_res": 8,\n"jobs": [}\n', "line 3: this is not valid JSON: Expecting value"),
        (b'{\n"nb_res": 8,\n"jobs": "\xff"}', "line 3: the file is not UTF-8 text"),
        (b"; MaxProcs: 8\n1 0 5", "line 1: this is not valid JSON"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"nb_res": ' + b"9" * 5000 + b"}", "a number with too many digits"),
    ],
    ids=["empty", "bracket", "no UTF-8", "SWF", "deep", "digits"],
)
def test_invalid_json_is_rejected_with_its_line(data: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "workload.json"
    path.write_bytes(data)
    assert reason in refusal_of(path)


TIMES = st.one_of(st.integers(0, 10**9), st.floats(0, 1e9)).map(float)


@st.composite
def logs(draw: st.DrawFn) -> JobLog:
    processors = draw(st.integers(1, 100_000))
    job_rows = st.tuples(st.integers(1, 10**9), TIMES, TIMES, st.integers(1, processors), TIMES)
    drawn = draw(st.lists(job_rows, min_size=1, max_size=8, unique_by=lambda row: row[0]))
    rows = [(job, at_s, 1 + run_s, size, 1 + run_s + more_s, -1) for job, at_s, run_s, size, more_s in drawn]
    jobs = pl.DataFrame(rows, schema=SCHEMA, orient="row").sort("submit_s", "job")
    return JobLog("workload.json", jobs, processors)


@settings(deadline=None)
@given(log=logs(), name=st.sampled_from(["workload.json", "workload.json.gz"]))
def test_a_written_log_round_trips(log: JobLog, name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / name
    write_batsim_json(path, log)
    again = read_batsim_json(path)
    assert again.jobs.equals(log.jobs)
    assert (again.processors, again.notes) == (log.processors, ())


def test_each_run_time_has_one_profile(tmp_path: Path) -> None:
    path = tmp_path / "workload.json"
    log = read(tmp_path, workload(job(), job(id=2), job(id=3, walltime=20.5)))
    write_batsim_json(path, log)
    written = json.loads(path.read_text())
    assert written["nb_res"] == 8
    assert written["profiles"] == {
        "delay-60": {"type": "delay", "delay": 60},
        "delay-20.5": {"type": "delay", "delay": 20.5},
    }
    assert written["jobs"][0] == {"id": "1", "subtime": 0, "walltime": 90, "res": 4, "profile": "delay-60"}
    assert [job["profile"] for job in written["jobs"]] == ["delay-60", "delay-60", "delay-20.5"]


def test_an_unwritable_file_is_reported(tmp_path: Path) -> None:
    log = read(tmp_path, workload(job()))
    with pytest.raises(InvalidFile, match="cannot be written"):
        write_batsim_json(tmp_path / "missing" / "workload.json", log)
