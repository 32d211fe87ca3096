"""Presentation of results: the page builder, the charts, the tables for the terminal.

`page` is the builder, which `experiment`, `replay`, `sil.planning.page` and `sil.studies` use.
"""

from __future__ import annotations

from enum import StrEnum


class FigureKind(StrEnum):
    """File formats of charts."""

    PNG = "png"
    SVG = "svg"
    PDF = "pdf"
