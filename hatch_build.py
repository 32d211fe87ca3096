"""Compiles the modules that have a `.pxd` file beside them, and the clock of Slurm's controller.

A compiled module is plain Python; its `.pxd` file gives it the types of C. The machine code is written
beside the sources, from where wheels take it; `python hatch_build.py` compiles again what has changed. With
SIL_BOUNDS_CHECKS=1, an index that is out of bounds raises an IndexError.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from Cython.Build import cythonize
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from setuptools import Distribution, Extension
from setuptools.errors import CompileError
from setuptools.warnings import SetuptoolsDeprecationWarning

ROOT = Path(__file__).parent
PACKAGES = ("scheduler", "site_db", "sil")
CHECKS_BOUNDS = os.environ.get("SIL_BOUNDS_CHECKS") == "1"
DIRECTIVES = {
    "annotation_typing": False,  # annotations are those of mypy
    "auto_pickle": False,
    "binding": False,
    "boundscheck": CHECKS_BOUNDS,
    "cdivision": True,
    "infer_types": True,
    "initializedcheck": False,
    "show_performance_hints": False,
    "wraparound": False,
}
SHARED = "scheduler.core._shared"
"""What Cython adds to all modules."""
FLAGS = ["-ffp-contract=off", "-fwrapv", "-g0", "-w"]
"""No multiplication is fused with an addition: the same sums on all processors."""
ALL_OPTIMISATIONS = ["-O3"]
SOME_OPTIMISATIONS = ["-O1", "-fno-tree-dominator-opts", "-fstrict-aliasing", "-ftree-loop-vectorize"]
SOME_OPTIMISATIONS += ["-finline-functions", "-finline-small-functions"]
"""With these, GCC takes less than half the time, and code is as fast, but for loops of mapping schedulers."""
if platform.machine() in ("x86_64", "AMD64"):
    FLAGS += ["-mavx2", "-mbmi2"]  # which Polars needs, too, but for its extra `rtcompat`


class Compiled(BuildHookInterface):
    def dependencies(self) -> list[str]:
        return [] if _has_compiler() else ["ziglang"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        files = compile_modules()
        if version != "editable":
            build_data["force_include"] |= {str(ROOT / file): file for file in files}


def sources() -> list[Path]:
    """The modules that are compiled."""
    found = (types for package in PACKAGES for types in (ROOT / package).rglob("*.pxd"))
    return sorted(types.with_suffix(".py") for types in found)


def compile_modules() -> list[str]:
    """Compile what has changed. Returns the files of machine code for this Python, which are beside the
    sources. Raises SystemExit with a sentence."""
    os.chdir(ROOT)
    _choose_compiler()
    options: dict[str, Any] = {
        "include_dirs": _headers(),
        "depends": ["hatch_build.py"],
    }
    some = SOME_OPTIMISATIONS if _is_gcc() else ALL_OPTIMISATIONS

    def extension(name: str, source: str) -> Extension:
        how = ALL_OPTIMISATIONS if ".mapping." in name else some
        return Extension(name, [source], extra_compile_args=[*how, *FLAGS], **options)

    shared = extension(SHARED, f"{SHARED.replace('.', '/')}.c")  # the longest one, and thus the first
    modules = [extension(name_of(source), str(source.relative_to(ROOT))) for source in sources()]
    extensions = cythonize(
        [shared, *modules],
        build_dir="build/c",
        compiler_directives=DIRECTIVES,
        force=CHECKS_BOUNDS,
        language_level=3,
        nthreads=os.cpu_count() or 1,
        quiet=True,
        shared_utility_qualified_name=SHARED,
    )
    if sys.platform == "linux":
        clock, headers = (sorted(map(str, Path("sil/slurm/clock/native").glob(f"*.{kind}"))) for kind in "ch")
        made_with = {"depends": headers, "extra_compile_args": ["-std=gnu11"]}
        extensions.append(Extension("sil.slurm.clock.preloaded", clock, **made_with))
    warnings.simplefilter("ignore", SetuptoolsDeprecationWarning)  # of a command that is not used
    build = Distribution({"ext_modules": extensions}).get_command_obj("build_ext")
    build.inplace = True
    build.build_temp = "build/objects"
    build.parallel = os.cpu_count()
    build.force = CHECKS_BOUNDS
    build.ensure_finalized()
    try:
        build.run()
    except CompileError:
        if _has_compiler():
            raise
        sys.exit("there is no C compiler, which compiling needs: install one, or run pip install ziglang")
    if CHECKS_BOUNDS:
        shutil.rmtree("build/c")  # so that all is compiled again without checks
    return [build.get_ext_filename(extension.name) for extension in extensions]


def name_of(source: Path) -> str:
    return ".".join(source.relative_to(ROOT).with_suffix("").parts)


def _has_compiler() -> bool:
    return any(map(shutil.which, (_compiler_of_python(), "cc", "gcc", "clang")))


def _compiler_of_python() -> str:
    return (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]


def _choose_compiler() -> None:
    """That of the environment, that of this Python, the system's, or that of the package `ziglang`."""
    if shutil.which(_compiler_of_python()):
        return
    if found := [name for name in ("cc", "gcc", "clang") if shutil.which(name)]:
        command = found[0]
    elif importlib.util.find_spec("ziglang"):
        command = f"{sys.executable} -m ziglang cc"
    else:
        return  # where nothing has changed, none is needed
    os.environ |= {"CC": command, "LDSHARED": f"{command} -shared"}


def _is_gcc() -> bool:
    """Whether the compiler is GCC; others do not know all of its flags."""
    command = _compiler_of_python()
    if not shutil.which(command):
        return False
    version = subprocess.run([command, "--version"], capture_output=True, text=True, check=False).stdout
    return "Free Software Foundation" in version


def _headers() -> list[str]:
    """The folders of Python's own headers; without the package of Debian that has them, from a copy of it."""
    include = Path(sysconfig.get_paths()["include"])
    if (include / "Python.h").exists():
        return [str(include)]
    copy = ROOT / "build" / "headers"
    found = copy / "usr" / "include"
    if not (found / include.name / "Python.h").exists() and shutil.which("apt-get"):
        copy.mkdir(parents=True, exist_ok=True)
        print(f"fetching the headers of this Python: apt-get download lib{include.name}-dev", flush=True)
        with TemporaryDirectory() as folder:
            download = ["apt-get", "download", "-qq", f"lib{include.name}-dev"]
            subprocess.run(download, cwd=folder, capture_output=True, check=False)
            for file in Path(folder).glob("*.deb"):
                subprocess.run(["dpkg", "-x", str(file), str(copy)], check=False)
    if not (found / include.name / "Python.h").exists():
        sys.exit(
            f"{include}/Python.h does not exist, which compiling needs: install the headers of this Python "
            f"(python3-dev on Debian and Ubuntu, python3-devel on Fedora), or use another Python"
        )
    return [str(found / include.name), str(found)]


if __name__ == "__main__":
    compile_modules()
