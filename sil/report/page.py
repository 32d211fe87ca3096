"""The report builder: one page model, template and style for runs, replays, plans and studies.

A page is one HTML file that holds everything it shows and needs no network.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemBytecodeCache, PackageLoader
from jinja2.bccache import Bucket
from markupsafe import Markup

from scheduler.messages import printable
from sil.report import FigureKind
from sil.report.listing import file_name
from sil.report.origin import origin_terms
from sil.report.vega_lite import Figure, Spec, save, specification
from site_db.files.access import no_link

if TYPE_CHECKING:
    from sil.report.schedule_chart import Schedules

MIN_SECTIONS_WITH_CONTENTS = 2
CACHE = Path(__file__).parent / "__pycache__"


@dataclass(frozen=True, slots=True)
class Cell:
    """The text of a table's cell, a smaller line below it, and a CSS class."""

    text: str
    below: str = ""
    kind: str = ""


@dataclass(frozen=True)
class PageTable:
    """`layout` is a CSS class: "" for numbers, "text" for sentences, "options" for text in column 2."""

    head: Sequence[str]
    rows: Sequence[Sequence[Cell | str]]
    layout: str = ""


@dataclass(frozen=True)
class Part:
    """A chart, a table, schedules or a list of sentences; it can be folded.

    `name` is the file name of the chart."""

    title: str = ""
    chart: Figure | None = None
    table: PageTable | None = None
    items: Sequence[str] = ()
    schedules: Schedules | None = None
    name: str = ""
    folded: bool = False
    open: bool = False


@dataclass
class Section:
    title: str
    note: str = ""
    parts: list[Part] = field(default_factory=list)


@dataclass(frozen=True)
class Notice:
    """A paragraph above the sections; `kind` is "answer", "fault", "refusal" or "note" (CSS classes)."""

    kind: str
    text: str
    label: str = ""


@dataclass
class Page:
    """`terms` are pairs of a term and its description; `window` is the title of the browser's window."""

    title: str
    lead: str = ""
    window: str = ""
    terms: list[tuple[str, str]] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    folded: Part | None = None
    """Sentences below the notices, which can be unfolded."""
    footer: str = ""

    def charts(self) -> Iterator[tuple[str, Section, Part]]:
        """Every part with a chart, its section, and the name of the chart, which is unique on the page."""
        for section in self.sections:
            for k, part in enumerate(section.parts, start=1):
                if part.chart is not None:
                    yield part.name or slug(f"{section.title} {part.title or k}"), section, part


def slug(title: str) -> str:
    """A title as an anchor and as a file name: "table-1-share" for "Table 1: share (%)"."""
    return file_name(re.sub(r"\W+", "-", title.lower()).strip("-"))


def terms_of_nodes(nodes: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The sentences on the model of nodes as terms of a page."""
    for line in nodes:
        title, _, text = line.partition(": ")
        yield (title, text) if title == "Nodes" else ("Sharing", line)


def write_page(path: Path, page: Page) -> None:
    """Write a page into a folder of results, with the origin of these."""
    names, charts = dict[int, str](), dict[str, Spec]()
    for name, section, part in page.charts():
        names[id(part)] = f"chart-{name}"
        assert part.chart is not None
        description = {"description": part.title or section.title}
        charts[names[id(part)]] = specification(part.chart) | description
    environment = Environment(
        loader=PackageLoader("sil.report", "."),
        autoescape=True,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=_CompiledTemplates(str(CACHE)),
    )
    # In this JSON, nothing can begin or end an element.
    environment.filters["script_json"] = lambda value: Markup(json.dumps(value).replace("<", "\\u003c"))
    drawn = (part.schedules for section in page.sections for part in section.parts)
    schedules = next(filter(None, drawn), None)
    text = environment.get_template("page.html.j2").render(
        page=page,
        origin=list(origin_terms(path.parent)),
        contents=len(page.sections) >= MIN_SECTIONS_WITH_CONTENTS,
        chart_id=lambda part: names[id(part)],
        slug=slug,
        charts=charts,
        schedules=schedules,
        vega=_vega(),
        **(schedules.look if schedules else {}),
    )
    no_link(path).write_text(text, encoding="utf-8")


def write_figures(folder: Path, kind: FigureKind, page: Page, titled: bool = False) -> list[Path]:
    """Write every chart of a page as a file of its own, with the title of its part if `titled`."""
    no_link(folder).mkdir(parents=True, exist_ok=True)
    paths = []
    for name, _, part in page.charts():
        assert part.chart is not None
        paths.append(folder / f"{name}.{kind}")
        save(part.chart.properties(title=part.title) if titled else part.chart, no_link(paths[-1]))
    return paths


class _CompiledTemplates(FileSystemBytecodeCache):
    """Keeps the code of the templates where that folder is writable: making it takes longer than a page."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            super().dump_bytecode(bucket)


@cache
def _vega() -> str:
    """Vega, Vega-Lite and vega-embed as one script.

    Bundling takes a second, so the script is cached beside this file where that folder is writable.
    """
    place = find_spec("vl_convert")
    packages = Path((place and place.origin) or "").parent.parent
    release = next(packages.glob("vl_convert_python-*.dist-info"), packages)
    cached = CACHE / f"vega-{release.stem}.js"
    if cached.is_file():
        return cached.read_text(encoding="utf-8")
    import vl_convert

    script = vl_convert.javascript_bundle().replace("</script", "<\\/script")  # type: ignore[call-arg]  # the stub lacks its default
    with suppress(OSError):
        CACHE.mkdir(exist_ok=True)
        unfinished = cached.with_suffix(f".{os.getpid()}")
        unfinished.write_text(script, encoding="utf-8")
        unfinished.replace(cached)
    return script


def _printable(value: object) -> object:
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
