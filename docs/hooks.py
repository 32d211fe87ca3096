"""When the site of documents is built: the page on commands, from their help texts, and quiet notebooks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

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


def _sections() -> Iterator[str]:
    from sil.cli.app import Commands
    from sil.cli.lazy_group import loaded

    for name, listed in Commands.listed.items():
        yield f"\n## `sil {name}`\n"
        command = loaded(listed, name)
        yield _help(command, f"sil {name}")
        for below, each in getattr(command, "commands", {}).items():
            yield f"\n### `sil {name} {below}`\n"
            yield _help(each, f"sil {name} {below}")


def _help(command: Any, name: str) -> str:
    context = click.Context(command, info_name=name, max_content_width=100, terminal_width=100)
    return f"```text\n{command.get_help(context)}\n```"
