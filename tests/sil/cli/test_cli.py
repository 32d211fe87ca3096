"""The command: output, exit codes, and one sentence for every user error."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.progress import Progress

from scheduler import registry
from scheduler.registry import SchedulerNotLoaded
from sil import cli
from sil.cli.app import PLACES, loaded
from sil.cli.progress import TerminalProgress
from sil.cli.run import needs_no_workers
from sil.experiment.matrix import read_matrix, read_problem
from sil.runs.under_test import resolve
from sil.settings.experiment_file import changed, read_experiment
from sil.usable import VERSION, shadowed
from sil.world import SHOW_TRACEBACKS
from site_db.files.input_errors import InvalidFile
from tests.builders import TINY_SITE, tiny_experiment
from tests.commands import in_a_process, sil, succeeded, the_sentence

pytestmark = pytest.mark.usefixtures("in_this_process", "without_reports")


@pytest.mark.parametrize("group", [(), ("db",), ("workload",)])
def test_without_a_command_the_help_is_printed(group: tuple[str, ...]) -> None:
    without = sil(*group)
    assert without.exit_code == 2
    assert without.stdout == sil(*group, "--help").stdout


def test_the_version_is_that_of_the_package() -> None:
    assert sil("--version").stdout.strip() == VERSION


@pytest.mark.parametrize("options", [(), ("--traceback",)])
def test_tracebacks_are_printed_only_on_request(
    options: tuple[str, ...], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SHOW_TRACEBACKS, "")
    of_error = sil(*options, "run", "no-such-experiment")
    assert of_error.exit_code == 2
    of_fault = sil(*options, "schedule", matrix_file(here, "csv"), "--scheduler", "tests.faulty:Raises")
    assert of_fault.exit_code == 1
    for result in (of_error, of_fault):
        assert ("Traceback (most recent call last)" in result.stderr) is bool(options)


def test_every_command_that_prints_a_table_can_print_json() -> None:
    """Other commands print a sentence or a file."""
    without_tables = {
        *("new-scheduler", "serve-scheduler", "workload convert", "workload lublin"),
        *("slurm install", "slurm check"),
        *(f"db {name}" for name in ("init", "import", "export", "import-sacct", "import-swf")),
        "db import-slurm-conf",
        *(f"db {name}" for name in ("state", "check", "prune", "salvage", "upgrade")),
    }
    commands = {
        f"{group} {name}".strip()
        for group in ("", "workload", "slurm", "db")
        for help_text in [sil(*group.split(), "--help").stdout.partition("Commands:")[2]]
        for name in re.findall(r"^  ([a-z][a-z-]*) ", help_text, re.MULTILINE)
        if name not in ("workload", "slurm", "db")
    }
    assert len(commands) == 39
    with_json = {name for name in commands if "\n  --json" in sil(*name.split(), "--help").stdout}
    assert commands - with_json == without_tables


def test_the_help_lists_each_command_with_the_first_sentence_of_its_own_help() -> None:
    listed = " ".join(sil("--help").stdout.partition("Commands:")[2].split())
    sentences = [" ".join(loaded(place).help.split("\n\n")[0].split()) for place in PLACES]
    assert [sentence for sentence in sentences if sentence not in listed] == []


def test_every_argument_and_option_has_help() -> None:
    """A sentence in a docstring that names none would be lost."""
    commands = [*map(loaded, PLACES)]
    for command in commands:
        commands += getattr(command, "commands", {}).values()
        assert [parameter.name for parameter in command.params if not parameter.help] == []


def test_the_help_loads_no_command_and_no_large_library() -> None:
    large = {"numpy", "pydantic", "rich", "sil.cli.console", "sil.workers"}
    assert not large & modules_after("--help")


def with_output(where: str, *arguments: str) -> tuple[int, str]:
    """The exit code of a command and what it writes to standard error, with standard output redirected."""
    command = [sys.executable, "-c", "from sil.cli import main; main()", *arguments]
    done = in_a_process("sh", "-c", f"{shlex.join(command)} {where}")
    return done.returncode, done.stderr


def test_a_command_without_standard_output_succeeds(here: Path) -> None:
    assert with_output(">&-", "--version") == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_output_for_which_there_is_no_room_ends_the_command_with_a_sentence(here: Path) -> None:
    code, message = with_output("> /dev/full", "schedulers")
    assert code == 2
    assert message == "Error: standard output cannot be written: No space left on device; make room there\n"


def modules_after(*arguments: str) -> set[str]:
    """The modules that a command has loaded into its own process."""
    look = f"""
