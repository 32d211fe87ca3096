"""What jobs request and use of nodes with cores, memory and GPUs, as texts in a trace (column `detail`).

A request is JSON with the fields that differ from the default; a use is `node:chunks@gpu,gpu`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from scheduler.model import Share
from scheduler.node_request import Gpus, Request

_SETS = ("features", "partitions")


@lru_cache(65_536)
def _text(key: tuple[Any, ...]) -> str:
    chunks, cores, memory_mib, gpus, others, most_on_node, exclusive, features, partitions, of_site = key
    found: dict[str, Any] = {"chunks": chunks, "cores": cores}
    if memory_mib:
        found["memory_mib"] = memory_mib
    if gpus is not None:
        found["gpus"] = {"count": gpus.count, "share": gpus.share, "types": sorted(gpus.types)}
    if others:
        found["others"] = dict(others)
    if most_on_node != 1:
        found["most_on_node"] = most_on_node
    if exclusive:
        found["exclusive"] = True
    for name, values in zip(_SETS, (features, partitions), strict=True):
        if values:
            found[name] = sorted(values)
    if of_site:
        found["site_resources"] = dict(of_site)
    return json.dumps(found)


def request_text(r: Request) -> str:
    others, of_site = tuple(sorted(r.others.items())), tuple(sorted(r.site_resources.items()))
    each = r.chunks, r.cores, r.memory_mib, r.gpus, others, r.most_on_node, r.exclusive, r.features
    return _text((*each, r.partitions, of_site))


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
