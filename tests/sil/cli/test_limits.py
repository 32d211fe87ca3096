"""Inputs that would take more memory than there is are refused, with an estimate, before they take it."""

from __future__ import annotations

import gzip
import resource
from pathlib import Path

import numpy as np
import pytest

from scheduler import UserError
from sil.experiment.matrix import read_matrix
from sil.experiment.overhead import random_problem
from sil.site.logs import read_log
from sil.workload.settings import Rules
from sil.workload.tables import read_nodes
from site_db.files import arrays, toml_file
from site_db.files.access import VARIABLE, amount, open_lines
from site_db.files.input_errors import InvalidFile
from site_db.jobs import recording
from site_db.jobs.logged import Tally
from site_db.jobs.sacct.reader import read_sacct
from site_db.site_file.machine_names import expand
from site_db.slurm.output import BadTres, memory_mib
from site_db.slurm_conf import read_cluster
from tests.builders import TINY_SITE
from tests.commands import sil, the_sentence

pytestmark = pytest.mark.usefixtures("in_this_process", "without_reports")
MB = 10**6


@pytest.fixture
def here(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, "1")
    return here


def sacct(path: Path) -> None:
    with open_lines(path) as lines:
        list(read_sacct(lines, path, Tally()))


READERS = {
    "log.swf.gz": lambda path: read_log(path, Rules(), None),
    "log.json.gz": lambda path: read_log(path, Rules(), None),
    "matrix.csv.gz": read_matrix,
    "matrix.txt.gz": read_matrix,
    "matrix.npy.gz": read_matrix,
    "site.toml.gz": lambda path: toml_file.read(path, toml_file.Table),
    "runs.csv.gz": lambda path: recording.read(path, 2e9),
    "slurm.conf.gz": read_cluster,
    "sacct.txt.gz": sacct,
    "nodes.csv.gz": read_nodes,
}


@pytest.mark.parametrize("content", [b"0", b"1 0\n", b"\n"], ids=["one line", "lines", "blank lines"])
@pytest.mark.parametrize("name", READERS)
def test_a_file_that_grows_when_it_is_decompressed_is_refused(name: str, content: bytes, here: Path) -> None:
    """A file of 5 MB became 5 GB, and took 3.3 GB of memory before that failed."""
    path = here / name
    path.write_bytes(gzip.compress(content * (2 * MB // len(content)), compresslevel=1))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InvalidFile) as caught:
        READERS[name](path)
    assert str(caught.value).startswith(str(path))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "kilobytes"


def test_the_limit_is_that_of_the_environment(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "matrix.csv").write_text("1,2\n" * 10_000)
    with pytest.raises(InvalidFile, match=f"this takes .* of memory.*may take 1 MB.*{VARIABLE}"):
        read_matrix(here / "matrix.csv")
    monkeypatch.setenv(VARIABLE, "1000")
    assert read_matrix(here / "matrix.csv").shape == (10_000, 2)


@pytest.mark.parametrize("text", ["0", "-5", "much", "1e3", "٣"])
def test_a_limit_that_is_no_number_is_refused(text: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)
    (here / "m.csv").write_text("1\n")
    with pytest.raises(UserError, match="expected a whole number of megabytes above 0"):
        read_matrix(here / "m.csv")


@pytest.mark.parametrize(
    ("n_bytes", "text"), [(5e5, "0.5 MB"), (2.5e9, "2.5 GB"), (8e13, "80 TB"), (3e18, "3,000 PB")]
)
def test_an_estimate_has_a_readable_unit(n_bytes: float, text: str) -> None:
    assert amount(n_bytes) == text


HEADER = "{{'descr': '<f8', 'fortran_order': False, 'shape': {}}}"


def npy_file(path: Path, header: str, data: bytes = b"") -> Path:
    head = header.encode().ljust(117) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + data)
    return path


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortr", "the header of this NumPy file is damaged"),
        (b"PK\x03\x04", "the file is in the format zip"),
        (b"\x93NUMPY\x09\x00v\x00", "this is not a NumPy file"),
        (b"", "this is not a NumPy file"),
    ],
)
def test_a_damaged_numpy_file_is_refused(content: bytes, message: str, here: Path) -> None:
    (here / "a.npy").write_bytes(content)
    assert message in the_sentence(sil("schedule", "a.npy"))


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (HEADER.format("(1000000, 10000000)"), "this takes 80 TB of memory"),
        (HEADER.format("(1000, 1000)").replace("<f8", "|i1"), "this takes 8 MB of memory"),
        (HEADER.format("(100, 100)"), "needs 80,000 bytes, and the file has 0"),
        (HEADER.format("(-1, 2)"), "the header of this NumPy file is damaged"),
        ("{'descr': '<f8', 'fortran_order': False}", "the header of this NumPy file is damaged"),
        (HEADER.format("(1, 1)").replace("<f8", "|O"), "its values are of type |O; expected numbers"),
        ("[" * 100, "the header of this NumPy file is damaged"),
        ("9" * 100, "the header of this NumPy file is damaged"),
    ],
)
def test_a_numpy_header_is_checked_before_there_is_memory_for_the_numbers(
    header: str, message: str, here: Path
) -> None:
    npy_file(here / "a.npy", header)
    assert message in the_sentence(sil("schedule", "a.npy"))