import sys
if __name__ == "__main__":
    from sil.cli.app import main
    sys.argv = {["sil", *arguments]!r}
    try:
        main()
    except SystemExit as end:
        assert not end.code
    print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", look], check=True, capture_output=True, text=True)
    return set(done.stdout.splitlines()[-1].split())


def test_a_replay_loads_no_database_compiler_protocol_or_report_that_it_does_not_need(here: Path) -> None:
    succeeded("workload", "lublin", "log.swf", "--jobs", "50", "--processors", "16")
    replay = ("replay", "log.swf", "--scheduler", "easy", "--no-report")
    succeeded(*replay)
    loaded = modules_after(*replay)
    assert not loaded & {"jinja2", "scipy.linalg", "sil.batsim.nodes", "sqlalchemy"}
    loaded = modules_after(*replay[:-1])
    assert "jinja2" in loaded
    assert not loaded & {"altair", "sqlalchemy"}


def test_an_experiment_leaves_compiled_functions_to_its_workers(here: Path) -> None:
    experiment = tiny_experiment(here)
    loaded = modules_after(
        "run", str(experiment), "--replications", "1", "--scheduler", "gsa", "--workers", "1"
    )
    assert "sqlalchemy" in loaded
    assert not loaded & {"scipy.linalg"}


@pytest.mark.parametrize(
    ("change", "is_here"),
    [
        ({}, True),
        ({"replications": 10_000}, False),
        ({"schedulers": ("sjs", "gsa")}, False),
        ({"schedulers": ("tests.faulty:ForgetsAJob",)}, False),
        ({"grid": {"workload.jobs": (10, 100_000)}}, False),
    ],
)
def test_only_few_jobs_under_quick_built_in_schedulers_run_in_the_process_of_the_command(
    here: Path, change: dict[str, Any], is_here: bool
) -> None:
    assert needs_no_workers(changed(read_experiment(Path(tiny_experiment(here))), **change)) is is_here


@pytest.mark.reads_report
def test_run_prints_the_comparison_and_writes_all_its_files(here: Path) -> None:
    result = succeeded("run", tiny_experiment(here), "--out", "out")
    metrics = ("Mean turnaround", "Total flow time", "Makespan", "Mean waiting time", "Utilisation")
    more = ("Mean bounded slowdown", "Jobs run in parallel", "Decision time")
    assert [metric for metric in (*metrics, *more) if metric not in result.stdout] == []
    files = "jobs.csv origin.json report.html results.db summary.json timings.parquet trace.parquet"
    assert sorted(path.name for path in (here / "out").iterdir()) == files.split()


def test_seed_replications_and_schedulers_can_be_given_on_the_command_line(here: Path) -> None:
    options = ("--seed", "9", "--replications", "2", "--scheduler", "pjs")
    sil("run", tiny_experiment(here), "--out", "out", *options)
    summary = json.loads((here / "out" / "summary.json").read_text())
    assert (summary["seed"], summary["replications"], summary["baseline"]) == (9, 2, "pjs")
    assert pl.read_csv(here / "out" / "jobs.csv").select("replication", "scheduler").unique().height == 2


def test_a_grid_is_printed_as_a_table_with_the_change_from_the_first_scheduler(here: Path) -> None:
    path = tiny_experiment(here, '[grid]\n"workload.jobs" = [2, 4]')
    result = succeeded("run", path, "--out", "out", "--metric", "makespan")
    assert "Makespan (s), and change relative to mct" in " ".join(result.stdout.split())


