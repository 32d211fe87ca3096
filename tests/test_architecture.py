"""The house rules, read off the code's own imports."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent
CLOCKS_AND_RANDOM = {"time", "datetime", "random", "secrets", "uuid"}
ALLOWED = {
    "scheduler": {"cython", "numpy", "scipy", "scheduler"},
    "site_db": {
        "numpy",
        "backports",
        "compression",  # in the place of backports from Python 3.14 on
        "sqlalchemy",
        "alembic",
        "pydantic",
        "pydantic_core",
        "tomlkit",
        "yaml",
        "site_db",
    },
}


def files(package: str) -> list[Path]:
    found = sorted((ROOT / package).rglob("*.py"))
    assert found, f"there are no files in {package}: this test would pass whatever is written"
    return found


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text())))


@cache
def imports(path: Path) -> tuple[str, ...]:
    found: list[str] = []
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            found.append(node.module or "")
    return tuple(found)


def imported(package: str) -> Iterator[tuple[Path, str]]:
    """Each file of a package with each module that it imports."""
    return ((path, module) for path in files(package) for module in imports(path))


def top(module: str) -> str:
    return module.partition(".")[0]


def standard(module: str) -> bool:
    return top(module) in sys.stdlib_module_names


def none_of(violations: Iterable[tuple[Path, object]]) -> None:
    """Fail with a line for each violation: the file, and what is wrong with it."""
    lines = [f"{path.relative_to(ROOT)}: {what}" for path, what in violations]
    assert not lines, "\n".join(lines)


def is_for_tests(path: Path) -> bool:
    return path.parent.name == "testing"


def test_the_scheduler_package_imports_no_project_package_clock_or_random_source() -> None:
    def is_allowed(path: Path, module: str) -> bool:
        if top(module) in CLOCKS_AND_RANDOM:
            return False
        return (
            standard(module)
            or top(module) in ALLOWED["scheduler"]
            or (is_for_tests(path) and top(module) == "hypothesis")
        )

    none_of((path, module) for path, module in imported("scheduler") if not is_allowed(path, module))


def test_the_scheduler_package_does_not_mention_simulation() -> None:
    def text(path: Path) -> str:
        return path.read_text().lower().replace("simulated annealing", "")  # an algorithm's name

    words = ("simulat", "sil.", "np.random.seed", "site_db", "sqlalchemy")
    none_of((path, word) for path in files("scheduler") for word in words if word in text(path))


def test_the_scheduler_package_draws_random_numbers_only_from_a_seed() -> None:
    def is_global(node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Attribute)
            and node.attr == "random"
            and isinstance(node.value, ast.Name)
            and node.value.id in ("np", "numpy")
        )

    none_of(
        (path, ast.unparse(node))
        for path in files("scheduler")
        if not is_for_tests(path)
        for node in nodes(path)
        if is_global(node)
    )


def test_the_site_database_imports_only_values_and_errors_of_the_scheduler_package() -> None:
    known = {
        "scheduler.durability.journal",
        "scheduler.messages",
        "scheduler.model",
        "scheduler.mapping.etc",
        "scheduler.managers.queues",
        "scheduler.node_request",
        "scheduler.priority.policy",
        "scheduler.time_shared.social_contract",
        "scheduler.node_resources.topology",
        "scheduler",
    }
    none_of(
        (path, module)
        for path, module in imported("site_db")
        if not (standard(module) or top(module) in ALLOWED["site_db"] or module in known)
    )


def test_only_selected_packages_import_the_database() -> None:
    may = {
        "settings",
        "site",
        "runs",
        "experiment",
        "forecast",
        "workers",
        "rehearsal",
        "planning",
        "studies",
        "swarm",
        "api",
    }
    may |= {"cli"}
    anywhere = ("site_db.files", "site_db.site_file.machine_names")
    without_a_database = {
        "workload": (
            "site_db.jobs.logged",
            "site_db.jobs.swf",
            "site_db.jobs.requests",
            "site_db.jobs.occupancy",
            "site_db.jobs.sacct.",
            "site_db.site_file.cluster",
        ),
        "slurm": ("site_db.slurm.", "site_db.slurm_conf", "site_db.site_file.cluster"),
    }
    none_of(
        (path, module)
        for path, module in imported("sil")
        if top(module) == "site_db"
        and not may & set(path.parts)
        and not any(
            folder in path.parts and module.startswith(modules)
            for folder, modules in without_a_database.items()
        )
        and not module.startswith(anywhere)
    )


STAGES = [
    "trace",
    "workload",
    "world",
    "outcome",
    "report",
    "settings",
    "site",
    "workers",
    "isolation",
    "live",
    "batsim",
    "slurm",
    "runs",
    "experiment",
    "rehearsal",
    "forecast",
    "planning",
    "studies",
    "swarm",
    "api",
    "gym",
    "cli",
]
"""In import order: a stage imports only itself and earlier ones."""
PACKAGES = ("scheduler", "sil", "site_db")


def test_every_folder_of_the_testbed_is_a_stage() -> None:
    folders = {path.name for path in (ROOT / "sil").iterdir() if (path / "__init__.py").exists()}
    assert folders == set(STAGES)


def test_stages_import_each_other_in_one_direction() -> None:
    none_of(
        (path, module)
        for place, stage in enumerate(STAGES)
        for path, module in imported(f"sil/{stage}")
        for later in STAGES[place + 1 :]
        if f"{module}.".startswith(f"sil.{later}.")
    )


def test_no_module_has_a_meaningless_name() -> None:
    nothing = ("utils", "util", "common", "base", "core", "helpers")
    none_of((path, path.stem) for path in all_files() if path.stem in nothing)


def all_files() -> Iterator[Path]:
    return (path for package in PACKAGES for path in files(package))


def test_modules_have_no_import_cycles() -> None:
    """Also not inside a function, or for type checkers only."""
    assert_acyclic(modules())


def test_packages_have_no_import_cycles() -> None:
    packages: dict[str, set[str]] = {}
    for module, needed in modules().items():
        ours = package_of(module)
        packages.setdefault(ours, set()).update({package_of(other) for other in needed} - {ours})
    assert_acyclic(packages)


@cache
def modules() -> dict[str, frozenset[str]]:
    """Every module of the project, with those of the project that it imports."""
    name_of = {
        path: ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in all_files()
    }
    names = set(name_of.values())
    return {name: frozenset(modules_in(path, names) - {name}) for path, name in name_of.items()}


def modules_in(path: Path, names: set[str]) -> set[str]:
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            submodules = {f"{node.module}.{alias.name}" for alias in node.names} & names
            found |= submodules or {str(node.module)}
    return found & names


def package_of(module: str) -> str:
    """The first folder below `scheduler`, `site_db` or `sil`, or a module that lies directly in one."""
    return ".".join(module.split(".")[:2])


def assert_acyclic(graph: Mapping[str, Iterable[str]]) -> None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError("a cycle of imports: " + " <- ".join(error.args[1])) from None


def test_text_reaches_terminals_and_pages_through_one_module_each() -> None:
    """Which escapes it: a console of Rich obeys markup, and `html.escape` is not what pages use."""
    of = {
        "rich.console": ("cli/console.py", "api/calls.py"),
        "rich.markup": (),
        "html": (),
        "jinja2": ("report/page.py", "experiment/new_scheduler/__init__.py"),
    }
    none_of(
        (path, module)
        for path, module in imported("sil")
        if module in of and not str(path).endswith(of[module])
    )


SHARED_NAMES = {
    "Experiment": "sil.Experiment is public, and the model of the file names its JSON Schema",
    "PartitionTable": "tables of two kinds of files, named so in their JSON Schemas",
    "Site": "sil.Site and scheduler.Site are both public",
}


def test_a_public_class_name_has_one_meaning() -> None:
    places: dict[str, list[str]] = {}
    for path in all_files():
        for node in nodes(path)[0].body:  # type: ignore[attr-defined]
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    shared = {name: where for name, where in places.items() if len(where) > 1}
    assert shared.keys() >= SHARED_NAMES.keys(), "a name in SHARED_NAMES is that of one class now"
    new = shared.keys() - SHARED_NAMES.keys()
    assert not new, "\n".join(f"{name}: {', '.join(shared[name])}" for name in sorted(new))
