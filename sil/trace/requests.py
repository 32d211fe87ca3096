"""What jobs request and use of nodes with cores, memory and GPUs, as texts in a trace (column `detail`).

A request is JSON with the fields that differ from the default; a use is `node:chunks@gpu,gpu`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any

from scheduler.model import Share
from scheduler.node_request import Gpus, Request

_SETS = ("features", "partitions")
_OPTIONAL = fields(Request)[2:]
"""All but the number of chunks and their cores."""


def request_text(request: Request) -> str:
    found: dict[str, Any] = {"chunks": request.chunks, "cores": request.cores}
    for field in _OPTIONAL:
        value = getattr(request, field.name)
        if isinstance(value, Mapping):
            value = dict(sorted(value.items()))
        elif isinstance(value, frozenset):
            value = sorted(value)
        elif isinstance(value, Gpus):
            value = {"count": value.count, "share": value.share, "types": sorted(value.types)}
        is_default = value == 1 if field.name == "most_on_node" else not value
        if not is_default:
            found[field.name] = value
    return json.dumps(found)


@lru_cache(65_536)
def request_of(text: str) -> Request:
    found = json.loads(text)
    if "gpus" in found:
        found["gpus"] = Gpus(**{**found["gpus"], "types": frozenset(found["gpus"]["types"])})
    return Request(**{**found, **{name: frozenset(found[name]) for name in _SETS if name in found}})


def shares_text(shares: Sequence[Share]) -> str:
    return " ".join(
        f"{node}:{chunks}@{','.join(map(str, gpus))}" if gpus else f"{node}:{chunks}"
        for node, chunks, gpus in shares
    )


def shares_of(text: str) -> tuple[Share, ...]:
    return tuple(map(_share, text.split()))


@lru_cache(65_536)
def _share(text: str) -> Share:
    where, _, gpus = text.partition("@")
    node, _, chunks = where.partition(":")
    return Share(int(node), int(chunks), tuple(map(int, gpus.split(","))) if gpus else ())