@pytest.mark.parametrize(
    "values",
    [
        np.array([[1 + 2j]]),
        np.array([["2020-01-01"]], dtype="M8[s]"),
        np.array([[5]], dtype="m8[s]"),
        np.array([["1"]]),
        np.array([[True]]),
        np.array([[(1.0, 2.0)]], dtype="f8,f8"),
    ],
    ids=lambda values: values.dtype.str,
)
def test_values_that_are_no_numbers_are_refused(values: np.ndarray, here: Path) -> None:
    """Complex numbers lost their second part, and dates counted as seconds."""
    np.save(here / "a.npy", values)
    assert "its values are of type" in the_sentence(sil("schedule", "a.npy"))


@pytest.mark.parametrize(
    "values", [np.arange(1, 7, dtype=kind).reshape(2, 3) for kind in ("<f4", ">f8", "u1", "i8")]
)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("name", ["a.npy", "a.npy.gz", "matrix"])
def test_numbers_of_any_width_and_order_are_read(
    values: np.ndarray, order: str, name: str, here: Path
) -> None:
    np.save(here / "a.npy", np.asarray(values, order=order))  # type: ignore[call-overload]
    if name.endswith(".gz"):
        (here / name).write_bytes(gzip.compress((here / "a.npy").read_bytes()))
    if name == "matrix":
        (here / "a.npy").rename(here / name)
    assert arrays.is_npy(here / name)
    found = arrays.read_numbers(here / name)
    assert found.dtype == np.float64
    assert found.tolist() == values.tolist()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("m.csv", "1,2\n1,1_0\n", "line 2: '1_0' is not a number"),
        ("m.csv", "1,2\n1,²\n", "line 2: '²' is not a number"),
        ("m.csv", "1,2\n1,٣\n", "line 2: '٣' is not a number"),
        ("m.csv", f"1,2\n1,{'9' * 5_000}\n", "is not a number, or too great for one"),
        ("m.csv", "1,2\n1,1e400\n", "line 2: '1e400' is not a number, or too great for one"),
        ("m.txt", "² 2 0\n1\n1\n1\n1\n", "line 1: '²' is not a number"),
        ("m.txt", f"{'9' * 5_000} 2 0\n1\n", "is not a number, or too great for one"),
        ("m.txt", f"{'9' * 300} 2 0\n1\n", "and there are 1"),
        ("m.txt", "1 2 0\n1_0\n1\n", "line 2: '1_0' is not a number"),
    ],
)
def test_odd_digits_are_refused(name: str, text: str, message: str, here: Path) -> None:
    (here / name).write_text(text)
    result = sil("schedule", name, "--scheduler", "mct")
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert message in result.output


