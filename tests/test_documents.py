"""Every command and every file that the documents show is tried, as a reader would."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import sil
from sil.trace.facts import SCHEMA, TIMINGS_SCHEMA, Fact
from site_db.site_file.importing import read_site_file
from tests.commands import in_a_process
from tests.sil.rehearsal.known_site import made
from tests.sil.slurm.installed import missing
from tests.test_architecture import PACKAGES, all_files, nodes

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DOCS = ROOT / "docs"
PYTHON_PAGE = DOCS / "how-to" / "python.md"
SLURM_PAGE = DOCS / "how-to" / "slurm.md"
VALIDATION_PAGE = DOCS / "how-to" / "validate.md"
LEARNING_PAGE = DOCS / "how-to" / "reinforcement-learning.md"
API_PAGE = DOCS / "reference" / "api.md"
FILES_PAGE = DOCS / "reference" / "files.md"
GUIDES = [
    path
    for path in sorted(DOCS.rglob("*.md"))
    if path not in (PYTHON_PAGE, LEARNING_PAGE) and "```console" in path.read_text(encoding="utf-8")
]
NOTEBOOKS = sorted(DOCS.glob("tutorials/*.ipynb"))
SETUP_COMMANDS = ("make ", "git ", "pip ")
"""Set-up, which CI does."""


def blocks(document: Path) -> Iterator[tuple[str, str]]:
    """(language, text) of the fenced blocks."""
    yield from re.findall(r"^```(\w+)\n(.*?)^```", document.read_text(), re.MULTILINE | re.DOTALL)


def run_commands(text: str, folder: Path) -> int:
    """Run the commands of a block; their number."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    commands = re.findall(r"^\$ (.+)$", text, re.MULTILINE)
    commands = [command for command in commands if not command.startswith(SETUP_COMMANDS)]
    for command in commands:
        result = subprocess.run(
            command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, f"{command}\n{result.stdout}{result.stderr}"
    return len(commands)


@pytest.mark.parametrize(
    "document",
    [pytest.param(path, marks=pytest.mark.long) for path in (README, *GUIDES)],
    ids=lambda path: path.name,
)
def test_the_commands_of_a_document_work_in_order(document: Path, tmp_path: Path) -> None:
    if document == SLURM_PAGE and (why := missing()) is not None:
        pytest.skip(f"without Slurm: {why}")
    for path in (*ROOT.glob("fixtures/etc/*"), *ROOT.glob("fixtures/logs/*")):
        shutil.copy(path, tmp_path)
    if document == VALIDATION_PAGE:
        made(tmp_path)
    ran = 0
    for language, text in blocks(document):
        named = re.match(r"# (\S+\.\w+)\n", text)
        if named:
            is_comment = language != "csv"  # which has no comments
            (tmp_path / named[1]).write_text(text if is_comment else text.partition("\n")[2])
        if language != "console":
            continue
        ran += run_commands(text, tmp_path)
    assert ran, "a document without commands tests nothing"
    for test in tmp_path.glob("test_*.py"):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test.name]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    "page",
    [
        README,
        DOCS / "index.md",
        *(pytest.param(path, marks=pytest.mark.long) for path in (PYTHON_PAGE, LEARNING_PAGE)),
    ],
    ids=lambda path: path.name,
)
def test_the_python_of_a_page_runs_as_a_script(page: Path, tmp_path: Path) -> None:
    if page == PYTHON_PAGE:
        assert sum(run_commands(text, tmp_path) for language, text in blocks(page) if language == "console")
    script = tmp_path / "page.py"
    python = [text for language, text in blocks(page) if language == "python" and not text.startswith("# ")]
    script.write_text("\n".join(python))
    result = in_a_process(sys.executable, script.name, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    expected = {
        "README.md": {"waiting-times.png"},
        "index.md": {"results"},
        "python.md": {"gantt.png", "results"},
        "reinforcement-learning.md": set(),
    }
    assert expected[page.name] <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.long
def test_a_tutorial_runs_from_top_to_bottom(path: Path, tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "outputs are made when the site is built"
    folder = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", resources=folder).execute()
    errors = [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output.get("name") == "stderr"
    ]
    assert all("what-if changes of the site" in error["text"] for error in errors), errors


def test_a_notebook_shows_a_progress_bar_that_disappears_in_the_end() -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    shown: list[str] = []

    class Client(nbclient.NotebookClient):
        def process_message(self, message: Any, *place: Any) -> Any:
            if "display_data" in message["msg_type"]:
                shown.append(message["content"]["data"]["text/html"])
            return super().process_message(message, *place)

    source = """
        import sil
        from sil.api import calls
        calls.SHOWN_EVERY_S = 0.0
        log = sil.lublin_feitelson(1_000, processors=128, load=0.6, seed=1)
        sil.replay(log, "easy", engine="harness")
    """
    cell = nbformat.v4.new_code_cell(dedent(source))
    Client(nbformat.v4.new_notebook(cells=[cell]), kernel_name="python3").execute()
    assert any('max="1000"' in html and "1,000 of 1,000 jobs" in html for html in shown)
    assert shown[-1] == ""


@pytest.mark.long
def test_the_site_of_documents_is_built_without_warnings(tmp_path: Path) -> None:
    """Which are errors: broken links, pages that are not in the navigation, names that do not exist."""
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", tmp_path]
    environment = {**os.environ, "EXECUTE_NOTEBOOKS": "false", "NO_MKDOCS_2_WARNING": "1"}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout + result.stderr == ""
    assert "sil replay [OPTIONS]" in (tmp_path / "reference" / "commands.html").read_text()


def test_the_page_on_the_api_names_everything_public() -> None:
    text = API_PAGE.read_text()
    missing = [name for name in sil.__all__ if f"sil.{name}" not in text]
    assert not missing
    described = set(re.findall(r"^::: sil\.(\w+)$", text, re.MULTILINE))
    assert described == {*sil.__all__} - {"__version__"}
    classes = (
        sil.Experiment,
        sil.ExperimentResults,
        sil.PlanAnswers,
        sil.Plots,
        sil.Replays,
        sil.Simulation,
        sil.Site,
        sil.Sweep,
    )
    for of in classes:
        members = [name for name in vars(of) if not name.startswith("_") and callable(getattr(of, name))]
        assert not [name for name in members if f"`{name}`" not in text]


def test_the_reference_of_results_names_every_column_and_every_event() -> None:
    text = (DOCS / "reference" / "results.md").read_text()
    named = {*SCHEMA, *TIMINGS_SCHEMA, *(fact.value for fact in Fact)}
    replays = sil.replay(sil.lublin_feitelson(3, 8), "fcfs", progress=False)
    named |= set(replays.jobs("fcfs").columns)
    assert not [name for name in named if f"`{name}`" not in text]


def test_the_examples_of_files_are_valid_and_have_failures_of_all_kinds(tmp_path: Path) -> None:
    from sil.settings.experiment_file import RunSettings
    from sil.settings.faults import FailuresTable

    failures, messages, site = (text for language, text in blocks(FILES_PAGE) if language == "toml")
    given = FailuresTable.model_validate(tomllib.loads(failures)["failures"]).model_fields_set
    assert given == FailuresTable.model_fields.keys()
    settings = RunSettings.model_validate({"schedulers": ["mct"], **tomllib.loads(messages)})
    assert None not in (settings.messages, settings.crashes)
    assert settings.clock_jumps
    (tmp_path / "site.toml").write_text(site)
    assert read_site_file(tmp_path / "site.toml").name == "two-rooms"


def test_the_reference_names_every_setting_of_an_experiment() -> None:
    from sil.settings.experiment_file import Experiment

    text = (FILES_PAGE).read_text()
    for name in Experiment.model_fields:
        assert re.search(rf"`\[*{name}[.`\]]", text), name


def test_the_reference_names_every_setting_of_shared_nodes() -> None:
    from sil.settings import time_shared_table as tables

    text = (FILES_PAGE).read_text()
    kinds = (tables.LocalUsersTable, tables.CoschedulingTable, tables.NodeMonitorsTable, tables.LimitsTable)
    for name in tables.SharedNodesTable.model_fields:
        assert f"`shared_nodes.{name}" in text, name
    for name in (name for kind in kinds for name in kind.model_fields):
        assert re.search(rf"\.{name}`|[{{ ]{name} = ", text), name


def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_links_between_documents_resolve() -> None:
    for document in [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("fixtures/*.md")]:
        for path, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", document.read_text()):
            target = document.parent / path if path else document
            if target == DOCS / "reference" / "commands.md":
                continue  # made when the site is built
            assert target.exists(), f"{document.name}: {path}"
            assert not anchor or anchor in anchors(target), f"{document.name}: {path}#{anchor}"


@pytest.mark.parametrize(
    "name",
    [
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        *(str(page.relative_to(ROOT)) for page in ROOT.glob("docs/explanation/how-*.md")),
    ],
)
def test_every_module_and_folder_named_in_a_document_exists(name: str) -> None:
    text = (ROOT / name).read_text()
    folders = "sil|scheduler|site_db|tests|docs|benchmarks|fixtures"
    named = set(re.findall(rf"(?<![\w/.])(?:{folders})/[\w/.-]*\w", text))
    named.discard("site_db/migrations/versions/vNNNN_name.py")  # a pattern
    assert named
    assert not [path for path in named if not (ROOT / path).exists()]
    dotted = set(re.findall(r"(?<![\w/.])(?:sil|scheduler|site_db)(?:\.[a-z_]\w*)+", text))
    assert not [module for module in dotted if not importable(module)]


def test_every_name_that_documents_and_docstrings_quote_exists() -> None:
    texts = [(path, path.read_text()) for path in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]]
    for path in all_files():
        strings = (node.value for node in nodes(path) if isinstance(node, ast.Constant))
        texts += [(path, text) for text in strings if isinstance(text, str)]
    of_classes, unknown = members(), []
    for path, text in texts:
        quoted = re.findall(r"(?<!`)`([A-Za-z_][\w.]*)\.(?!py\b|log\b)([A-Za-z_]\w*)(?:\(.*?\))?`", text)
        for owner, name in quoted:
            of = owner.rpartition(".")[2]
            if of[0].isupper() and not of.isupper():
                exists = name in of_classes.get(of, ())
            else:
                exists = owner.split(".")[0] not in PACKAGES or importable(f"{owner}.{name}")
            if not exists:
                unknown.append(f"{path.relative_to(ROOT)}: {owner}.{name}")
    assert not unknown, "\n".join(unknown)


def members() -> dict[str, set[str]]:
    """The names of the attributes of each class of the packages, and of Gymnasium's that we use."""
    found = {"AutoresetMode": {"NEXT_STEP"}}
    classes = [node for path in all_files() for node in nodes(path) if isinstance(node, ast.ClassDef)]
    for each in classes:
        names = found.setdefault(each.name, set())
        for node in ast.walk(each):
            if isinstance(node, ast.FunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.id if isinstance(node, ast.Name) else node.attr)
    for _ in range(4):  # bases of bases
        for each in classes:
            for base in each.bases:
                found[each.name] |= found.get(ast.unparse(base).split("[")[0], set())
    return found


def importable(dotted: str) -> bool:
    """Whether it is a package, a module, or a name in one; `scheduler.plugins` is an entry-point group."""
    path = ROOT.joinpath(*dotted.split("."))
    parent = path.parent / "__init__.py" if path.parent.is_dir() else path.parent.with_suffix(".py")
    return (
        path.is_dir()
        or path.with_suffix(".py").is_file()
        or (parent.is_file() and path.name in parent.read_text())
        or dotted == "scheduler.plugins"
    )


def test_the_changelog_has_a_section_for_the_package_version() -> None:
    assert f"## {sil.__version__}\n" in (ROOT / "CHANGELOG.md").read_text()
