"""`sil slurm rehearse`: last month under the present settings of Slurm, and under others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from sil.cli import console, options
from sil.cli.progress import ProgressBar, progress
from sil.cli.replay import print_notes_on_slurm
from sil.workers.execution import Execution

if TYPE_CHECKING:
    from rich.progress import Progress


def rehearse(
    accounting: Annotated[
        Path, Argument(help="Accounting, as printed by sacct; see `sil slurm rehearse` in the documents.")
    ],
    conf: Annotated[
        list[Path],
        Option(help="The present slurm.conf; a second one, and further ones, are variants of it."),
    ],
    to: Annotated[
        list[str] | None,
        Option(help="Another Slurm: a prefix like /opt/slurm-26.05, or a root directory. Repeatable."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        Option(
            "--set",
            help="Other settings, like SchedulerParameters=bf_interval={10,30,60}: one variant for each "
            "of the values in braces. Repeatable, for all combinations.",
        ),
    ] = None,
    since: options.Begin = None,
    warm_up_days: Annotated[
        float,
        Option(
            min=0.0, help="Days before --from that are replayed, and do not count: two half-lives of usage."
        ),
    ] = 14.0,
    time_zone: options.TimeZone = None,
    slurm_step: Annotated[
        float, Option(min=0.1, max=600.0, help="Seconds from one look of the controller to the next.")
    ] = 30.0,
    out_folder: Annotated[Path | None, options.folder("sil-ACCOUNTING")] = None,
    *,
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
    from sil.experiment.output_folder import default_folder
    from sil.experiment.replay_folder import render
    from sil.rehearsal.page import PAGE, headline, write_rehearsal
    from sil.rehearsal.run import read_rehearsal, rehearse
    from sil.rehearsal.variants import Question

    folder = out_folder or default_folder(accounting.name.split(".")[0])
    asked = Question(accounting, conf, to or (), set_ or (), since, warm_up_days, time_zone, slurm_step)
    month, replay, schedulers = asked.prepared()
    for note in month.log.notes:
        console.print_note(note)
    print_notes_on_slurm(schedulers[:1] + schedulers[2:])
    with progress("jobs") as bars, where.executor() as executor:
        bar = _Progress(bars, month.log.name, folder, as_json)
        outcomes = rehearse(month, replay, schedulers, folder, executor, bar)
    render(folder)
    console.exit_on_faults(outcome.fault for outcome in outcomes[:1] if outcome.fault is not None)
    found = read_rehearsal(folder)
    write_rehearsal(folder, found)
    if as_json:
        console.print_json(found.as_dict())
    for variant in () if as_json else found.variants:
        console.print_line(headline(variant))
    if not as_json:
        console.print_line(f"Results are in {folder}; open {folder / PAGE} in a browser.")
    console.exit_on_faults(outcome.fault for outcome in outcomes if outcome.fault is not None)


class _Progress(ProgressBar):
    """Prints whether the month reproduces as soon as that is known."""

    def __init__(self, progress: Progress, name: str, folder: Path, is_quiet: bool) -> None:
        super().__init__(progress, name)
        self._folder, self._is_quiet = folder, is_quiet

    def finished(self, scheduler: str) -> None:
        from sil.rehearsal.run import reproduced

        for sentence in () if self._is_quiet else reproduced(self._folder).sentences():
            console.print_line(sentence)
