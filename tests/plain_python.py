"""Modules that are compiled ahead of time, loaded from their source instead."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from multiprocessing import get_context
from pathlib import Path

import hatch_build

ROOT = Path(__file__).parent.parent
COMPILED = [hatch_build.name_of(source) for source in hatch_build.sources()]


class PlainPython:
    """Finds the source of modules that are compiled."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        return (
            spec_from_file_location(name, ROOT / f"{name.replace('.', '/')}.py") if name in COMPILED else None
        )


def use_plain_python() -> None:
    sys.meta_path.insert(0, PlainPython)


@contextmanager
def in_plain_python() -> Iterator[ProcessPoolExecutor]:
    """A process in which functions run with the plain form of all modules."""
    with ProcessPoolExecutor(1, get_context("spawn"), use_plain_python) as process:
        yield process
