"""`sil slurm`: installations of Slurm's controller, and whether a configuration suits one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from scheduler import UserError
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

    found = unpack(suite, folder)
    console.print_line(f"{folder} has Slurm {found.release.name} ({found.package}).")
    if found.release.not_tested is not None:
        console.print_note(found.release.not_tested)
    console.print_line(f"Use it with --scheduler 'slurm(root={folder}): slurm.conf'.")


@app.command()
def check(
    conf: Annotated[Path, Argument(help="The operator's slurm.conf.")],
    release: Annotated[
        str | None, Option(help="Only list what this release does not take, like 26.05; it need not be here.")
    ] = None,
    prefix: Annotated[
        Path | None, Option(help="The Slurm below this folder, with sbin, bin and lib.")
    ] = None,
    root: Annotated[
        Path | None, Option(help="The Slurm in this folder, as `sil slurm install` makes.")
    ] = None,
) -> None:
    """List what a release of Slurm refuses or ignores of a slurm.conf, with its lines, all at once.

    Then its controller is started with the configuration as it would be for a run. The exit code is 1 if a
    setting is refused. Without an option, the release is that of this computer.
    """
    from sil.slurm.configuration import read_configuration, settings_gone
    from sil.slurm.controller import How, running
    from sil.slurm.credential import munge_if_installed
    from sil.slurm.installation import Place, installed
    from sil.slurm.release import Release
    from sil.slurm.settings.gone import LAST
    from sil.slurm.world import EPOCH_S

    if release is not None and (prefix or root):
        raise UserError("--release names a release that need not be here; leave --prefix and --root out")
    installation = None if release is not None else installed(Place(prefix, root))
    of = Release.of(release or "") if installation is None else installation.release
    if of is None:
        raise UserError(f"--release is '{release}'; expected one like 26.05")
    found = settings_gone(conf, of)
    for each in found:
        console.print_line(f"Slurm {of.name} {'refuses' if each.is_refused else 'ignores'} {each}")
    if of.series > LAST:
        console.print_note(f"the settings of releases after {LAST} are not known here")
    if any(each.is_refused for each in found):
        raise typer.Exit(1)
    if installation is not None:
        how = How(credential=munge_if_installed, installation=installation)
        with running(read_configuration(conf, of), EPOCH_S, how=how):
            console.print_line(f"The controller of Slurm {of.name} starts with {conf}.")
    elif not found:
        console.print_line(f"Nothing in {conf} is known to be refused or ignored by Slurm {of.name}.")
