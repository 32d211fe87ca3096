from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler.messages import printable
from sil.workload import swf
from sil.workload.job_log import JobLog
from sil.workload.settings import Overrun, Rules, TooLarge
from sil.workload.swf import read_swf
from site_db.files.input_errors import InvalidFile
from site_db.jobs.swf import FIELDS
from tests.examples import up_to
from tests.sil.workload.swf_files import HEADER, assert_sound, job

CORPUS = sorted((Path(__file__).parent / "corpus").iterdir())
TOKENS = [
    "-1",
    "0",
    "1",
    "0.5",
    "-0.0",
    "nan",
    "inf",
    "1e15",
    "1e16",
    "1e400",
    "5e-324",
    "x",
    "",
    ";",
    "-",
    "٣",
    "1,5",
]

rules = st.builds(Rules, st.booleans(), st.sampled_from(Overrun), st.sampled_from(TooLarge))
sizes = st.sampled_from([None, 1, 3, 100_000_000])


@st.composite
def rows(draw: st.DrawFn) -> str:
    numbers = st.one_of(st.integers(-2, 12), st.floats(-2, 200), st.sampled_from([1e15, 1e16, 2**53]))
    changed = draw(st.dictionaries(st.sampled_from(FIELDS), numbers, max_size=6))
    return job(**changed)


@st.composite
def damaged_logs(draw: st.DrawFn) -> bytes:
    """A log that was valid before bytes were flipped, lines cut, doubled or moved, and tokens replaced."""
    lines = [*HEADER.splitlines(), *draw(st.lists(rows(), min_size=1, max_size=6))]
    for _ in range(draw(st.integers(0, 4))):
        k = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(["cut", "double", "move", "token", "join"])):
            case "cut":
                lines[k] = lines[k][: draw(st.integers(0, len(lines[k])))]
            case "double":
                lines.insert(k, lines[k])
            case "move":
                lines.append(lines.pop(k))
            case "token":
                tokens = lines[k].split(" ")
                tokens[draw(st.integers(0, len(tokens) - 1))] = draw(st.sampled_from(TOKENS))
                lines[k] = " ".join(tokens)
            case "join":
                lines[k] += draw(st.sampled_from(["\r", "\t", "\x00", "\u2028", " ;"]))
    data = bytearray(("\n".join(lines) + "\n").encode())
    for _ in range(draw(st.integers(0, 3))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)))]) if draw(st.booleans()) else bytes(data)


def read_or_refused(path: Path, chosen: Rules, processors: int | None) -> JobLog | str:
    log = what_is_read(path, chosen, processors)
    if isinstance(log, str):
        assert log.startswith(str(path))
        assert printable(log) == log
    else:
        assert_sound(log)
        # What is not modelled needs no repair.
        assert not chosen.strict or all("preceding job" in note for note in log.notes)
        assert processors in (None, log.processors)
    return log


def what_is_read(path: Path, chosen: Rules, processors: int | None) -> JobLog | str:
    """The log, or why it is refused."""
    try:
        return read_swf(path, chosen, processors)
    except InvalidFile as error:
        return str(error)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
@pytest.mark.parametrize("processors", [None, 3])
@pytest.mark.parametrize("overrun", Overrun)
@pytest.mark.parametrize("strict", [False, True])
def test_a_malformed_file_is_read_or_rejected_with_its_name(
    path: Path, processors: int | None, overrun: Overrun, strict: bool
) -> None:
    read_or_refused(path, Rules(strict, overrun), processors)


def test_the_corpus_exists() -> None:
    assert len(CORPUS) >= 12


@st.composite
def spaced(draw: st.DrawFn, lines: list[bytes]) -> bytes:
    """The lines, some with other blanks, and with blank lines and comments between them."""
    blanks = st.sampled_from([b" ", b" ", b"  ", b"\t"])
    found = []
    for line in lines:
        found += draw(st.lists(st.sampled_from([b"", b"  ", b"; Note: 7 8", b" ;"]), max_size=1))
        found.append(draw(st.sampled_from([b"", b" "])) + draw(blanks).join(line.split(b" ")))
    return b"\n".join(found) + draw(st.sampled_from([b"", b"\n", b" \n"]))