def test_the_summary_has_means_half_widths_and_paired_differences(here: Path) -> None:
    sil("run", tiny_experiment(here), "--out", "out")
    summary = json.loads((here / "out" / "summary.json").read_text())
    (point,) = summary["points"]
    jobs = pl.read_csv(here / "out" / "jobs.csv")
    totals = pl.col("turnaround_time").sum()
    by_run = jobs.group_by("scheduler", "replication").agg(totals).sort("replication")
    sums = {name: by_run.filter(scheduler=name)["turnaround_time"].to_numpy() for name in ("mct", "sjs")}
    cell = point["schedulers"]["sjs"]["sum_job_times"]
    assert cell["value"]["mean"] == pytest.approx(sums["sjs"].mean())
    assert cell["difference"]["mean"] == pytest.approx((sums["sjs"] - sums["mct"]).mean())
    assert "difference" not in point["schedulers"]["mct"]["sum_job_times"]


@pytest.mark.reads_report
def test_report_rebuilds_the_same_files_from_the_trace(here: Path) -> None:
    sil("run", tiny_experiment(here), "--out", "out")
    derived = ("jobs.csv", "summary.json", "report.html")
    before = {name: (here / "out" / name).read_bytes() for name in derived}
    for name in derived:
        (here / "out" / name).unlink()
    succeeded("report", "out")
    assert {name: (here / "out" / name).read_bytes() for name in derived} == before


def test_a_faulty_scheduler_exits_with_1_and_the_others_have_results(here: Path) -> None:
    path = tiny_experiment(here, schedulers='["mct", "tests.faulty:ForgetsAJob"]')
    result = sil("run", path, "--trust", "--out", "out")
    assert result.exit_code == 1
    assert "no-job-forgotten" in result.stderr
    assert "job 11" in result.stderr
    assert "at 0 s" in result.stderr
    assert "Mean turnaround" in result.stdout


def test_schedulers_lists_every_scheduler_under_its_kind_on_one_screen() -> None:
    lines = sil("schedulers").stdout.splitlines()
    assert 24 <= len(lines) <= 45
    assert max(map(len, lines)) <= 100
    listed = [line.split()[0] for line in lines if line.startswith("  ")]
    assert listed == list(registry.names())
    assert [line for line in lines if line.endswith(":")] == [f"{kind}:" for kind in registry.BUILT_IN]


def test_schedulers_as_json_has_kind_source_class_and_summary() -> None:
    found = {entry["name"]: entry for entry in json.loads(sil("schedulers", "--json").stdout)}
    assert tuple(found) == registry.names()
    assert found["pjs"]["kind"] == "mapping"
    assert found["pjs"]["target"] == "scheduler.mapping.pjs:Pjs"
    assert found["easy"]["kind"] == "free-nodes"
    assert {entry["source"] for entry in found.values()} == {"built in"}


def test_experiments_lists_the_built_in_experiments() -> None:
    assert "light-to-heavy" in sil("experiments").stdout
    found = {entry["name"]: entry for entry in json.loads(sil("experiments", "--json").stdout)}
    assert found["light-to-heavy"]["file"].endswith("light-to-heavy.toml")
    assert found["light-to-heavy"]["description"]


def test_run_and_report_print_the_summary_as_json(here: Path) -> None:
    printed = sil("run", tiny_experiment(here), "--out", "out", "--json").stdout
    assert json.loads(printed) == json.loads((here / "out" / "summary.json").read_text())
    assert sil("report", "out", "--json").stdout == printed


def test_logs_and_replays_are_described_as_json(here: Path) -> None:
    succeeded("workload", "lublin", "log.swf", "--jobs", "50", "--processors", "16")
    shown = json.loads(sil("workload", "show", "log.swf", "--json").stdout)
    assert shown["jobs"] == 50
    assert shown["processors"]["maximum"] <= 16
    names = ("--scheduler", "fcfs", "--scheduler", "easy")
    replayed = json.loads(sil("replay", "log.swf", *names, "--out", "out", "--json").stdout)
    assert list(replayed) == ["fcfs", "easy"]
    assert replayed["easy"]["waiting_time_mean"] <= replayed["fcfs"]["waiting_time_mean"]
    assert json.loads(sil("report", "out", "--json").stdout) == replayed


