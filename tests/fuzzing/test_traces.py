"""Traces that can be read and whose facts are mutated: reported, explained, or refused with a sentence."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sil.trace.facts import TRACE, write_trace
from sil.trace.reading import read_trace
from tests.builders import tiny_experiment
from tests.commands import sil, succeeded

pytestmark = pytest.mark.usefixtures("in_this_process", "without_figures")

SHORT, LONG = 6, 1_000
ODD = {
    pl.Float64: (np.nan, np.inf, -1.0, 1e300),
    pl.Int32: (-1, 0, 2**31 - 1),
    pl.Int64: (-1, 0, 2**62),
    pl.String: ("", "x", "\x1b[31m", "[]"),
}


def mutated(facts: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """One to three facts are missing, twice there, or have the cell of another fact, an odd one, or none."""
    for _ in range(rng.integers(1, 4)):
        here, there = (int(k) for k in rng.integers(len(facts), size=2))
        column = facts[name := str(rng.choice(facts.columns))]
        cells: list[object] = [None, column[there], *ODD.get(column.dtype.base_type(), ())]
        match rng.integers(4):
            case 0:
                facts = pl.concat([facts[:here], facts[here + 1 :]])
            case 1:
                facts = pl.concat([facts[: here + 1], facts[here:]])
            case _:
                values = column.to_list()
                values[here] = cells[rng.integers(len(cells))]
                facts = facts.with_columns(pl.Series(name, values, column.dtype))
    return facts


@pytest.mark.parametrize(
    "numbers", [range(SHORT), pytest.param(range(SHORT, LONG), marks=pytest.mark.long)], ids=["short", "long"]
)
def test_mutated_traces_are_reported_or_refused(numbers: range, tmp_path: Path) -> None:
    path = tiny_experiment(tmp_path, jobs="6", replications="2")
    succeeded("run", path, "--out", tmp_path / "good")
    facts, description = read_trace(tmp_path / "good" / TRACE)
    for number in numbers:
        out = tmp_path / "damaged"
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(tmp_path / "good", out)
        write_trace(out / TRACE, mutated(facts, np.random.default_rng(number)), description)
        for command in (["report", out], ["why", out, "--job", "1", "--scheduler", "mct"]):
            done = sil(*command)
            assert done.exception is None or isinstance(done.exception, SystemExit), (number, command)
