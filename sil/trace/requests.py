"""What jobs request of nodes with cores, memory and GPUs, as JSON in a trace (column `detail`): the fields
that differ from the default."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any

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