def test_run_records_wait_reasons_on_request(here: Path) -> None:
    path = tiny_experiment(here)
    for arguments in ((), ("--reasons",)):
        out = f"out{len(arguments)}"
        succeeded("run", path, "--out", out, "--replications", "1", *arguments)
        answer = sil("why", out, "--job", "0", "--scheduler", "mct").stdout
        assert ("This trace has no wait reasons" in " ".join(answer.split())) is not bool(arguments)
    assert (here / "out0" / "jobs.csv").read_bytes() == (here / "out1" / "jobs.csv").read_bytes()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion_scripts_are_printed(shell: str) -> None:
    environment = {"_SIL_COMPLETE": f"{shell}_source", "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [Path(sys.executable).parent / "sil"], env=environment, capture_output=True, text=True, check=True
    )
    assert "_SIL_COMPLETE" in done.stdout


def test_commands_are_tab_completed() -> None:
    asked = {"_SIL_COMPLETE": "bash_complete", "COMP_WORDS": "sil sched", "COMP_CWORD": "1"}
    done = in_a_process(Path(sys.executable).parent / "sil", cwd=None, timeout=None, **asked)
    assert done.stdout.split() == ["plain,schedule", "plain,schedulers"]


def test_the_scheduler_package_of_another_distribution_is_reported(tmp_path: Path) -> None:
    other = tmp_path / "scheduler"
    other.mkdir()
    (other / "__init__.py").write_text('"""Somebody else\'s scheduler."""\n')
    metadata = tmp_path / "cron_like-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: cron-like\nVersion: 1.0\n")
    (metadata / "RECORD").write_text("scheduler/__init__.py,,\n")
    done = in_a_process(sys.executable, "-m", "sil", "--version", cwd=other, PYTHONPATH=str(tmp_path))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: the package `scheduler` in {other} belongs to cron-like")


def test_a_scheduler_package_overwritten_in_place_is_reported(tmp_path: Path) -> None:
    assert shadowed(Path(cli.__file__).parent.parent.parent) is None
    assert shadowed(tmp_path) is not None


def test_the_progress_bar_names_what_it_waits_for_until_the_first_result() -> None:
    bars = Progress(disable=True)
    bar, (task,) = TerminalProgress(bars, "mine"), bars.tasks
    assert task.description == "mine: reading"
    bar.progressed(0, 10)
    assert task.description == "mine: starting"
    bar.progressed(1, 10)
    assert (task.description, task.completed) == ("mine", 1)


# -- sil schedule ----------------------------------------------------------------------------------------


def matrix_file(folder: Path, kind: str) -> Path:
    etc_s = np.array([[4.0, 6.0], [3.0, 9.0], [5.0, 2.0], [8.0, 7.0]])
    path = folder / f"matrix.{kind}"
    csv = "\n".join(",".join(str(value) for value in row) for row in etc_s)
    hcsp = "4 2 0\n" + "\n".join(str(value) for value in etc_s.ravel())
    match kind:
        case "npy":
            np.save(path, etc_s)
        case "csv":
            path.write_text("m0,m1\n" + csv + "\n")
        case "csv.gz":
            path.write_bytes(gzip.compress(csv.encode()))
        case "hcsp":
            path.write_text(hcsp)
        case "0.gz":
            path.write_bytes(gzip.compress(hcsp.encode()))
    return path


