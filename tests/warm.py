"""Compile all schedulers and keep them on disk, in as many processes as there are processors.

`make` does so after the installation, so that no command has to. Pytest does so before its workers start, or
they would all compile the same functions at once.
"""

from __future__ import annotations

import re
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

COMPILES = re.compile(
    r"^@(compiled|long_running|called_by_handle)$|^\w+ = (called_from_python|compiled|long_running)\(",
    re.MULTILINE,
)
ROOT = Path(__file__).parent.parent
LONGEST = ("consumable", "reserving", "rigid", "asking", "min_min", "max_min", "turnaround")
"""Compiled first, so that no processor is left with one of them at the end."""


def modules() -> list[str]:
    paths = [path for package in ("scheduler", "sil") for path in sorted((ROOT / package).rglob("*.py"))]
    found = [path for path in paths if COMPILES.search(path.read_text())]
    found.sort(key=lambda path: path.stem not in LONGEST)
    return [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in found]


def compile_module(name: str) -> None:
    import_module(name)


def main() -> None:
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        list(pool.map(compile_module, modules()))


if __name__ == "__main__":
    main()
