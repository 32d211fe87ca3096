"""`sil slurm`: installations of Slurm's controller, and whether a configuration suits one; `sil validate`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from click.exceptions import Exit
from rich.table import Table

from scheduler import UserError
from sil.cli import console, options
from sil.cli.app import group
from sil.cli.parameters import Argument, CommandOption
from sil.cli.progress import TerminalProgress, progress
from sil.settings.replays import Rehearsing
from sil.site.logs import Validating
from sil.workers.execution import Execution

if TYPE_CHECKING:
    from rich.progress import Progress

    from sil.rehearsal.month import Month
    from sil.runs.on_log import Replay
    from sil.runs.under_test import UnderTest


def rehearse(
    accounting: Annotated[
        Path, Argument(help="Accounting, as printed by sacct; see `sil slurm rehearse` in the documents.")
    ],
    conf: Annotated[
        list[Path],
        CommandOption(help="The present slurm.conf; a second one, and further ones, are variants of it."),
    ],
    *,
    how: Rehearsing,
    out_folder: Annotated[Path | None, options.folder("sil-ACCOUNTING")] = None,
    where: Execution,
    as_json: options.Json = False,
) -> None:
    """Replay last month under Slurm's present controller and settings, and under others, and compare them.

    First, what accounting recorded is compared with the replay under the present settings: whether the month
    reproduces, what explains the rest, and what a comparison may be used for. Then each variant is compared
    with the present settings: who waits longer, by user, account, partition, QOS and size, beyond what two
    runs of the present settings differ by. Writes rehearsal.html, and the results of `sil replay`.
    """
    if not accounting.exists():
        console.fail(f"{accounting}: there is no such file")
    from sil.rehearsal.run import rehearsed
    from sil.runs.under_test import notes_on_slurm

    month, replay, schedulers = rehearsed(accounting, conf, how)
    notes = *month.log.notes, *notes_on_slurm(schedulers[:1] + schedulers[2:])
    _carry_out((month, replay, schedulers), notes, out_folder, where, as_json)


def validate(
    *,
    accounting: Annotated[
        Path | None,
        CommandOption(
            metavar="FILE",
            help="Accounting, as printed by sacct; see `sil db import-sacct --help`. Default: the jobs that "
            "the database of --site has recorded.",
        ),
    ] = None,
    scheduler: Annotated[
        str, CommandOption(help="fcfs, sjf, easy, easy_sjbf, conservative, 'slurm: slurm.conf', or your own.")
    ] = "easy",
    how: Validating,
    out_folder: Annotated[Path | None, options.folder("sil-ACCOUNTING")] = None,
    where: Execution,
    as_json: options.Json = False,
) -> None:
    """Replay a site's accounting under its stated policies, and say what the result is good enough for.

    Starts, waits, order and utilisation are compared with what happened, with intervals, and there is a
    verdict for each use: mean waits, utilisation, choosing between settings, purchases, and the waits of
    each partition, account and QOS. Writes validation.html, starts.csv, the results of `sil replay`, and
    verdicts.json, which `sil replay` and `sil plan` cite (--validation).
    """
    from sil.rehearsal.run import validated
    from sil.runs.under_test import notes_on_slurm

    month, replay, schedulers = validated(accounting, how, scheduler)
    cluster = [] if replay.slurm_statements or how.cluster is None else how.cluster.notes
    notes = *cluster, *month.log.notes, *notes_on_slurm(schedulers)
    _carry_out((month, replay, schedulers), notes, out_folder, where, as_json, how)


def _carry_out(
    what: tuple[Month, Replay, Sequence[UnderTest]],
    notes: Iterable[str],
    out: Path | None,
    where: Execution,
    as_json: bool,
    how: Validating | None = None,
) -> None:
    """Calibrate weights, if that is asked for, replay the month, write the results and print the verdicts."""
    from sil.experiment.output_folder import default_folder
    from sil.experiment.replay_folder import render
    from sil.rehearsal.page import headline, write_rehearsal
    from sil.rehearsal.run import read_rehearsal, rehearse
    from sil.rehearsal.sections import GAPS, gap_rows, judged_title

    for note in notes:
        console.print_note(note)
    (month, replay, schedulers), calibration = what, None
    folder = out or default_folder(month.log.name.split(".")[0])
    with progress("jobs") as bars, where.executor() as executor:
        bar = _Progress(bars, month.log.name, folder, as_json)
        if how is not None and how.calibrate is not None:
            from sil.rehearsal.calibration import calibrated

            month, replay, calibration = calibrated(month, replay, how)
            for sentence in () if as_json else calibration["sentences"]:
                console.print_line(sentence)
        outcomes = rehearse(month, replay, schedulers, folder, executor, bar, calibration)
    render(folder)
    console.exit_on_faults(outcome.fault for outcome in outcomes[:1] if outcome.fault is not None)
    found = read_rehearsal(folder)
    page = write_rehearsal(folder, found)
    if as_json:
        console.print_json(found.as_dict())
    else:
        table = Table("use", "verdict")
        for each in found.reproduction.judgements:
            table.add_row(judged_title(each), each.grade.value)
        console.print_table(table, table)
        missing = Table(*GAPS)
        for row in gap_rows(found.gaps):
            missing.add_row(*row)
        console.print_table(missing, missing)
        for variant in found.variants:
            console.print_line(headline(variant))
        console.print_line(f"Results are in {folder}; open {page} in a browser.")
    console.exit_on_faults(outcome.fault for outcome in outcomes if outcome.fault is not None)


class _Progress(TerminalProgress):
    """Prints whether the month reproduces as soon as that is known."""

    def __init__(self, progress: Progress, name: str, folder: Path, is_quiet: bool) -> None:
        super().__init__(progress, name)
        self._folder, self._is_quiet = folder, is_quiet

    def finished(self, scheduler: str) -> None:
        from sil.rehearsal.run import reproduced

        for sentence in () if self._is_quiet else reproduced(self._folder).sentences():
            console.print_line(sentence)


app = group("Slurm's controller under test: rehearsals of changes, other releases, and what they refuse.")
app.register()(rehearse)


@app.register()
def install(suite: str, folder: Path) -> None:
    """Unpack Slurm of another suite into a folder, with its database and munge.

    * `suite`: A suite of this computer's distribution, like trixie or sid.
    * `folder`: The folder to make; it takes about 150 MB.

    apt downloads the packages from this computer's mirror. Nothing is installed, and root is not needed. The
    scheduler 'slurm(root=FOLDER)' is the controller in that folder.
    """
    from sil.slurm.suite import unpack

    found = unpack(suite, folder)
    console.print_line(f"{folder} has Slurm {found.release.name} ({found.package}).")
    if found.release.not_tested is not None:
        console.print_note(found.release.not_tested)
    console.print_line(f"Use it with --scheduler 'slurm(root={folder}): slurm.conf'.")


@app.register()
def check(
    conf: Path, release: str | None = None, prefix: Path | None = None, root: Path | None = None
) -> None:
    """List what a release of Slurm refuses or ignores of a slurm.conf, with its lines, all at once.

    * `conf`: The operator's slurm.conf.
    * `release`: Only list what this release does not take, like 26.05; it need not be here.
    * `prefix`: The Slurm below this folder, with sbin, bin and lib.
    * `root`: The Slurm in this folder, as `sil slurm install` makes.

    Then its controller is started with the configuration as it would be for a run. The exit code is 1 if a
    setting is refused. Without an option, the release is that of this computer.
    """
    from sil.slurm.configuration import read_configuration, settings_gone
    from sil.slurm.installation import SlurmFolders, installed
    from sil.slurm.protocol.releases import Release
    from sil.slurm.running import EPOCH_S, How, running
    from sil.slurm.settings.selection import LAST

    if release is not None and (prefix or root):
        raise UserError("--release names a release that need not be here; leave --prefix and --root out")
    installation = None if release is not None else installed(SlurmFolders(prefix, root))
    of = Release.of(release or "") if installation is None else installation.release
    if of is None:
        raise UserError(f"--release is '{release}'; expected one like 26.05")
    found = settings_gone(conf, of)
    for each in found:
        console.print_line(f"Slurm {of.name} {'refuses' if each.is_refused else 'ignores'} {each}")
    if of.series > LAST:
        console.print_note(f"the settings of releases after {LAST} are not known here")
    if any(each.is_refused for each in found):
        raise Exit(1)
    if installation is not None:
        how = How(by_munge=True, installation=installation)
        with running(read_configuration(conf, of), EPOCH_S, how=how):
            console.print_line(f"The controller of Slurm {of.name} starts with {conf}.")
        if of.not_tested is not None:
            console.print_note(of.not_tested)
    elif not found:
        console.print_line(f"Nothing in {conf} is known to be refused or ignored by Slurm {of.name}.")
