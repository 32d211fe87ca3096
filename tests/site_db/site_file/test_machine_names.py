from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from site_db.site_file import machine_names


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
        (["r[0-1]_b[08-09]x"], ["r0_b08x", "r0_b09x", "r1_b08x", "r1_b09x"]),
        (["r[1,3]c[2][5-6]"], ["r1c25", "r1c26", "r3c25", "r3c26"]),
        (["b", "n[1-2]", "a"], ["b", "n1", "n2", "a"]),
        ([], []),
    ],
)
def test_a_pattern_expands_to_names_in_order_with_leading_zeros(
    patterns: list[str], names: list[str]
) -> None:
    assert machine_names.expand(patterns) == names


@pytest.mark.parametrize(
    "pattern", ["n[1-3", "n1-3]", "n]1-3[", "n[[1-3]]", "r[1-2]n[1-2", "n[1-2]]", "[", "]", "n[1[2]3]"]
)
def test_unmatched_brackets_are_rejected_with_the_pattern_and_an_example(pattern: str) -> None:
    with pytest.raises(ValueError, match="is neither a name nor a range like node") as caught:
        machine_names.expand(["fine", pattern])
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
def test_an_invalid_range_is_rejected_with_its_text(pattern: str, part: str) -> None:
    with pytest.raises(ValueError, match="is not a range of numbers like 01-08") as caught:
        machine_names.expand([pattern])
    assert f"contains '{part}', which" in str(caught.value)


def test_a_range_that_would_exhaust_memory_is_rejected() -> None:
    with pytest.raises(ValueError, match="stands for more than 100000 names"):
        machine_names.expand(["n[1-99999999999]"])
    with pytest.raises(ValueError, match="stands for more than 100000 names"):
        machine_names.expand(["n[0-100000]"])


def test_brackets_that_stand_for_too_many_names_together_are_rejected_at_once() -> None:
    for pattern in ("r[1-2000]n[1-2000]", "n[" + ",".join(["1-100000"] * 11) + "]", "n" + "[0-9]" * 10_000):
        with pytest.raises(ValueError, match="has more than 1,000,000 names"):
            machine_names.expand([pattern])


def test_a_range_for_a_large_site_is_expanded() -> None:
    assert len(machine_names.expand(["n[00001-99999]"])) == 99_999
    assert len(machine_names.expand(["n[1-100000]"])) == 100_000


@given(st.text(alphabet="n0179-,[] ²", max_size=12))
def test_any_text_is_expanded_or_rejected_with_a_sentence_that_shows_it(pattern: str) -> None:
    try:
        result = machine_names.expand([pattern])
    except ValueError as error:
        result = [str(error)] if str(error).startswith(f"'{pattern}' ") else []
    assert result


@given(st.integers(0, 10**6), st.integers(0, 50), st.integers(1, 8))
def test_a_range_has_every_number_once_in_order_with_the_width_of_the_first(
    first: int, more: int, width: int
) -> None:
    names = machine_names.expand([f"n[{first:0{width}}-{first + more}]"])
    assert [int(name[1:]) for name in names] == list(range(first, first + more + 1))
    assert all(len(name) >= 1 + width for name in names)
    assert names[0] == f"n{first:0{width}}"


# -- and back ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        ([], []),
        (["login"], ["login"]),
        (["n7"], ["n7"]),
        (["n1", "n2"], ["n[1-2]"]),
        (["n1", "n2", "n3", "login", "n4"], ["n[1-3]", "login", "n4"]),
        (["n08", "n09", "n10", "n11"], ["n[08-11]"]),
        (["n8", "n9", "n10"], ["n[8-10]"]),
        (["n098", "n099", "n100"], ["n[098-100]"]),
        (["n9", "n09", "n10"], ["n9", "n[09-10]"]),
        (["n99", "n100", "n0101"], ["n[99-100]", "n0101"]),
        (["n1", "n3", "n5"], ["n1", "n3", "n5"]),
        (["n1", "n2", "n4", "n5"], ["n[1-2]", "n[4-5]"]),
        (["n3", "n2", "n1"], ["n3", "n2", "n1"]),
        (["n1", "n1", "n2"], ["n1", "n[1-2]"]),
        (["a1", "b2", "b3"], ["a1", "b[2-3]"]),
        (["r1n1", "r1n2", "r2n1", "r2n2"], ["r1n[1-2]", "r2n[1-2]"]),
        (["1", "2", "3"], ["[1-3]"]),
        (["n1-ib", "n2-ib"], ["n1-ib", "n2-ib"]),
        (["n²", "n³"], ["n²", "n³"]),
        (["n99999999999999999998", "n99999999999999999999"], ["n99[999999999999999998-999999999999999999]"]),
    ],
)
def test_consecutive_names_are_folded_into_a_range(names: list[str], folded: list[str]) -> None:
    assert machine_names.fold(names) == folded
    assert machine_names.expand(folded) == names


@pytest.mark.parametrize("width", [1, 6])
def test_a_folded_range_never_exceeds_the_readable_maximum(width: int) -> None:
    names = [f"n{number:0{width}}" for number in range(machine_names.MAX_IN_RANGE + 5)]
    folded = machine_names.fold(names)
    assert len(folded) == 2
    assert machine_names.expand(folded) == names


# Few letters and digits, so that neighbours often are a range, or nearly one; and anything at all.
NUMBERED = st.builds(
    lambda before, number, width: f"{before}{number:0{width}}",
    st.sampled_from(["n", "n0", "n-", ""]),
    st.integers(0, 12) | st.sampled_from([98, 99, 100, 101, 10**18 - 1, 10**18, 10**19]),
    st.integers(1, 3),
)
ANY_NAME = NUMBERED | st.text(st.characters(exclude_characters="[]"), max_size=4)
RUNS_OF_NUMBERS = st.builds(
    lambda before, first, more, width: [f"{before}{first + k:0{width}}" for k in range(more)],
    st.sampled_from(["n", "n0", ""]),
    st.integers(0, 1001),
    st.integers(0, 20),
    st.integers(1, 4),
)


@given(
    st.lists(ANY_NAME, max_size=20) | st.lists(RUNS_OF_NUMBERS, max_size=4).map(lambda runs: [*chain(*runs)])
)
def test_any_folded_names_expand_to_the_same_names(names: list[str]) -> None:
    assert machine_names.expand(machine_names.fold(names)) == names


@given(st.integers(0, 1001), st.integers(2, 30), st.integers(1, 5))
def test_consecutive_numbers_of_one_width_fold_into_one_range(first: int, n: int, width: int) -> None:
    names = [f"n{first + k:0{width}}" for k in range(n)]
    assert machine_names.fold(names) == [f"n[{names[0][1:]}-{names[-1][1:]}]"]
