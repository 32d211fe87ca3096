"""JSON Schemas of the TOML files that users write, for editors: generated from the models that read them."""

from __future__ import annotations

import json
from inspect import cleandoc
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import ModelSchema

from sil.declared import sentences_of, without_sentences
from sil.planning.plan_file import Plan
from sil.settings.experiment_file import Experiment
from sil.settings.files import FIXTURES
from site_db.site_file.tables import SiteFile

MODELS: dict[str, type[BaseModel]] = {"experiment": Experiment, "plan": Plan, "site": SiteFile}
"""The model of each kind of file."""


def schema_of(kind: str) -> dict[str, Any]:
    """The schema of a kind of file."""
    schema = MODELS[kind].model_json_schema(schema_generator=_WithDocstrings)
    title = f"{kind.capitalize()} file of sil-testbed"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": title}


class _WithDocstrings(GenerateJsonSchema):
    """Describes fields by the lists in the docstrings of their models."""

    def model_schema(self, schema: ModelSchema) -> dict[str, Any]:
        found, cls = super().model_schema(schema), schema["cls"]
        if "description" in found:
            found["description"] = cleandoc(without_sentences(cls.__doc__))
        for name, sentence in sentences_of(cls).items():
            found["properties"][name].setdefault("description", sentence)
        return found


def write_schemas(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for kind in MODELS:
        text = json.dumps(schema_of(kind), indent=1, ensure_ascii=False)
        (folder / f"{kind}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_schemas(FIXTURES / "schemas")
