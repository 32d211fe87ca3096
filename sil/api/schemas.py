"""JSON Schemas of the TOML files that users write, for editors: generated from the models that read them."""

from __future__ import annotations

import ast
import json
from inspect import cleandoc, getsource
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import ModelSchema

from sil.planning.plan_file import Plan
from sil.settings.experiment_file import Experiment
from sil.settings.files import FIXTURES
from site_db.site_file.tables import SiteFile

MODELS: dict[str, type[BaseModel]] = {"experiment": Experiment, "plan": Plan, "site": SiteFile}
"""By what a file describes."""


def schema_of(kind: str) -> dict[str, Any]:
    """The schema of a kind of file."""
    schema = MODELS[kind].model_json_schema(schema_generator=_WithDocstrings)
    title = f"{kind.capitalize()} file of sil-testbed"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": title}


class _WithDocstrings(GenerateJsonSchema):
    """Describes fields by the strings below them. Pydantic could do so itself, but it would each time
    that a model is imported."""

    def model_schema(self, schema: ModelSchema) -> dict[str, Any]:
        found = super().model_schema(schema)
        described = {key: text for cls in reversed(schema["cls"].__mro__) for key, text in _described(cls)}
        for name, field in schema["cls"].model_fields.items():
            if name in described:
                found["properties"][field.alias or name].setdefault("description", described[name])
        return found


def _described(cls: type) -> list[tuple[str, str]]:
    """The fields that a class adds to a model, and the strings below them."""
    if not issubclass(cls, BaseModel) or cls is BaseModel:
        return []
    (body,) = ast.parse(dedent(getsource(cls))).body
    assert isinstance(body, ast.ClassDef)
    return [
        (field.target.id, cleandoc(text.value.value))
        for field, text in pairwise(body.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    ]


def write_schemas(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for kind in MODELS:
        text = json.dumps(schema_of(kind), indent=1, ensure_ascii=False)
        (folder / f"{kind}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_schemas(FIXTURES / "schemas")
