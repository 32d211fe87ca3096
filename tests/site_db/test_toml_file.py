"""The reader of TOML files, through a small model of its own; experiment files are read in the same way."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from pydantic import Field, NonNegativeFloat, PositiveFloat, model_validator

from site_db.files import toml_file
from site_db.files.input_errors import InvalidFile
from site_db.files.toml_file import Table
from tests.site_db.site_texts import (
    after_path,
    assert_has_a_plain_sentence_for_each_mistake,
    blamed_line,
    changed,
    of_lines,
    refusal,
)


class CircleTable(Table):
    kind: Literal["circle"] = "circle"
    radius_cm: PositiveFloat = 1.0


class BoxTable(Table):
    kind: Literal["box"]
    width_cm: PositiveFloat
    height_cm: PositiveFloat = 1.0


class FrameTable(Table):
    colour: str = "black"
    visible: bool = True


class PartTable(Table):
    name: str
    shape: CircleTable | BoxTable = Field(default=CircleTable(), discriminator="kind")
    weights: dict[str, PositiveFloat] = Field(default_factory=dict)
    from_s: NonNegativeFloat = 0.0
    to_s: PositiveFloat = 1.0

    @model_validator(mode="after")
    def _ends_late_enough(self) -> PartTable:
        if self.to_s <= self.from_s:
            raise ValueError("a part ends after it begins")
        return self


class Drawing(Table):
    title: str
    pages: int = Field(default=1, ge=1, le=99)
    authors: tuple[str, ...] = Field(default=("anyone",), min_length=1)
    shape: CircleTable | BoxTable = Field(default=CircleTable(), discriminator="kind")
    frame: FrameTable | None = None
    parts: tuple[PartTable, ...] = ()
    grid: dict[str, tuple[int | str, ...]] = Field(default_factory=dict)


DRAWING = """title = "wheels"
pages = 3
authors = ["ann", "bob"]

[shape]
kind = "box"
width_cm = 3

[frame]
colour = "red"

[[parts]]
name = "rim"
[parts.shape]
kind = "circle"
radius_cm = 4.5
[parts.weights]
"left side" = 2

[[parts]]
name = "hub"
shape = { kind = "box", width_cm = 2 }
"""


def error_of(text: str | bytes, folder: Path) -> str:
    return refusal(text, folder, lambda path: toml_file.read(path, Drawing))


def test_a_valid_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "good.toml"
    path.write_text(DRAWING)
    drawing = toml_file.read(path, Drawing)
    assert drawing.shape == BoxTable(kind="box", width_cm=3)
    assert [part.shape for part in drawing.parts] == [
        CircleTable(radius_cm=4.5),
        BoxTable(kind="box", width_cm=2),
    ]
    assert drawing.parts[0].weights == {"left side": 2.0}


UNKNOWN_KEYS = of_lines(r"""
at top level: pages = 3 -> page = 3 # HERE
  unknown key 'page'; did you mean 'pages'?
in quotes: pages = 3 -> "page" = 3 # HERE
  unknown key 'page'; did you mean 'pages'?
as a table: [frame] -> [fraem] # HERE
  unknown key 'fraem'; did you mean 'frame'?
as an array of tables: [frame] -> [[farme]] # HERE
  unknown key 'farme'; did you mean 'frame'?
as the head of a dotted key: pages = 3 -> pages = 3\n\n# frame\nfrmae.colour = "red" # HERE
  unknown key 'frmae'; did you mean 'frame'?
in a table: colour = -> # colour\n\ncolor = 1 # HERE\n#
  unknown key 'color'; did you mean 'colour'?
in a dotted key: colour = "red" -> visible.x = true # HERE\ncolour = "red"
  frame.visible = {"x": true}: expected true or false
in an array of tables: name = "hub" -> nam = "hub" # HERE
  unknown key 'nam'; did you mean 'name'?
in the union's table of a table: width_cm = 3 -> width = 3 # HERE
  unknown key 'width'; did you mean 'width_cm'?
in the union's table of an array of tables: radius_cm = 4.5 -> radius = 4.5 # HERE
  unknown key 'radius'; did you mean 'radius_cm'?
in the union's inline table: width_cm = 2 } -> width_cm = 2, hieght_cm = 1 } # HERE
  unknown key 'hieght_cm'; did you mean 'height_cm'?
of the other member of a union: radius_cm = 4.5 -> height_cm = 4.5 # HERE
  unknown key 'height_cm'; known here are kind, radius_cm
far from everything known: colour = "red" -> xyz = 1 # HERE
  unknown key 'xyz'; known here are colour, visible
