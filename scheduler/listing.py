"""The schedulers that have names, for a listing."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path

from scheduler.registry import BUILT_IN, SchedulerNotLoaded, SchedulerSpec, plugins, resolve
from scheduler.rules import Kind


@dataclass(frozen=True, slots=True)
class Entry:
    """A scheduler in a listing: its name, kind if known, origin, and the first line of its docstring."""

    name: str
    kind: Kind | None
    target: str
    source: str
    summary: str


def entries(resolve: Callable[[str], SchedulerSpec] = resolve) -> list[Entry]:
    """All named schedulers, for a listing; plug-ins are found by `resolve`. The summary of a plug-in that
    cannot be loaded says so."""
    built_in = [
        Entry(name, kind, target, "built in", _summary_in_source(name))
        for kind, targets in BUILT_IN.items()
        for name, target in targets.items()
    ]
    return built_in + [_plugin_entry(point, resolve) for point in plugins()]


def _plugin_entry(point: EntryPoint, resolve: Callable[[str], SchedulerSpec]) -> Entry:
    source = f"package {point.dist.name if point.dist else '?'}"
    try:
        spec = resolve(point.name)
    except SchedulerNotLoaded as error:
        return Entry(point.name, None, point.value, source, f"cannot be loaded: {error}")
    return Entry(point.name, spec.kind, point.value, source, spec.summary)


def _summary_in_source(name: str) -> str:
    """The first line of the docstring of a built-in scheduler, without importing what is compiled for it."""
    module, _, class_name = resolve(name).target.partition(":")
    source = Path(*module.split(".")[1:]).with_suffix(".py")
    statements = ast.parse((Path(__file__).parent / source).read_text(encoding="utf-8")).body
    classes = {found.name: found for found in statements if isinstance(found, ast.ClassDef)}
    return (ast.get_docstring(classes[class_name]) or "").partition("\n")[0]
