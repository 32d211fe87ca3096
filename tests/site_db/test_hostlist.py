from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from site_db import hostlist


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (["login"], ["login"]),
        (["n[1-3]"], ["n1", "n2", "n3"]),
        (["n[7]"], ["n7"]),
        (["n[5-5]"], ["n5"]),
        (["n[08-11]"], ["n08", "n09", "n10", "n11"]),
        (["n[098-101]"], ["n098", "n099", "n100", "n101"]),
        (["n[9-11]"], ["n9", "n10", "n11"]),
        (["n[00-01]"], ["n00", "n01"]),
        (["n[1-2,5,008-009]"], ["n1", "n2", "n5", "n008", "n009"]),
        (["n[1-2, 5]"], ["n1", "n2", "n5"]),
        (["n[3,1]"], ["n3", "n1"]),
        (["n[1-2]-ib"], ["n1-ib", "n2-ib"]),
        (["[1-2]"], ["1", "2"]),
        (["b", "n[1-2]", "a"], ["b", "n1", "n2", "a"]),
        ([], []),
    ],
)
def test_a_pattern_stands_for_its_names_in_order_and_with_its_zeros(
    patterns: list[str], names: list[str]
) -> None:
    assert hostlist.expand(patterns) == names


@pytest.mark.parametrize(
    "pattern",
    ["n[1-3", "n1-3]", "n]1-3[", "n[[1-3]]", "r[1-2]n[1-2]", "n[1-2]]", "[", "]", "n[1[2]3]"],
)
def test_brackets_that_do_not_match_are_refused_with_the_pattern_and_an_example(pattern: str) -> None:
    with pytest.raises(ValueError, match="is no name and no range like node") as caught:
        hostlist.expand(["fine", pattern])
    assert f"'{pattern}'" in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "part"),
    [
        ("n[]", ""),
        ("n[1,]", ""),
        ("n[,1]", ""),
        ("n[-3]", "-3"),
        ("n[3-]", "3-"),
        ("n[3-1]", "3-1"),
        ("n[1-2-3]", "1-2-3"),
        ("n[a-c]", "a-c"),
        ("n[1 - 3]", "1 - 3"),
        ("n[1-2,x]", "x"),
        ("n[+1-2]", "+1-2"),
        ("n[1_0]", "1_0"),
        ("n[²-4]", "²-4"),
        ("n[١-٣]", "١-٣"),
        (f"n[{'9' * 5000}]", "9" * 5000),
    ],
)
def test_a_part_that_is_no_range_is_refused_by_name(pattern: str, part: str) -> None:
    with pytest.raises(ValueError, match="is no range of numbers like 01-08") as caught:
        hostlist.expand([pattern])
    assert f"has a part '{part}' that" in str(caught.value)


def test_a_range_that_would_fill_the_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="stands for more than 100000 names"):
        hostlist.expand(["n[1-99999999999]"])
    with pytest.raises(ValueError, match="stands for more than 100000 names"):
        hostlist.expand(["n[0-100000]"])


def test_a_range_as_large_as_a_large_site_is_read() -> None:
    assert len(hostlist.expand(["n[00001-99999]"])) == 99_999
    assert len(hostlist.expand(["n[1-100000]"])) == 100_000


@given(st.text(alphabet="n0179-,[] ²", max_size=12))
def test_any_text_is_expanded_or_refused_with_a_sentence_that_shows_it(pattern: str) -> None:
    try:
        told = hostlist.expand([pattern])
    except ValueError as error:
        told = [str(error)] if str(error).startswith(f"'{pattern}' ") else []
    assert told


@given(st.integers(0, 10**6), st.integers(0, 50), st.integers(1, 8))
def test_a_range_has_every_number_once_in_order_and_never_narrower_than_its_first(
    first: int, more: int, width: int
) -> None:
    names = hostlist.expand([f"n[{first:0{width}}-{first + more}]"])
    assert [int(name[1:]) for name in names] == list(range(first, first + more + 1))
    assert all(len(name) >= 1 + width for name in names)
    assert names[0] == f"n{first:0{width}}"