@pytest.mark.parametrize("kind", ["npy", "csv", "csv.gz", "hcsp", "0.gz"])
def test_a_matrix_is_read_in_every_format(kind: str, here: Path) -> None:
    result = sil("schedule", matrix_file(here, kind), "--scheduler", "min_min", "--json")
    (row,) = json.loads(result.stdout)
    assert row.pop("decision_s") > 0
    assert row == {"scheduler": "min_min", "makespan_s": 9.0, "sum_completion_times_s": 21.0}


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("2 3\n5 6\n7 8\n9 1\n", [[2, 3], [5, 6], [7, 8], [9, 1]]),
        ("2.0e+00 3.0e+00\n5.0e+00 inf\n", [[2, 3], [5, np.inf]]),
        ("# m0 m1\n# 2 3 0\n 2 3 \n5\t6\n", [[2, 3], [5, 6]]),
        ("2\t3\n5\t6\n", [[2, 3], [5, 6]]),
        ("2;3\n5;6\n", [[2, 3], [5, 6]]),
        ("m0 m1\n2 3\n", [[2, 3]]),
        ('\n"m0","m1"\n\n2,3\n', [[2, 3]]),
        ("5\n6\n", [[5], [6]]),
        ("2 3 4\n1 2 3\n", [[2, 3, 4], [1, 2, 3]]),
        ("1,3,0\n1,2,3\n", [[1, 3, 0], [1, 2, 3]]),
        ("2 2 0\n1 2\n3 4\n", [[1, 2], [3, 4]]),
        ("1 2 0\n", [[1, 2, 0]]),
    ],
)
@pytest.mark.parametrize("name", ["matrix.csv", "matrix.txt"])
def test_the_content_of_a_file_tells_how_a_matrix_is_written(
    name: str, text: str, rows: list[list[float]], here: Path
) -> None:
    (here / name).write_text(text)
    assert read_matrix(here / name).tolist() == rows


def test_by_default_all_schedulers_map_the_matrix(here: Path) -> None:
    rows = json.loads(sil("schedule", matrix_file(here, "csv"), "--json").stdout)
    names = {"olb", "met", "mct", "min_min", "max_min", "sufferage", "sjs", "pjs"}
    assert names <= {row["scheduler"] for row in rows}
    assert "makespan (s)" in sil("schedule", matrix_file(here, "csv")).stdout


def test_the_mapping_is_written_with_job_machine_start_and_completion(here: Path) -> None:
    (here / "ready.txt").write_text("0 100\n")
    sil(
        "schedule", matrix_file(here, "csv"), "--scheduler", "mct", "--ready", "ready.txt", "--out", "map.csv"
    )
    table = pl.read_csv(here / "map.csv")
    assert table.columns == ["job", "machine", "start", "completion"]
    assert table.rows() == [(0, 0, 0.0, 4.0), (1, 0, 4.0, 7.0), (2, 0, 7.0, 12.0), (3, 0, 12.0, 20.0)]


def test_with_several_schedulers_the_mapping_names_each(here: Path) -> None:
    sil("schedule", matrix_file(here, "csv"), "--scheduler", "mct", "--scheduler", "olb", "--out", "map.csv")
    table = pl.read_csv(here / "map.csv")
    assert table.columns[0] == "scheduler"
    assert table["scheduler"].value_counts().sort("scheduler").rows() == [("mct", 4), ("olb", 4)]


def on_a_pair(here: Path, clusters: str) -> tuple[str | Path, ...]:
    """Two machines, and the time on both together in the third column."""
    (here / "pair.csv").write_text("10,12,4\n20,18,7\n5,6,5\n")
    (here / "clusters.txt").write_text(clusters)
    return "schedule", "pair.csv", "--clusters", "clusters.txt", "--scheduler", "pjs"


def test_a_matrix_may_have_clusters_after_its_machines(here: Path) -> None:
    succeeded(*on_a_pair(here, "0 1\n"), "--out", "map.csv")
    table = pl.read_csv(here / "map.csv")
    assert table.rows() == [(0, 2, 7.0, 11.0), (1, 2, 0.0, 7.0), (2, 0, 11.0, 16.0)]


@pytest.mark.parametrize(
    ("clusters", "sentence"),
    [
        ("", "clusters.txt: 0 clusters, 3 columns; expected a line per cluster"),
        ("0\n1\n0 1\n", "clusters.txt: 3 clusters, 3 columns; expected a line per cluster"),
        ("0,2\n", "clusters.txt, line 1: '2' is not a machine; expected numbers from 0 to 1"),
        ("0 -1\n", "clusters.txt, line 1: '-1' is not a machine"),
        ("\n0 x\n", "clusters.txt, line 2: 'x' is not a machine"),
        ("1 1\n", "clusters.txt, line 1: machine 1 occurs twice in the cluster; leave one out"),
    ],
)
def test_clusters_that_cannot_be_used_are_rejected_with_their_line(
    clusters: str, sentence: str, here: Path
) -> None:
    _, matrix, _, file, *_ = on_a_pair(here, clusters)
    with pytest.raises(InvalidFile, match=f"^{re.escape(sentence)}"):
        read_problem(Path(matrix), clusters=Path(file))


