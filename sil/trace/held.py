"""What jobs request of nodes, as JSON in a trace, and what runs hold, as columns of facts: intervals of
machines, shares of nodes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from itertools import chain, islice
from typing import Any, TypeVar

import numpy as np
import polars as pl

from scheduler.core.arrays import Flags, Ints, Ints2
from scheduler.model import Share
from scheduler.node_request import Gpus, Request
from scheduler.node_set import Interval, NodeSet
from sil.trace.stream import Schema

_FIELDS: dict[str, dict[str, type[pl.DataType]]] = {
    "machines": {"first": pl.Int32, "last": pl.Int32},
    "shares": {"node": pl.Int32, "chunks": pl.Int32, "gpus": pl.Int64},
}
"""The GPUs are the bits of a number: bit k is set for GPU k."""
HELD: Schema = {name: pl.List(pl.Struct(fields)) for name, fields in _FIELDS.items()}

Intervals = tuple[Interval, ...]
T = TypeVar("T")


def lists(name: str, ends: Ints, numbers: Ints2, is_given: Flags) -> pl.Expr:
    """A column of HELD. The k-th list ends before row `ends[k + 1]` of `numbers`; it is null unless it
    `is_given`."""
    fields = enumerate(_FIELDS[name].items())
    # Numbers that no engine should write wrap, so that they are in the facts, which are checked.
    records = pl.DataFrame(
        [pl.Series(field, numbers[:, k]).cast(kind, wrap_numerical=True) for k, (field, kind) in fields]
    )
    rows = pl.int_ranges(pl.lit(pl.Series(ends[:-1])), pl.lit(pl.Series(ends[1:])))
    of_all = pl.lit(records.to_struct().implode()).first()
    return of_all.list.gather(pl.when(pl.lit(pl.Series(is_given))).then(rows)).alias(name)


def column(name: str, cells: Sequence[Sequence[Sequence[Any]] | None]) -> pl.Series:
    """A column of HELD, from intervals or shares."""
    ends = np.cumsum([0, *(len(cell or ()) for cell in cells)])
    width = len(_FIELDS[name])
    records: Iterable[Sequence[Any]] = chain.from_iterable(filter(None, cells))
    if name == "shares":
        records = ((node, chunks, sum(1 << gpu for gpu in {*gpus})) for node, chunks, gpus in records)
    numbers = np.fromiter(chain.from_iterable(records), np.int64).reshape(-1, width)
    is_given = np.array([cell is not None for cell in cells], np.bool_)
    return pl.select(lists(name, ends, numbers, is_given)).to_series()


def records_in(column: pl.Series) -> pl.DataFrame:
    """The records of all lists of a column of HELD, one after the other."""
    return column.explode(empty_as_null=False, keep_nulls=False).struct.unnest()


def machines_of(ends: Ints, nodes: Ints) -> tuple[Ints, Ints2]:
    """The intervals of the nodes of each list, which ends as in `lists`."""
    n_lists, begin = len(ends) - 1, int(nodes.min(initial=0))
    width = int(nodes.max(initial=0)) - begin + 2  # so that no interval goes on in the next list
    keys = np.sort(np.repeat(np.arange(n_lists), np.diff(ends)) * width + (nodes - begin))
    is_first = np.diff(keys, prepend=-2) > 1
    of_list, first = np.divmod(keys[is_first], width)
    last = keys[np.roll(is_first, -1)] % width
    n_intervals = np.bincount(of_list, minlength=n_lists)
    return np.concatenate([[0], np.cumsum(n_intervals)]), np.column_stack([first, last]) + begin


def intervals_in(machines: pl.Series) -> list[Intervals | None]:
    """The lists of a column of intervals."""
    return _tuples(machines, _interval)


def shares_in(shares: pl.Series) -> list[tuple[Share, ...] | None]:
    """The lists of a column of shares."""
    return _tuples(shares, _share)


def _tuples(column: pl.Series, made: Callable[..., T]) -> list[tuple[T, ...] | None]:
    records = map(made, *(field.to_list() for field in records_in(column)))
    return [None if n is None else tuple(islice(records, n)) for n in column.list.len()]


# Equal ones are one object: the garbage collector would traverse all of a long trace.
@lru_cache(65_536)
def _interval(first: int, last: int) -> Interval:
    return first, last


@lru_cache(65_536)
def _share(node: int, chunks: int, gpus: int) -> Share:
    return Share(node, chunks, tuple(place for place in range(gpus.bit_length()) if gpus >> place & 1))


def node_set(intervals: Intervals) -> NodeSet:
    return NodeSet(intervals, sum(last - first + 1 for first, last in intervals))


def with_texts(fact: Mapping[str, Any]) -> dict[str, Any]:
    """A fact for people: intervals as text, and shares as its detail."""
    machines, shares = fact["machines"], fact["shares"]
    texts = {"machines": None if machines is None else str(node_set(machines))}
    if shares is not None:
        chosen = fact["detail"] and f"{fact['detail']} "
        texts["detail"] = f"{chosen or ''}{shares_text(shares)}"
    return {name: texts.get(name, value) for name, value in fact.items() if name != "shares"}


_FIRST, _LAST = (pl.element().struct.field(name) for name in ("first", "last"))
_INTERVAL = pl.concat_str(_FIRST, pl.when(_FIRST != _LAST).then(_LAST), separator="-", ignore_nulls=True)
MACHINES_AS_TEXT = pl.col("machines").list.eval(_INTERVAL).list.join(" ")
"""Machines as text, like `0-3 5`."""
N_GPUS = pl.col("shares").list.eval(pl.element().struct.field("gpus").bitwise_count_ones()).list.sum()
"""The number of GPUs of which a run has all or a part."""


def machines_from_text(texts: pl.Expr) -> pl.Expr:
    """Machines as a column of HELD, with nulls in place of what is no number."""
    ends = pl.element().str.splitn("-", 2).struct
    first, last = (ends.field(name).cast(pl.Int32, strict=False) for name in ("field_0", "field_1"))
    interval = pl.struct(
        first=first, last=pl.when(ends.field("field_1").is_null()).then(first).otherwise(last)
    )
    return texts.str.split(" ").list.eval(pl.when(pl.element() != "").then(interval)).list.drop_nulls()


ALLOCATED = machines_from_text(pl.col("allocated_resources"))
"""The column of a jobs.csv as one of HELD."""


def shares_text(shares: Sequence[Share]) -> str:
    return " ".join(
        f"{node}:{chunks}@{','.join(map(str, gpus))}" if gpus else f"{node}:{chunks}"
        for node, chunks, gpus in shares
    )


def one_row_per_interval(frame: pl.DataFrame) -> pl.DataFrame:
    """Each row repeated for each interval of its `machines`: those from `low` on, before `high`."""
    first, last = (pl.col("machines").struct.field(name) for name in ("first", "last"))
    return frame.explode("machines").with_columns(low=first, high=last + 1)


def one_row_per_machine(frame: pl.DataFrame) -> pl.DataFrame:
    """Each row repeated for each of its `machines`, which becomes a number."""
    rows = one_row_per_interval(frame).with_columns(machines=pl.int_ranges("low", "high"))
    return rows.drop("low", "high").explode("machines")


_SETS = ("features", "partitions", "elsewhere")
_OPTIONAL = fields(Request)[2:]
"""The fields other than the number of chunks and their cores."""


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
