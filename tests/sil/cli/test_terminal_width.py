"""What commands print fits into the terminal, with whole words and whole numbers."""

from __future__ import annotations

import re

import pytest

from sil.cli import console
from sil.cli.replay import print_statistics
from sil.report.listing import Column, Listing, number, text

STATISTICS = {"waiting_time_mean": 1_234_567.8, "waiting_time_median": 1.0, "utilisation": 47.79}
NAMES = ("easy", "mine:ShortestFirst", "rigid(ordering=sjf, backfilling=easy)")
SENTENCE = "6 lines, the first is line 957: the run time is unknown, because of an accounting that lost it"


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.usefixtures("narrow")
def test_schedulers_are_rows_where_they_do_not_fit_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    print_statistics(dict.fromkeys(NAMES, STATISTICS), as_json=False)
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    rows = [line for line in printed.splitlines() if "1,234,567.8" in line]
    assert [name.split()[0] in row for name, row in zip(NAMES, rows, strict=True)] == [True] * 3
    left_out = r"too narrow for \d+ columns: Mean turnaround \(s\) to [\w ()]+\. --json has all of them\."
    assert re.search(left_out, " ".join(printed.split()))


@pytest.mark.usefixtures("narrow")
def test_text_is_wrapped_between_words_and_columns_that_do_not_fit_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    columns = [text("name"), text("meaning"), number("count"), text("file")]
    row = {"name": "a", "meaning": SENTENCE, "count": 123_456, "file": "/path" * 14}
    console.print_listings([Listing("rows", f"A title: {SENTENCE}", columns, [row])])
    console.print_note(SENTENCE)
    out, err = capsys.readouterr()
    assert max(map(len, (out + err).splitlines())) <= 80
    assert "for 1 column: file. --json" in out
    assert "123,456" in out
    assert set(SENTENCE.split()) <= set(out.split()) & set(err.split())


def test_lines_in_files_are_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    console.print_note(SENTENCE)
    assert capsys.readouterr().err == f"Note: {SENTENCE}\n"


@pytest.mark.usefixtures("narrow")
def test_paths_that_are_longer_than_a_line_can_be_copied(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_line("Results are in ", console.styled("/path" * 20, "bold"), ".")
    assert capsys.readouterr().out.splitlines() == ["Results are in", f"{'/path' * 20}."]


@pytest.mark.usefixtures("narrow")
def test_intervals_are_whole_and_names_stay(capsys: pytest.CaptureFixture[str]) -> None:
    """An interval has blanks, at which it must not be cut."""
    headings = [f"difference {k} to the recommended option (s)" for k in range(9)]
    row = {
        "option": "upgrade of the old machines + 4 x 8 new ones",
        **dict.fromkeys(headings, "4.65 [3.81, 5.72]"),
    }
    columns = [
        text("option"),
        *(Column(name, lambda _: "4.65 [3.81, 5.72]", is_number=True) for name in headings),
    ]
    console.print_listings([Listing("rows", "Options", columns, [row])])
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert printed.count("4.65 [3.81, 5.72]") >= 2
    assert set(row["option"].split()) <= set(printed.split())
    assert "…" not in printed