def test_a_limit_that_is_not_finite_is_refused(here: Path) -> None:
    result = sil("replay", "log.swf", "--decision-limit", "inf")
    assert (result.exit_code, result.output) == (
        2,
        "Error: --decision-limit is inf; expected a finite number\n",
    )


def test_the_decision_limit_of_a_mapping_can_be_set(here: Path) -> None:
    names = ("--scheduler", "tests.faulty:NeverReturns", "--decision-limit", "0.1")
    result = sil("schedule", matrix_file(here, "csv"), *names)
    assert result.exit_code == 1
    assert "returns-in-time" in result.stderr


def test_a_faulty_scheduler_on_a_matrix_is_reported_and_the_others_have_results(here: Path) -> None:
    names = ("--scheduler", "tests.faulty:DoubleBooks", "--scheduler", "mct", "--json")
    result = sil("schedule", matrix_file(here, "csv"), *names)
    assert result.exit_code == 1
    assert [row["scheduler"] for row in json.loads(result.stdout)] == ["mct"]
    assert "no-double-booking" in result.stderr


BAD_MATRICES = {
    "nan.csv": ("1,2\nnan,3\n", "line 2: 'nan' is not a number"),
    "negative.csv": ("1,-2\n", "job 0 on machine 1 is -2"),
    "nowhere.csv": ("1,2\ninf,inf\n", "job 1 cannot run on any machine"),
    "ragged.csv": ("1,2\n3\n", "line 2: 1 value where the first job has 2"),
    "jobs.csv": ("job,m1,m2\n7,10,20\n9,30,40\n", "the first column, 'job', numbers the rows"),
    "numbered.csv": ("name,m1,m2\n1,10,20\n2,30,40\n3,1,2\n", "the first column, 'name', numbers the rows"),
    "word.csv": ("1,2\n3,x\n", "line 2: 'x' is not a number"),
    "empty.csv": ("", "the file has no jobs"),
    "empty.txt": ("# nothing\n\n", "the file has no jobs"),
    "short.txt": ("2 2 0\n1\n2\n3\n", "line 1 announces 2 x 2 values, and there are 3"),
    "word.txt": ("1 2 0\n1\nx\n", "line 3: 'x' is not a number"),
    "no-header.txt": ("2 3\n1\n2\n3\n4\n5\n6\n", "line 2: 1 value where the first job has 2; expected"),
    "both.txt": (
        "2 3 0\n1 2 3\n4 5 6\n",
        "as 2 jobs on 3 machines after a header of the HCSP format, or as 3",
    ),
    "both-tabs.txt": ("1\t3\t0\n1\t2\t3\n", "the file can be read in two ways: as 1 job on 3 machines"),
    "first-empty.csv": ("10,\n30,5\n", "line 1: '' is not a number"),
    "first-nan.csv": ("nan,nan\n30,5\n", "line 1: 'nan' is not a number"),
    "first-slip.csv": ("1O,20\n30,5\n", "line 1: '1O' is not a number"),
    "first-tab.txt": ("10\t\n30\t5\n", "line 1: '' is not a number"),
    "second-empty.csv": ("m0,m1\n10,\n", "line 2: '' is not a number"),
    "blank.csv": (",\n1,2\n", "line 1: '' is not a number"),
    "index.csv": (",m0,m1\n0,10,20\n1,5,6\n", "line 1: the first cell of the header is empty, as above a"),
    "unnamed-index.csv": ("m0,m1\n0,10,20\n", "line 2: 3 values where the header has 2"),
    "names.csv": ("m0,m1\n", "the file has no jobs"),
    "fake.npy": ("nothing", "not a NumPy file"),
    "plain.csv.gz": ("1,2\n3,x\n", "line 2: 'x' is not a number"),
}


