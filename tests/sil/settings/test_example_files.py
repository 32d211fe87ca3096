"""The examples that come with the package, and the schemas of their files."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from sil.settings.files import FIXTURES
from site_db.site_file.tables import SiteFile
from tests.commands import sil, succeeded
from tests.schemas import MODELS, schema_of

EXAMPLES = {kind: sorted((FIXTURES / f"{kind}s").glob("*.toml")) for kind in MODELS}


def mistakes(kind: str, text: str) -> list[str]:
    schema = json.loads((FIXTURES / "schemas" / f"{kind}.json").read_text())
    return [error.message for error in Draft202012Validator(schema).iter_errors(tomllib.loads(text))]


@pytest.mark.parametrize("kind", MODELS)
def test_schemas_are_those_of_the_models(kind: str) -> None:
    written = json.loads((FIXTURES / "schemas" / f"{kind}.json").read_text())
    assert written == schema_of(kind), "write them again: python -m tests.schemas"


@pytest.mark.parametrize(
    ("kind", "path"), [(kind, path) for kind, paths in EXAMPLES.items() for path in paths], ids=str
)
def test_editors_accept_every_example(kind: str, path: Path) -> None:
    text = path.read_text()
    assert mistakes(kind, text) == []
    assert (path.parent / re.findall(r"\A#:schema (.+)$", text, re.MULTILINE)[0]).is_file()


@pytest.mark.parametrize(
    ("kind", "name", "before", "after"),
    [
        ("experiment", "light-to-heavy", "replications", "replication"),
        ("experiment", "light-to-heavy", "replications = 20", "replications = 0"),
        ("plan", "five-offers", "price =", "prise ="),
        ("site", "hcs-2001", "members", "member"),
    ],
)
def test_editors_mark_a_mistake(kind: str, name: str, before: str, after: str) -> None:
    text = (FIXTURES / f"{kind}s" / f"{name}.toml").read_text()
    assert before in text
    assert mistakes(kind, text.replace(before, after))


def test_editors_accept_other_units_of_a_request() -> None:
    request = {"memory_mb_per_core": 2000, "total_gpus": 4, "nodes": 2}
    site = {"name": "x", "machine_classes": [], "job_classes": [{"name": "a", "request": request}]}
    errors = Draft202012Validator(schema_of("site")).iter_errors(site)
    assert [error.message for error in errors] == []
    SiteFile.model_validate(site)


def test_copies_are_run_and_never_replace_another_file(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    assert "sil run" in sil("experiments", "copy", folder).output
    path = folder / "experiments" / "light-to-heavy.toml"
    succeeded("run", path, "--replications", "1", "--scheduler", "mct", "--out", tmp_path / "out")
    succeeded("experiments", "copy", folder)
    path.write_text("mine")
    refused = sil("experiments", "copy", folder)
    assert refused.exit_code == 2
    assert "exists and is another file" in " ".join(refused.output.split())
    assert path.read_text() == "mine"
