"""Types of values that files and the database share: names, texts, whole numbers and amounts."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from scheduler.node_request import MAX_GPUS
from site_db.files.input_errors import MAX_VALUE


def _checked_name(name: str) -> str:
    if not name.strip():
        raise ValueError("a name cannot be empty")
    if name != name.strip():
        raise ValueError(f"the name '{name}' has spaces around it")
    if not name.isprintable():
        raise ValueError(f"the name '{name}' has a character that cannot be printed")
    return name


Name = Annotated[str, AfterValidator(_checked_name)]


def _text(text: str) -> str:
    if "\0" in text:
        raise ValueError("the text has a NUL character, which no database keeps")
    return text


Text = Annotated[str, AfterValidator(_text)]

# Strict: neither true nor "10" is a number here.
Priority = Annotated[int, Field(ge=-(2**31), lt=2**31, strict=True)]
"""A priority, as wide as an integer column of every database."""

WholeNumber = Annotated[int, Field(ge=1, lt=2**31, strict=True)]


Whole = Annotated[int, Field(ge=0, lt=2**31, strict=True)]
Megabytes = Annotated[int, Field(ge=0, lt=MAX_VALUE, strict=True)]
Amount = Annotated[int, Field(ge=1, lt=MAX_VALUE, strict=True)]
"""An amount of a countable resource: bytes of a disk are more than an integer column holds."""


def _by_name(amounts: dict[str, int]) -> dict[str, int]:
    return dict(sorted(amounts.items()))


Amounts = Annotated[dict[Name, Amount], AfterValidator(_by_name)]
"""The amount of each countable resource."""


def _at_most(counts: dict[str, int]) -> dict[str, int]:
    if sum(counts.values()) > MAX_GPUS:
        raise ValueError(f"{sum(counts.values()):,} GPUs on a node; expected at most {MAX_GPUS}")
    return _by_name(counts)


GpuCounts = Annotated[dict[Name, WholeNumber], AfterValidator(_at_most)]
"""The number of GPUs of each type."""

Words = Annotated[tuple[Name, ...], AfterValidator(lambda names: tuple(sorted(set(names))))]
"""A set of names that stand for themselves."""
