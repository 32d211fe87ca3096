"""Choices by name, of which schedulers are composed."""

from __future__ import annotations

from enum import StrEnum
from typing import NoReturn


class Choice(StrEnum):
    """A choice by name. Raises ValueError for one that there is not, naming those that there are."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        choices = ", ".join(cls)
        raise ValueError(f"'{value}' is no {str(cls.__doc__).partition(':')[0].lower()}; there are {choices}")