whose name breaks the line: colour = "red" -> "x\\ny" = 1 # HERE
  unknown key 'x\ny'; known here are colour, visible
without a name: colour = "red" -> "" = 1 # HERE
  unknown key ''; known here are colour, visible
""")


def test_a_misspelled_key_is_reported_once_despite_another_error(tmp_path: Path) -> None:
    text = changed("pages = 3", "pages = 0", DRAWING).replace('name = "hub"', 'nmae = "hub"')
    value, key = error_of(text, tmp_path).split("\n")
    assert "pages = 0" in value
    assert key.endswith("unknown key 'nmae'; did you mean 'name'?")


WRONG_VALUES = of_lines(r"""
a number for text: title = "wheels" -> title = 3 # HERE
  title = 3: expected text in quotes
a date for text: title = "wheels" -> title = 2001-12-31 # HERE
  title = 2001-12-31: expected text in quotes
text for a whole number: pages = 3 -> pages = "x" # HERE
  pages = "x": expected a whole number
a fraction for a whole number: pages = 3 -> pages = 3.5 # HERE
  pages = 3.5: expected a whole number
too small: pages = 3 -> pages = 0 # HERE
  pages = 0: expected a number greater than or equal to 1
too large: pages = 3 -> pages = 100 # HERE
  pages = 100: expected a number less than or equal to 99
text for true: colour = "red" -> visible = "maybe" # HERE
  frame.visible = "maybe": expected true or false
negative: width_cm = 3 -> width_cm = -3 # HERE
  shape.width_cm = -3: expected a number greater than 0
zero: _cm = 3 -> _cm = 0.0 # HERE
  shape.width_cm = 0.0: expected a number greater than 0
not a number: _cm = 3 -> _cm = nan # HERE
  shape.width_cm = nan: expected a finite number
infinite: _cm = 3 -> _cm = -inf # HERE
  shape.width_cm = -inf: expected a finite number
an overflow: _cm = 3 -> _cm = 1e999 # HERE
  shape.width_cm = inf: expected a finite number
under a quoted key: "left side" = 2 -> # left\n"left side" = -2 # HERE
  parts[0].weights."left side" = -2: expected a number greater than 0
under a dotted key: pages = 3 -> pages = 3\ngrid . x = [1]\n# HE\ngrid . "a.b" = 3 # HERE
  grid.a.b = 3: expected an array
in an inline table of an array of tables: width_cm = 2 } -> width_cm = "2 m" } # HERE
  parts[1].shape.width_cm = "2 m": expected a number
one of many in an array of several lines: "ann", "bob"] -> \n  "ann", # 1\n\n  2, # HERE\n  "bob"]
  authors[1] = 2: expected text in quotes
in an array, of none of its types: [frame] -> [grid]\nx = [1,\n [2]] # HERE\n[frame]
  grid.x[1] = [2]: expected a whole number, or text in quotes
text for an array: ["ann", "bob"] -> "ann" # HERE
  authors = "ann": expected an array
an empty array: ["ann", "bob"] -> [] # HERE
  authors = []: expected 1 or more elements
text for a table: [frame]\ncolour = "red"\n -> [grid]\nx = 3 # HERE\n
  grid.x = 3: expected an array
an array of tables for a table: [frame] -> [[frame]] # HERE
  frame = [{"colour": "red"}]: expected a table
an unknown kind: kind = "circle" -> kind = "cirlce" # HERE
  parts[0].shape.kind = "cirlce": expected one of 'circle', 'box'
a kind of the wrong type: kind = "circle" -> kind = 7 # HERE
  parts[0].shape.kind = 7: expected one of 'circle', 'box'
no kind: [parts.shape]\nkind = -> [parts.shape] # HERE\n# kind =
  the key 'parts[0].shape.kind' is missing
a missing key of a table: [[parts]]\nname = "rim" -> [[parts]] # HERE
  the key 'parts[0].name' is missing
a missing key of a union's table: [shape]\nkind = "box"\nwidth_cm = 3 -> [shape] # HERE\nkind = "box"
  the key 'shape.width_cm' is missing
a rule of the table's own: [[parts]]\nname = "rim" -> [[parts]] # HERE\nname = "rim"\nfrom_s = 2
  parts[0]: a part ends after it begins
