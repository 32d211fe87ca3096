"""Compiles the modules that have a `.pxd` file beside them, in place: `python compile_kernels.py`.

Such a module is plain Python; the `.pxd` file gives it the types of C. Only what changed is compiled. Without
a C compiler, that of the package `ziglang` is used. With SIL_BOUNDS_CHECKS=1, an index that is out of bounds
is an error instead of undefined; these modules replace the others until they are compiled anew.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parent
PACKAGES = ("scheduler", "site_db", "sil")
SUFFIX: str = sysconfig.get_config_var("EXT_SUFFIX")
CHECKS_BOUNDS = os.environ.get("SIL_BOUNDS_CHECKS") == "1"


def sources(root: Path = ROOT) -> list[Path]:
    """The modules to be compiled."""
    return sorted(
        types.with_suffix(".py") for package in PACKAGES for types in (root / package).rglob("*.pxd")
    )


def compiled(source: Path) -> Path:
    return source.with_suffix(SUFFIX)


def _types(source: Path, root: Path) -> set[Path]:
    """The files with the types that a module uses, directly or not."""
    found, todo = set[Path](), [source.with_suffix(".pxd")]
    while todo:
        types = todo.pop()
        if types not in found and types.exists():
            found.add(types)
            names = re.findall(r"^from ([\w.]+) cimport", types.read_text(), re.MULTILINE)
            todo += [root / f"{name.replace('.', '/')}.pxd" for name in names]
    return found


def outdated(root: Path = ROOT) -> list[Path]:
    """The modules that are not compiled, or not since the last change of them or of the types they use."""

    def is_outdated(source: Path) -> bool:
        inputs = max(file.stat().st_mtime_ns for file in (source, *_types(source, root)))
        return not compiled(source).exists() or compiled(source).stat().st_mtime_ns < inputs

    return [source for source in sources(root) if is_outdated(source)]


def compile_outdated(root: Path = ROOT) -> list[Path]:
    """Compile what is outdated. Returns all compiled modules. Raises SystemExit with a sentence."""
    todo = outdated(root)
    if todo:
        headers = sysconfig.get_paths()["include"]
        if not (Path(headers) / "Python.h").exists():
            sys.exit(
                f"{headers}/Python.h does not exist, which compiling needs: install the headers of this "
                f"Python (python3-dev on Debian and Ubuntu, python3-devel on Fedora), or use another Python"
            )
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda source: _compile(source, root, headers), todo))
    return [compiled(source) for source in sources(root)]


def _compile(source: Path, root: Path, headers: str) -> None:
    """To C, which is removed, and to machine code, which takes its place at once."""
    checks = str(CHECKS_BOUNDS)
    directives = {
        "annotation_typing": "False",  # annotations are those of mypy
        "boundscheck": checks,
        "cdivision": "True",
        "infer_types": "True",
        "initializedcheck": "False",
        "wraparound": "False",
    }
    code, made = source.with_suffix(".c"), compiled(source).with_suffix(".new")
    options = [f"-X{name}={value}" for name, value in directives.items()]
    try:
        _run(
            [sys.executable, "-m", "cython", "-3", *options, str(source.relative_to(root)), "-o", str(code)],
            root,
        )
        flags = [
            "-O3",
            "-march=native",
            "-ffp-contract=off",
            "-g0",
            "-w",
            "-fPIC",
            "-fwrapv",
            "-shared",
            "-DNDEBUG",
            f"-I{headers}",
        ]
        _run([*_compiler(), *flags, str(code), "-o", str(made)], root)
        made.replace(compiled(source))
    finally:
        for left in (code, made):
            left.unlink(missing_ok=True)


def _compiler() -> list[str]:
    """That of the environment, of the system, or of a package."""
    asked = os.environ.get("CC", "").split()
    if found := asked[:1] or [name for name in ("cc", "gcc", "clang") if shutil.which(name)][:1]:
        return [*found, *asked[1:]]
    if importlib.util.find_spec("ziglang") is None:
        sys.exit("there is no C compiler, which compiling needs: install one, or run pip install ziglang")
    return [sys.executable, "-m", "ziglang", "cc"]


def _run(command: list[str], root: Path) -> None:
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}\nthis command failed: {' '.join(command)}")


if __name__ == "__main__":
    compile_outdated()
