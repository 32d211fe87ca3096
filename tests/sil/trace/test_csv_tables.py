"""Texts of CSV files are no formulas in a spreadsheet, and are read back as they were."""

from __future__ import annotations

import csv
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sil.trace.stream import read_csv, write_csv
from site_db.files.formats import escaped, unescaped

FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\t=1", "\r=1", "'=1", "'", "''", "＝1"]
OTHERS = ["", "a=b", "0-3 5", "-5.8", "+191.2 %", "-1e-3", "-", "a'b", '"quoted", with a comma', "x\ny"]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_text_that_begins_like_a_formula_is_written_with_an_apostrophe(text: str, tmp_path: Path) -> None:
    write_csv(pl.DataFrame({"name": [text], "n": [-1]}), tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file))[1] == [f"'{text}", "-1"]
    assert escaped(text) == f"'{text}"


@pytest.mark.parametrize("text", OTHERS)
def test_other_texts_are_written_as_they_are(text: str, tmp_path: Path) -> None:
    write_csv(pl.DataFrame({"name": [text]}), tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file))[1] == [text]
    assert escaped(text) == text


@given(
    texts=st.lists(
        st.one_of(st.text(st.characters(codec="utf-8", exclude_characters="\0")), st.sampled_from(FORMULAS))
    )
)
def test_texts_are_read_back(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    write_csv(pl.DataFrame({"n": range(len(texts)), "name": texts}, {"n": pl.Int64, "name": pl.String}), path)
    found = read_csv(path, {"n": pl.Int64, "name": pl.String})
    assert found["name"].to_list() == texts
    assert [unescaped(escaped(text)) for text in texts] == texts
