"""Charts of Vega-Lite as plain data, with the names of its documentation, https://vega.github.io/vega-lite/docs.

A library that makes them takes longer to load than most reports take to write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl
from polars import selectors

from scheduler.messages import printable

Spec = dict[str, Any]

SECONDARY = ("x2", "y2")
"""Channels of the same type as `x` and `y`."""
TYPES = {"Q": "quantitative", "O": "ordinal", "N": "nominal", "T": "temporal"}
BACKSLASH = "\N{REVERSE SOLIDUS OPERATOR}"
"""A character that looks like a backslash."""
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
CONFIGURATION = {
    "axis": {
        "labelFontSize": 12,
        "labelSeparation": 4,
        "titleFontSize": 13,
        "titleFontWeight": "normal",
        "gridColor": "#e4e4e4",
    },
    "legend": {"labelFontSize": 12, "titleFontSize": 12},
    "title": {"fontSize": 14, "anchor": "start"},
    "header": {"labelFontSize": 13, "labelFontWeight": "bold", "labelAnchor": "start"},
    "view": {"continuousWidth": 300, "continuousHeight": 300, "stroke": "#bbb"},
}
"""The project's fonts and colours."""


def column(typed_name: str, **properties: Any) -> Spec:
    """A channel that shows a column: `name:` and a letter of TYPES; without one, Q for numbers."""
    name, _, letter = typed_name.partition(":")
    typed = {"type": TYPES[letter]} if letter else {}
    return {"field": name, **typed, **properties}


def value(constant: object) -> Spec:
    """A channel that is the same everywhere."""
    return {"value": constant}


def either(test: str, if_so: object, otherwise: object) -> Spec:
    """A channel with one of two values, by an expression like "datum.share > 55"."""
    return {"condition": {"test": test, "value": if_so}, "value": otherwise}


@dataclass(frozen=True)
class Figure:
    """A chart, or several; immutable. `data` is what it draws; charts in it are in its `spec`."""

    data: pl.DataFrame | None = None
    spec: Mapping[str, Any] = field(default_factory=dict)

    def mark(self, kind: str, **look: Any) -> Figure:
        return self.properties(mark={"type": kind, **look})

    def encode(self, **channels: Any) -> Figure:
        """Add channels: what `column`, `value` or `either` returns, or lists of these."""
        typed = {
            name: channel if name in SECONDARY else self._typed(channel) for name, channel in channels.items()
        }
        return self.properties(encoding={**self.spec.get("encoding", {}), **typed})

    def properties(self, **properties: Any) -> Figure:
        return replace(self, spec={**self.spec, **properties})

    def _typed(self, channel: Any) -> Any:
        if isinstance(channel, list):
            return [self._typed(each) for each in channel]
        if "field" not in channel or "type" in channel or self.data is None:
            return channel
        is_number = self.data.schema[channel["field"]].is_numeric()
        return {**channel, "type": TYPES["Q" if is_number else "N"]}


def layer(*figures: Figure) -> Figure:
    """Charts on top of each other. The size belongs to all of them."""
    size = {k: v for figure in figures for k, v in figure.spec.items() if k in ("width", "height")}
    bare = [
        replace(figure, spec={k: v for k, v in figure.spec.items() if k not in size}) for figure in figures
    ]
    return Figure(spec={**size, "layer": bare})


def below_each_other(*figures: Figure) -> Figure:
    return Figure(spec={"vconcat": list(figures)})


def faceted(figure: Figure, by: Spec, columns: int) -> Figure:
    """The chart of a single table for each value of a column, with the rows that have it."""
    layers = figure.spec.get("layer", ())
    table = next(each.data for each in (figure, *layers) if each.data is not None)
    bare = replace(figure, data=None)
    if layers:
        bare = bare.properties(layer=[replace(each, data=None) for each in layers])
    return Figure(table, {"facet": by, "columns": columns, "spec": bare})


def specification(figure: Figure) -> Spec:
    """The chart with its data, each table once, in the project's fonts and colours."""
    tables: dict[int, pl.DataFrame] = {}
    drawn = _plain(figure, tables)
    datasets = {f"data-{k}": _rows(table) for k, table in enumerate(tables.values(), start=1)}
    return {"$schema": SCHEMA, "config": CONFIGURATION, "datasets": datasets, **drawn}


def _rows(table: pl.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table. JSON has no infinity and no NaN."""
    number = selectors.float()
    rows = table.with_columns(pl.when(number.is_finite()).then(number)).to_dicts()
    return rows if table.select(selectors.string()).is_empty() else _plain(rows, {})


def _plain(part: Any, tables: dict[int, pl.DataFrame]) -> Any:
    """A value that JSON has, with the names of tables, which are added, and printable text only: a control
    character in an image ends the process that draws it."""
    match part:
        case Figure(data=data, spec=spec):
            if data is None:
                return _plain(spec, tables)
            tables.setdefault(id(data), data)
            return _plain(spec, tables) | {"data": {"name": f"data-{[*tables].index(id(data)) + 1}"}}
        case str():
            return printable(part)
        case dict():
            shown = {key: _plain(one, tables) for key, one in part.items()}
            if isinstance(title := shown.get("title"), str):  # Vega-Lite obeys escapes in it
                shown["title"] = title.replace("\\", BACKSLASH)
            return shown
        case list() | tuple():
            return [_plain(one, tables) for one in part]
    return part


def save(figure: Figure, path: Path) -> None:
    """Write a chart as a PNG, SVG, PDF or HTML file, by the suffix of `path`."""
    import vl_convert

    spec = specification(figure)
    match path.suffix:
        case ".png":
            path.write_bytes(vl_convert.vegalite_to_png(spec, scale=2))
        case ".svg":
            path.write_text(vl_convert.vegalite_to_svg(spec), encoding="utf-8")
        case ".pdf":
            path.write_bytes(vl_convert.vegalite_to_pdf(spec))
        case ".html":
            path.write_text(vl_convert.vegalite_to_html(spec, bundle=True), encoding="utf-8")
