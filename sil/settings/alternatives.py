"""Settings in place of the present ones, as texts like `PriorityWeightFairshare={0,1000}`: by keys of
`slurm.conf`, or names of declared settings of replays."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product
from typing import Any

from scheduler import UserError
from sil.declared import declared
from sil.settings.replays import ReplaySettings
from site_db.slurm.lines import pairs_of

_CHOICE = re.compile(r"\{([^{}]*)\}")
_OF_REPLAYS = {
    field.name: field for field in declared(ReplaySettings) if field.name not in ("estimates", "pause_at_s")
}
"""Those that may vary in a sweep, which has estimates of its own."""


def texts(given: str | Iterable[str] | None) -> list[str]:
    """The texts of a setting, of which one may stand for itself."""
    return [given] if isinstance(given, str) else [*(given or ())]


def expanded(text: str) -> list[str]:
    """A text with one value of each {list,of,values} in it, in all combinations."""
    parts, choices = _CHOICE.split(text)[::2], [part.split(",") for part in _CHOICE.findall(text)]
    return [
        "".join(part for pair in zip(parts, (*chosen, ""), strict=True) for part in pair)
        for chosen in product(*choices)
    ]


def combined(given: str | Iterable[str] | None) -> list[str]:
    """All combinations of the values of some texts; an empty text, if there are none."""
    return [" ".join(chosen) for chosen in product(*map(expanded, texts(given)))]


def of_replays(text: str) -> tuple[dict[str, Any], str]:
    """The settings of replays in a text, by name; and the rest, of `slurm.conf`. Raises UserError."""
    found, others = dict[str, Any](), list[str]()
    if not text:
        return found, text
    from pydantic import TypeAdapter, ValidationError

    for pair in pairs_of(text):
        if (field := _OF_REPLAYS.get(pair.key)) is None:
            others.append(str(pair))
            continue
        try:
            value = TypeAdapter(field.kind).validate_strings(pair.value)
        except ValidationError as error:
            raise UserError(f"{pair}: {error.errors()[0]['msg'].lower()}") from None
        found[pair.key] = field.checked(value, pair.key)
    return found, " ".join(others)