def test_a_number_of_many_digits_is_looked_at_once(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time grew with the square of the digits: minutes for this one."""
    monkeypatch.delenv(VARIABLE)
    (here / "m.csv").write_text("1,2\n1," + "9" * 300_000 + "x\n")
    assert "line 2" in the_sentence(sil("schedule", "m.csv"))


def test_columns_with_underscores_are_refused_in_a_table_of_runs(here: Path) -> None:
    (here / "runs.csv").write_text("job_class,resource,started_unix_s,run_time_s\nshort,f1,0,1_0\n")
    with pytest.raises(InvalidFile, match="line 2: run_time_s: '1_0' is not a number"):
        recording.read(here / "runs.csv", 2e9)


def test_more_memory_than_any_number_is_no_amount_of_memory() -> None:
    """The infinity that came of it ended the reading of accounting in a traceback."""
    with pytest.raises(BadTres, match="is not an amount of memory"):
        memory_mib("9" * 400 + "G")


def test_a_key_of_many_parts_takes_no_memory(here: Path) -> None:
    """With 200,000 parts, the parser of Python's library would take 160 GB."""
    (here / "deep.toml").write_text("x = 1\na" + ".a" * 2_000 + " = 1\n")
    with pytest.raises(InvalidFile, match="line 2: a key has more than 100 parts"):
        toml_file.read(here / "deep.toml", toml_file.Table)


def test_a_list_of_ranges_stands_for_no_more_names_than_any_site_has() -> None:
    with pytest.raises(ValueError, match="has more than 1,000,000 names"):
        expand([f"n[1-99999]{k}" for k in range(11)])


def test_a_log_far_in_the_future_has_few_weeks(here: Path) -> None:
    """The weeks between two jobs 10^15 s apart were looked through one by one."""
    from sil.workload.slices import weeks_of

    rows = "".join(f"{k} {t} 1 10 1 -1 -1 1 20 -1 1 1 1 1 1 1 -1 -1\n" for k, t in ((1, 0), (2, 10**14)))
    (here / "log.swf").write_text("; MaxProcs: 4\n" + rows)
    assert len(weeks_of(read_log(here / "log.swf", Rules(), None))) == 1


MANY = "1,000,000,000,000"
AXES = "".join(f'"{key}" = {list(range(1, 90))}\n' for key in ("seed", "workload.jobs", *"abcdefg"))
EXPERIMENT = """name = "much"
site = "tiny.toml"
schedulers = ["mct"]
"""


@pytest.fixture
def tiny(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(VARIABLE)
    (here / "tiny.toml").write_text(TINY_SITE)
    return here


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("replications = 1000000000000\n[workload]\njobs = 3\n", f"{MANY} runs (points x"),
        ("[workload]\njobs = 1000000000000\n", f"{MANY} jobs in a run: this takes 3 PB"),
        (
            '[workload]\njobs = 3\n[grid]\n"workload.jobs" = [1, 1000000000000]\n',
            f"{MANY} jobs in a run: this takes 3 PB",
        ),
        (f"[workload]\njobs = 3\n[grid]\n{AXES}", "runs (points x replications x schedulers): this takes"),
        ("replications = 10000000000000000\n[workload]\njobs = 3\n", "expected a number less than"),
    ],
)
def test_an_experiment_of_impossible_size_is_refused_with_an_estimate(
    text: str, message: str, tiny: Path
) -> None:
    (tiny / "e.toml").write_text(EXPERIMENT + text)
    assert message in the_sentence(sil("run", "e.toml"))


def test_an_impossible_number_of_replications_as_an_option_is_refused_with_an_estimate(tiny: Path) -> None:
    (tiny / "e.toml").write_text(EXPERIMENT + "[workload]\njobs = 3\n")
    assert "this takes 2 PB of memory" in the_sentence(sil("run", "e.toml", "--replications", str(10**12)))


def test_a_generated_log_of_impossible_size_is_refused_with_an_estimate(tiny: Path) -> None:
    arguments = ("workload", "lublin", "log.swf", "--jobs", str(10**12))
    assert "the model's 1,000,000,000,000 jobs: this takes 500 TB" in the_sentence(sil(*arguments))


def test_random_problems_of_impossible_size_are_refused_with_an_estimate() -> None:
    with pytest.raises(InvalidFile, match="10,000,000 jobs on 10,000,000 machines: this takes 4 PB"):
        random_problem(10**7, 10**7, share=0, table=0)


def test_a_site_with_impossible_numbers_of_slots_is_refused_with_an_estimate(tiny: Path) -> None:
    (tiny / "tiny.toml").write_text(TINY_SITE.replace("{ names", "{ slots = 2000000000, names", 1))
    (tiny / "e.toml").write_text(EXPERIMENT + "[workload]\njobs = 3\n")
    assert "slots of the site 'tiny': this takes" in the_sentence(sil("run", "e.toml"))
