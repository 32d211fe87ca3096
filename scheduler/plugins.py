"""Schedulers of installed packages."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

GROUP = "scheduler.plugins"
"""Entry-point group in which an installed package offers its schedulers."""


def plugins() -> list[EntryPoint]:
    """In order of names. The current folder is no place of installed packages, although modules are found
    there: it may be somebody else's."""
    return sorted(point for point in entry_points(group=GROUP) if not _is_of_current_folder(point))


def _is_of_current_folder(point: EntryPoint) -> bool:
    return point.dist is not None and Path(str(point.dist.locate_file(""))).resolve() == Path.cwd()
