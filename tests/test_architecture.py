"""The house rules, read off the code's own imports."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CLOCKS_AND_LUCK = {"time", "datetime", "random", "secrets", "uuid"}
ALLOWED = {
    "scheduler": {"numba", "numpy", "scipy", "scheduler"},
    "site_db": {"numpy", "sqlalchemy", "alembic", "pydantic", "pydantic_core", "tomlkit", "site_db"},
}


def files(package: str) -> list[Path]:
    found = sorted((ROOT / package).rglob("*.py"))
    assert found, f"there are no files in {package}: this test would pass whatever is written"
    return found


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            yield node.module or ""


def top(module: str) -> str:
    return module.partition(".")[0]


def standard(module: str) -> bool:
    return top(module) in sys.stdlib_module_names


@pytest.mark.parametrize("path", files("scheduler"), ids=str)
def test_the_scheduler_imports_nothing_of_ours_no_clock_and_no_luck(path: Path) -> None:
    allowed = ALLOWED["scheduler"] | ({"hypothesis"} if path.name == "contract.py" else set())
    for module in imports(path):
        assert top(module) not in CLOCKS_AND_LUCK, module
        assert standard(module) or top(module) in allowed, module


@pytest.mark.parametrize("path", files("scheduler"), ids=str)
def test_the_scheduler_never_speaks_of_simulation(path: Path) -> None:
    text = path.read_text().lower().replace("simulated annealing", "")  # an algorithm's name
    assert not [
        word for word in ("simulat", "sil.", "np.random.seed", "site_db", "sqlalchemy") if word in text
    ]


@pytest.mark.parametrize("path", files("scheduler"), ids=str)
def test_the_scheduler_draws_no_random_numbers_but_from_a_seed(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr == "random" and isinstance(node.value, ast.Name):
            assert node.value.id not in ("np", "numpy") or path.name == "contract.py"


@pytest.mark.parametrize("path", files("site_db"), ids=str)
def test_the_site_database_knows_of_ours_only_the_schedulers_values_and_trouble(path: Path) -> None:
    known = {
        "scheduler.model",
        "scheduler.etc",
        "scheduler.queues",
        "scheduler.admission",
        "scheduler.time_shared.requirement",
        "scheduler.time_shared.social_contract",
        "scheduler.errors",
    }
    for module in imports(path):
        assert standard(module) or top(module) in ALLOWED["site_db"] or module in known, module


@pytest.mark.parametrize("path", files("sil"), ids=str)
def test_only_experiments_plans_and_the_command_reach_the_database(path: Path) -> None:
    if not {"settings", "site", "runs", "experiment", "workers", "planning", "studies", "cli"} & set(
        path.parts
    ):
        assert "site_db" not in {top(module) for module in imports(path)}


STAGES = [
    "trace",
    "workload",
    "world",
    "outcome",
    "report",
    "batsim",
    "live",
    "settings",
    "site",
    "workers",
    "runs",
    "experiment",
    "planning",
    "studies",
    "cli",
]
"""In import order: a stage imports only itself and earlier ones."""
BACKWARD = {
    ("settings", "runs"),
    ("settings", "site"),
    ("workers", "experiment"),
    ("runs", "experiment"),
    ("workers", "studies"),
}
"""To be removed by the restructuring."""


def test_the_stages_import_one_another_in_one_direction() -> None:
    for place, stage in enumerate(STAGES):
        for path in files(f"sil/{stage}"):
            for module in imports(path):
                if module.startswith("sil.") and module.split(".")[1] in STAGES[place + 1 :]:
                    assert (stage, module.split(".")[1]) in BACKWARD, f"{path} imports {module}"


def test_no_module_is_named_for_nothing() -> None:
    everywhere = [path for package in ("scheduler", "sil", "site_db") for path in files(package)]
    assert not [
        path for path in everywhere if path.stem in ("utils", "util", "common", "base", "core", "helpers")
    ]
