"""`sil slurm`: installations of Slurm's controller, and whether a configuration suits one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument

from sil.cli import console
from sil.cli.slurm.rehearse import rehearse
from sil.cli.start.lazy_group import group

app = group("Slurm's controller under test: rehearsals of changes, other releases, and what they refuse.")
app.command()(rehearse)


@app.command()
def install(
    suite: Annotated[str, Argument(help="A suite of this computer's distribution, like trixie or sid.")],
    folder: Annotated[Path, Argument(help="The folder to make; it takes about 150 MB.")],
) -> None:
    """Unpack Slurm of another suite into a folder, with its database and munge.

    apt downloads the packages from this computer's mirror. Nothing is installed, and root is not needed. The
    scheduler 'slurm(root=FOLDER)' is the controller in that folder.
    """
    from sil.slurm.roots.suite import unpack

    with console.one_sentence_for_bad_input():
        found = unpack(suite, folder)
    console.print_line(f"{folder} has Slurm {found.release.name} ({found.package}).")
    if found.release.not_tested is not None:
        console.print_note(found.release.not_tested)
    console.print_line(f"Use it with --scheduler 'slurm(root={folder}): slurm.conf'.")
