"""Generates a package with a scheduler, from the templates in this folder."""

from __future__ import annotations

import keyword
import re
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from scheduler import UserError, registry
from scheduler.rules import Kind
from sil.usable import VERSION


def write_package(name: str, kind: Kind, folder: Path) -> list[Path]:
    """Write the package `name` into `folder`; returns its files. Raises UserError."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise UserError(f"'{name}' is not a valid package name; expected lower-case letters, digits and _")
    if name in registry.names():
        raise UserError(f"a scheduler '{name}' already exists; choose another name")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} already exists; choose another folder with --out")
    templates = Environment(
        loader=PackageLoader("sil.experiment.new_scheduler", "."),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # nothing of it is HTML
    )
    values = {
        "name": name,
        "class_name": "".join(part.capitalize() for part in name.split("_") if part),
        "kind": kind.value,
        "version": VERSION,
        "parameter": "most_jobs=4" if kind is Kind.TIME_SHARED else "patience_s=60",
    }
    files = {
        "pyproject.toml": "pyproject.toml.j2",
        "README.md": "README.md.j2",
        f"{name}/__init__.py": f"{kind.replace('-', '_')}.py.j2",
        f"tests/test_{name}.py": "test.py.j2",
    }
    try:
        for path, template in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(templates.get_template(template).render(values), encoding="utf-8")
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}") from None
    return [folder / path for path in files]