@settings(deadline=None, max_examples=up_to(600))
@given(
    data=damaged_logs().flatmap(lambda data: spaced(data.split(b"\n"))) | st.binary(max_size=400),
    is_packed=st.booleans(),
    chosen=rules,
    processors=sizes,
)
@example(data=b"\x1f\x8b", is_packed=False, chosen=Rules(), processors=None)
def test_damaged_logs_are_refused_with_their_name_or_read_as_by_the_careful_reader(
    data: bytes,
    is_packed: bool,
    chosen: Rules,
    processors: int | None,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.getbasetemp() / "log.swf"
    path.write_bytes(gzip.compress(data, mtime=0) if is_packed else data)
    fast = read_or_refused(path, chosen, processors)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(swf, "PART", 200)
        in_parts = what_is_read(path, chosen, processors)
        patch.setattr(swf, "_plain_rows", lambda *_: None)
        careful = what_is_read(path, chosen, processors)
    for other in (fast, in_parts):
        if isinstance(other, JobLog) and isinstance(careful, JobLog):
            assert_equal_logs(other, careful)
        else:
            assert other == careful


def assert_equal_logs(one: JobLog, other: JobLog) -> None:
    assert one.jobs.equals(other.jobs)
    for name in ("name", "processors", "header", "notes", "cut"):
        assert getattr(one, name) == getattr(other, name)


LINES = [job(job=k, submit=10 * k) for k in range(1, 40)]
DIFFERENT = {
    "clean": (HEADER, LINES),
    "at one moment": (HEADER, [job(job=k, submit=5) for k in range(1, 40)]),
    "a repair": (HEADER, [*LINES[:30], job(job=31, submit=310, run=0), *LINES[31:]]),
    "a line too many": (HEADER, [*LINES, job(job=17, submit=500)]),
    "out of order": (HEADER, LINES[::-1]),
    "out of order between parts": (HEADER, [*LINES[20:], *LINES[:20]]),
    "falling numbers": (HEADER, [job(job=50 - k, submit=10 * k) for k in range(1, 40)]),
    "falling numbers at one moment": (HEADER, [job(job=50 - k, submit=5) for k in range(1, 40)]),
    "too large": (HEADER, [*LINES[:30], job(job=31, submit=310, requested=9), *LINES[31:]]),
    "no size": ("; Version: 2.2\n", LINES),
    "a late size": ("; Version: 2.2\n", [*LINES, "; MaxProcs: 8"]),
    "another size": ("; Version: 2.2\n; MaxNodes: 8\n", [*LINES, "; MaxProcs: 6"]),
    "two sizes": (HEADER, [*LINES, "; MaxProcs: 6"]),
    "a comment": (HEADER, [*LINES, "; Note: of another kind"]),
    "many comments": (HEADER, [*["; Note: of another kind"] * 30, *LINES]),
    "no number": (HEADER, [*LINES, job(job=50, run="x")]),
}


UNORDERED = ("falling numbers",)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("what", DIFFERENT)
@pytest.mark.parametrize("ending", [".swf", ".swf.gz"])
def test_a_log_that_is_read_in_parts_is_the_same(
    what: str, strict: bool, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header, lines = DIFFERENT[what]
    path = tmp_path / f"log{ending}"
    data = "\n".join([header, *lines]).encode()
    path.write_bytes(gzip.compress(data) if ending == ".swf.gz" else data)
    whole = what_is_read(path, Rules(strict), None)
    monkeypatch.setattr(swf, "PART", 500)
    monkeypatch.setattr("sil.workload.job_log.PART", 7)
    in_parts = what_is_read(path, Rules(strict), None)
    if not isinstance(whole, JobLog):
        assert in_parts == whole
        return
    assert isinstance(in_parts, JobLog)
    in_parts.pages.forget()
    assert_equal_logs(in_parts, whole)
    assert (in_parts.load, in_parts.digest()) == (whole.load, whole.digest())
    assert in_parts.numbers_rise == whole.numbers_rise == (what not in UNORDERED)
    there = pickle.loads(pickle.dumps(in_parts))
    there.pages.forget()
    assert_equal_logs(there, whole)


@given(st.from_regex(r"-?[0-9]{1,16}(\.[0-9]{1,16})?", fullmatch=True))
def test_the_fast_reader_rounds_decimals_as_python_does_or_leaves_them_to_the_careful_one(text: str) -> None:
    rows = swf._plain_rows(f"; a comment\n\n{job(run=text)}\n".encode())
    assert rows is None or rows.select("line", "run").row(0) == (3, float(text))
    if len(text) < 12 and float(text):
        assert rows is not None
