"""When the site of documents is built: the page on commands, from their help texts, and quiet notebooks."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

COMMANDS = "reference/commands.md"


def on_startup(**_: object) -> None:
    """Kernels of notebooks warn about their transport, which stays on this computer."""
    settings = Path(mkdtemp(prefix="sil-ipython-")) / "profile_default"
    settings.mkdir()
    (settings / "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 40\n")
    os.environ["IPYTHONDIR"] = str(settings.parent)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    files.append(File.generated(config, COMMANDS, content="\n".join(["# Commands", *_sections()])))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Functions with declared settings, whose keywords are known only when they are imported."""
    if page.file.src_uri != "reference/api.md":
        return markdown
    for name in ("read_log", "replay", "sweep", "plan", "rehearse"):
        markdown = markdown.replace(f"::: sil.{name}\n", f"{_function(name)}\n")
    return markdown


def _function(name: str) -> str:
    import sil

    function = getattr(sil, name)
    parameters: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parameters:
            parameters.append("*")
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        parameters.append(f"{'**' * (parameter.kind is parameter.VAR_KEYWORD)}{parameter.name}{default}")
    signature = "".join(f"    {parameter},\n" for parameter in parameters)
    text = inspect.getdoc(function)
    return f"### `sil.{name}` {{ #sil.{name} }}\n\n```python\nsil.{name}(\n{signature})\n```\n\n{text}\n"


def _sections() -> Iterator[str]:
    from sil.cli.app import PLACES, loaded, name_of

    for place in PLACES:
        command, name = loaded(place), name_of(place)
        yield f"\n## `sil {name}`\n"
        yield _help(command, f"sil {name}")
        for below, each in getattr(command, "commands", {}).items():
            yield f"\n### `sil {name} {below}`\n"
            yield _help(each, f"sil {name} {below}")


def _help(command: Any, name: str) -> str:
    context = click.Context(command, info_name=name, max_content_width=100, terminal_width=100)
    return f"```text\n{command.get_help(context)}\n```"