@pytest.mark.parametrize("name", BAD_MATRICES)
def test_an_unusable_matrix_is_rejected_with_one_sentence(name: str, here: Path) -> None:
    text, expected = BAD_MATRICES[name]
    (here / name).write_text(text)
    with pytest.raises(InvalidFile, match=f"{re.escape(name)}.*{re.escape(expected)}"):
        read_problem(here / name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1", "1 ready time for a matrix of 2"), ("1 x", "'x'"), ("1 -2", "machine 1 is -2")],
)
def test_mismatched_ready_times_are_rejected(text: str, expected: str, here: Path) -> None:
    (here / "ready.txt").write_text(text)
    with pytest.raises(InvalidFile, match=expected):
        read_problem(matrix_file(here, "csv"), here / "ready.txt")
    if text == "1":
        assert expected in the_sentence(sil("schedule", matrix_file(here, "csv"), "--ready", "ready.txt"))


# -- bad input of experiments ----------------------------------------------------------------------------


def test_an_error_in_a_site_file_is_reported_with_its_line(here: Path) -> None:
    path = tiny_experiment(here, site_text=TINY_SITE.replace("fast = 10,", "fast = -10,"))
    sentence = the_sentence(sil("run", path, "--out", "out"))
    assert "tiny.toml, line 13: job_classes[0].sequential_s.fast = -10" in sentence


def test_an_unknown_scheduler_is_reported_with_the_nearest_known_one(here: Path) -> None:
    sentence = the_sentence(sil("run", tiny_experiment(here), "--scheduler", "pjz", "--out", "out"))
    assert ", line " not in sentence, "the file does not name it"
    assert "unknown scheduler 'pjz'; did you mean 'pjs'?" in sentence


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nowhere:Mine", "importing module 'nowhere' failed with ModuleNotFoundError"),
        ("broken_module:Mine", "importing module 'broken_module' failed with ZeroDivisionError"),
        ("exiting_module:Mine", "importing module 'exiting_module' failed with SystemExit"),
        ("good_module:Mine", "has no 'Mine'"),
        ("good_module:number", "'number' is not a class"),
        ("good_module:NoScheduler", "has no method schedule(problem)"),
        ("good_module:Demanding", "its constructor must work without arguments"),
    ],
)
def test_a_scheduler_that_cannot_be_loaded_is_reported_with_the_reason(
    name: str, expected: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(here)
    (here / "broken_module.py").write_text("1 / 0")
    (here / "exiting_module.py").write_text("raise SystemExit(4)")
    classes = "class NoScheduler: pass\nclass Demanding:\n    def __init__(self, alpha): pass\n"
    (here / "good_module.py").write_text("number = 3\n" + classes)
    with pytest.raises(SchedulerNotLoaded, match=re.escape(expected)):
        resolve(name)
    if name == "broken_module:Mine":
        scheduler = ("--scheduler", name)
        assert expected in the_sentence(sil("run", tiny_experiment(here), *scheduler, "--out", "out"))
        assert expected in the_sentence(sil("schedule", matrix_file(here, "csv"), *scheduler))


def test_an_unwritable_output_folder_is_reported(here: Path) -> None:
    (here / "file").write_text("in the way")
    assert "cannot be written" in the_sentence(sil("run", tiny_experiment(here), "--out", "file/out"))
    assert "cannot be written" in the_sentence(
        sil("schedule", matrix_file(here, "csv"), "--scheduler", "mct", "--out", "file/map.csv")
    )


def test_an_unknown_experiment_or_site_is_reported_with_the_built_in_ones(here: Path) -> None:
    assert "light-to-heavy" in the_sentence(sil("run", "light-to-havey"))
    sentence = the_sentence(sil("run", tiny_experiment(here, site='"nowhere.toml"'), "--out", "out"))
    assert "nowhere.toml" in sentence
    assert "hcs-2001" in sentence


def test_an_unknown_metric_is_reported_with_the_known_ones(here: Path) -> None:
    sentence = the_sentence(sil("run", tiny_experiment(here), "--metric", "makspan"))
    assert "makespan" in sentence


def test_a_folder_without_a_trace_is_reported(here: Path) -> None:
    assert "nowhere is no results folder" in the_sentence(sil("report", "nowhere"))
