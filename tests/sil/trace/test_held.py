"""What runs hold, as columns of a trace."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model import Share
from scheduler.node_request import Gpus, Request
from scheduler.node_set import NodeSet
from sil.trace.facts import Fact
from sil.trace.held import MACHINES_AS_TEXT, column, intervals_in, lists, machines_of, shares_in
from sil.trace.reading import NoTrace, read_facts
from tests.builders import trace

gpus = st.lists(st.integers(0, 62), max_size=8, unique=True).map(sorted).map(tuple)
shares = st.lists(st.builds(Share, st.integers(0, 10_000), st.integers(1, 128), gpus)).map(tuple)
nodes = st.sets(st.integers(0, 30))


@given(st.lists(st.none() | shares))
def test_shares_are_read_as_they_were_written(cells: list[tuple[Share, ...] | None]) -> None:
    assert shares_in(column("shares", cells)) == cells


@given(st.lists(nodes))
def test_the_intervals_of_nodes_are_those_of_node_sets_and_have_their_text(sets: list[set[int]]) -> None:
    given_nodes = np.array([node for each in sets for node in each], np.int64)
    ends, numbers = machines_of(np.cumsum([0, *map(len, sets)]), given_nodes)
    expected = [NodeSet.of(each) for each in sets]
    machines = column("machines", [each.intervals for each in expected])
    assert intervals_in(machines) == [each.intervals for each in expected]
    assert machines.to_frame().select(MACHINES_AS_TEXT).to_series().to_list() == [*map(str, expected)]
    assert (
        pl.select(lists("machines", ends, numbers, np.ones(len(sets), np.bool_))).to_series().to_list()
        == machines.to_list()
    )


REQUEST = Request(2, gpus=Gpus(2), site_resources={"matlab": 1})
FACTS = trace(
    (0.0, Fact.JOB_ARRIVED, {"job": 1, "job_class": "rigid", "user": "ann", "request": REQUEST}),
    (1.0, Fact.JOB_ARRIVED, {"job": 2, "job_class": "rigid", "user": "ann"}),
    (2.0, Fact.RUN_STARTED, {"job": 2, "run": 0, "resource": -1, "machines": [0, 1, 3]}),
    (
        3.0,
        Fact.RUN_STARTED,
        {
            "job": 1,
            "run": 1,
            "resource": -1,
            "machines": [5, 7],
            "shares": [Share(7, 1, (0, 12)), Share(5, 1)],
        },
    ),
    (4.0, Fact.JOB_REFUSED, {"job": 1, "detail": "5:1"}),
)


def _written(path: Path, facts: pl.DataFrame) -> Path:
    facts.write_parquet(path / "trace.parquet", metadata={"sil": "{}"})
    return path / "trace.parquet"


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        *(("machines", cell) for cell in ([(2, 1)], [(-1, 0)], [(0, 0), (-1, -1)])),
        *(("shares", cell) for cell in ([(-1, 1, ())], [(0, 0, ())])),
    ],
)
def test_columns_of_what_no_run_holds_are_refused(
    name: str, cell: list[tuple[int, ...]], tmp_path: Path
) -> None:
    cells = [None if each is None else cell for each in FACTS[name]]
    with pytest.raises(NoTrace, match=f"has {name} that cannot be read"):
        read_facts(_written(tmp_path, FACTS.with_columns(column(name, cells))))
