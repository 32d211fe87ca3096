from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from site_db.files.toml_file import Location, line_of
from tests.examples import up_to
from tests.site_db.site_texts import HCS_2001, SMALL

TRICKY = '''# 1: a comment with name = "x" and [[parts]] in it

title = "a"  # 3 [not a table]
"quoted key" = 4
'single "quoted"' = 5
dotted . "k.e.y" . x = 6
dotted.y = 7
text = """
name = 9
[[parts]]
""" # 11
literal = \'\'\'
title = "13"\'\'\'
empty = []
colour = "#15"
array = [ # 16
  "one",  # 17, with a ] bracket

  "two", [
    "deep", # 20
  ],
  # "comment",
  { a = 23, b = [
    24 ] },
]
when = 1979-05-27 07:32:00 # 26
inline = { a.b = 27, "c]" = "}", d = { e = """x
28""" , f = 28 } }

[[parts]] # 30
name = "p0"
  [parts.weights] # 32
  a = 33
  [[parts.holes]] # 34
  d = 35
  [[parts.holes]] # 36
  d = 37
    [parts.holes.thread] # 38
    m = 39


[[ parts ]] # 42
name = "p1"
weights.a = 44
[[parts.holes]] # 45
d = 46

["a]b".c] # 48
d = 49
["a]b"]
e = 51
[far.away] # 52
'''


@pytest.mark.parametrize(
    ("location", "line"),
    [
        (("dotted",), 6),
        (("empty", 0), 14),
        (("array",), 16),
        (("array", 0), 17),
        (("array", "one"), 17),
        (("array", 1), 19),
        (("array", 2), 19),
        (("array", 2, 0), 20),
        (("array", 3, "b"), 23),
        (("array", 3, "b", 0), 24),
        (("array", "comment"), 16),
        (("inline", "a", "b"), 27),
        (("inline", "d", "e"), 27),
        (("inline", "d", "f"), 28),
        (("parts", 0, "weights", "missing"), 32),
        (("parts", 1, "missing"), 42),
        (("parts", 7), 30),
        (("a]b",), 50),
        (("a]b", "e"), 51),
        (("far",), 52),
        (("far", "away"), 52),
        (("missing",), None),
        (("name",), None),
        ((), None),
    ],
)
def test_elements_within_a_statement_later_headers_and_what_is_missing_have_their_lines(
    location: Location, line: int | None
) -> None:
    assert line_of(TRICKY, location) == line


def test_a_key_of_an_inline_table_is_not_confused_with_a_top_level_key() -> None:
    text = 'name = "site"\n\nclusters = [\n  { members = ["a"] },\n]'
    assert line_of(text, ("clusters", 0, "name")) == 4


def test_only_line_feeds_end_lines() -> None:
    text = "# form\u2028feed\x85and\u2029more\na = 1\r\nb = 2"
    assert line_of(text, ("a",)) == 2
    assert line_of(text, ("b",)) == 3


@pytest.mark.parametrize("ends", ['"""', '""""', '"""""'])
def test_quotes_at_the_end_of_a_multi_line_string_belong_to_it(ends: str) -> None:
    text = f'a = """x\n{ends}\nb = 1'
    assert line_of(text, ("b",)) == 3


@pytest.mark.parametrize(
    "text", ["a = ", "a = [", "a = {", "[", "[a", "= 3", "a = {b", 'a = ["', "a 3", "[[a.b", '"a', "\x00"]
)
def test_text_that_is_invalid_toml_has_no_line_and_raises_nothing(text: str) -> None:
    assert line_of(text, ("nowhere",)) is None


@given(st.text(alphabet="ab[]{}=\"'#.,\n\\ 1"))
def test_any_text_gives_one_of_its_lines_or_none(text: str) -> None:
    line = line_of(text, ("a",))
    assert line is None or 1 <= line <= text.count("\n") + 1


# -- against what the standard parser makes of the first lines of a text ---------------------------------


def locations(data: Any, at: Location = ()) -> Iterator[Location]:
    if at:
        yield at
    parts = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for part, value in parts:
        yield from locations(value, (*at, part))


def statements(text: str) -> dict[Location, tuple[int, int]]:
    """Location -> first and last line of the statement that first brings it about.

    It ends with the first lines that are TOML and have the location; it begins after the last ones that are
    TOML without it.
    """
    lines = text.split("\n")
    found: dict[Location, tuple[int, int]] = {}
    complete = 0
    for n in range(1, len(lines) + 1):
        try:
            data = tomllib.loads("\n".join(lines[:n]))
        except tomllib.TOMLDecodeError:
            continue
        for location in locations(data):
            found.setdefault(location, (complete + 1, n))
        complete = n
    return found


def assert_lines_are_those_of_the_parser(text: str) -> None:
    for location, (first, last) in statements(text).items():
        line = line_of(text, location)
        assert line is not None, location
        assert first <= line <= last, location


@pytest.mark.parametrize(
    "text", [TRICKY[: TRICKY.index("e = 51")].replace('["a]b"]', ""), SMALL], ids=["tricky", "small"]
)
def test_every_key_and_element_has_the_line_of_its_statement(text: str) -> None:
    assert_lines_are_those_of_the_parser(text)


def test_every_key_of_a_job_class_at_the_end_of_a_long_file_has_its_line() -> None:
    text = HCS_2001.read_text()
    (number,) = [n for n, line in enumerate(text.split("\n"), start=1) if line == "p-133-a = 1500.0"]
    assert line_of(text, ("job_classes", 4, "parallel_s", "p-133-a")) == number


CHUNKS = (
    "k{} = 1",
    "k{}.a.b = 2 # [x]",
    "\"k {}\" = '#'",
    'k{} = """\n[[t]]\nx = "\n"""',
    "k{} = '''\n'quoted' ]\n''''",
    "k{} = [\n  1, # ]\n\n  [2],\n]",
    'k{} = [\n  {{a = "}}", b = [\n"x"]}},\n  {{}} ]',
    "k{} = {{ a = [ ], b.c = 3 }}",
    "[k{}]\na = 1",
    "[k{}.'x.y']\na = 1",
    "[[t]]\nn{} = 3",
    "[[t.u]]\nn{} = 3",
    "[[t.u.v]]\nn{} = 3",
    "[t.w{}]\nz = 1",
    "# name = {}",
    "",
    "\tk{} = 1979-05-27T00:00:00Z\t",
)


def is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


@settings(max_examples=up_to(80), deadline=None)
@given(
    st.lists(st.sampled_from(CHUNKS), max_size=12).map(lambda all: [c.format(k) for k, c in enumerate(all)])
)
def test_any_mixture_of_statements_has_the_lines_implied_by_the_standard_parser(chunks: list[str]) -> None:
    kept: list[str] = []
    for chunk in chunks:
        if is_toml("\n".join([*kept, chunk])):
            kept.append(chunk)
    assert_lines_are_those_of_the_parser("\n".join(kept))