""")


MISTAKES = {**{f"unknown {name}": case for name, case in UNKNOWN_KEYS.items()}, **WRONG_VALUES}


@pytest.mark.parametrize(("old", "new", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_reported_with_its_line_and_the_nearest_key_or_the_expected_type(
    old: str, new: str, sentence: str, tmp_path: Path
) -> None:
    text = changed(old, new, DRAWING)
    assert error_of(text, tmp_path) == f"line {blamed_line(text)}: {sentence}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            'title = "x"\n[parts]\nname = "rim"\n',
            'line 2: parts = {"name": "rim"}: expected an array of tables, each under the header [[parts]]',
        ),
        ('[frame]\ncolour = "title"\n', "the key 'title' is missing"),  # without a line
        ("", "the key 'title' is missing"),
        (
            f'title = "x"\npages = "{"9" * 5000}x"\n',
            f'line 2: pages = "{"9" * 56}...: expected a whole number',
        ),
        (f"title = 0x{'f' * 5000}", "line 1: title = a number with too many"),
        (f"pages = {'9' * 5000}", "there is a number with too many digits"),
        ("pages = " + "[" * 5000, "the arrays or tables in it are nested too deeply"),
        # Lines are found below arrays as deep as the parser reads them.
        (f'title = "x"\nunheard_of = {"[" * 200 + "1" + "]" * 200}\n', "line 2: unknown key 'unheard_of'"),
        ('# a\u2028b\x85c\ntitle = "x"\npages = 0\n', "line 3: pages = 0"),
        ('title = "Gebäude"'.encode("latin-1"), "line 1: the file is not UTF-8 text; convert it"),
    ],
    ids=lambda text: text[:20],
)
def test_an_odd_file_has_one_short_sentence(text: str | bytes, sentence: str, tmp_path: Path) -> None:
    found = error_of(text, tmp_path)
    assert found.startswith(sentence)
    assert "\n" not in found
    assert len(found) < 200


def test_windows_line_endings_do_not_change_values_or_line_numbers(tmp_path: Path) -> None:
    text = "\ufeff" + DRAWING.replace("\n", "\r\n")
    (tmp_path / "windows.toml").write_bytes(text.encode())
    assert toml_file.read(tmp_path / "windows.toml", Drawing).title == "wheels"
    assert error_of(text.replace("pages = 3", "pages = -1"), tmp_path).startswith(
        "line 2: pages = -1: expected"
    )


NOT_TOML = {
    "no value": ("title =", "line 1: this is not valid TOML: Invalid value"),
    "no quotes": ("a = 1\n\ntitle = wheels\n", "line 3: this is not valid TOML: Invalid value"),
    "one key twice": ("a = 1\na = 2\n", "line 2: this is not valid TOML: Cannot overwrite a value"),
    "one table twice": ("[a]\n[b]\n[a]\n", "line 3: this is not valid TOML: Cannot declare [a] twice"),
    "one table of a table twice": (
        "[a.b]\n[c]\n[a.b]\n",
        "line 3: this is not valid TOML: Cannot declare [a.b] twice",
    ),
    "an open string": ('a = 1\nb = "x\nc = 2', "line 2: this is not valid TOML: Illegal character '\\n'"),
    "an open long string": (
        'a = """x\n\ny\n\n',
        "line 3: this is not valid TOML: Unterminated string at the end of the file",
    ),
    "an open array": ("a = [1,\n2", "line 2: this is not valid TOML: Unclosed array at the end of the file"),
    "an open header": ("[a\nb = 3", "line 1: this is not valid TOML: Expected ']' at the end of a table"),
    "just words": ("give me a site", "line 1: this is not valid TOML: Expected '=' after a key"),
}


@pytest.mark.parametrize(("text", "beginning"), NOT_TOML.values(), ids=NOT_TOML)
def test_invalid_toml_is_reported_with_the_line_in_the_usual_place(
    text: str, beginning: str, tmp_path: Path
) -> None:
    sentence = error_of(text, tmp_path)
    assert sentence.startswith(beginning)
    assert "(at line" not in sentence


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("", "the file cannot be read: Is a directory"),
        ("nowhere.toml", "there is no such file"),
        ("file/drawing.toml", "the file cannot be read: Not a directory"),
    ],
)
def test_what_is_no_file_is_rejected_with_its_path(name: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidFile) as caught:
        toml_file.read(tmp_path / name, Drawing)
    assert after_path(caught.value, tmp_path / name) == sentence


def test_a_line_break_in_a_path_is_escaped_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile) as caught:
        toml_file.read(tmp_path / "two\nlines.toml", Drawing)
    assert_has_a_plain_sentence_for_each_mistake(str(caught.value))
    assert str(caught.value).endswith("two\\nlines.toml: there is no such file")


def test_a_table_is_immutable_after_reading(tmp_path: Path) -> None:
    (tmp_path / "good.toml").write_text(DRAWING)
    with pytest.raises(ValueError, match="frozen"):
        toml_file.read(tmp_path / "good.toml", Drawing).pages = 5  # type: ignore[misc]
