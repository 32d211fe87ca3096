"""Compile all modules and all schedulers and keep them on disk, in as many processes as there are processors.

`make` does so after the installation, so that no command has to. Pytest does so before its workers start, or
they would all compile the same functions at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from compileall import compile_dir
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

Part = TypeVar("Part")

COMPILES = re.compile(
    r"^(@|\w+ = )(compiled|long_running|called_from_python|called_by_handle)\b",
    re.MULTILINE,
)
ROOT = Path(__file__).parent.parent
PACKAGES = ("scheduler", "site_db", "sil")
LONGEST = ("easy", "reserving", "rigid", "asking", "min_min", "max_min", "turnaround")
"""Compiled first, so that no processor is left with one of them at the end."""


def modules() -> list[str]:
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    found = [path for path in paths if COMPILES.search(path.read_text())]
    found.sort(key=lambda path: path.stem not in LONGEST)
    return [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in found]


def compile_module(name: str) -> None:
    import_module(name)


def in_processes(function: Callable[[Part], None], parts: Iterable[Part]) -> None:
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        list(pool.map(function, parts))


def main() -> None:
    for package in PACKAGES:  # Python itself would not where PYTHONDONTWRITEBYTECODE is set
        compile_dir(ROOT / package, quiet=1)
    in_processes(compile_module, modules())


if __name__ == "__main__":
    main()
