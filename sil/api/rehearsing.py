"""Rehearsals of Slurm from Python."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from scheduler import UserError
from sil.api.calls import Working
from sil.api.progress import warn
from sil.declared import as_keyword, spread
from sil.experiment.replay_folder import render
from sil.rehearsal.page import write_rehearsal
from sil.rehearsal.run import Rehearsal, read_rehearsal
from sil.rehearsal.run import rehearse as rehearsed
from sil.rehearsal.variants import Question
from sil.workers.executor import Interrupted


@spread(as_keyword)
def rehearse(
    accounting: str | Path,
    conf: str | Path,
    *others: str | Path,
    folder: str | Path,
    to: Sequence[str] = (),
    settings: Sequence[str] = (),
    since: datetime | None = None,
    warm_up_days: float = 14.0,
    time_zone: str | None = None,
    slurm_step_s: float = 30.0,
    where: Working,
) -> Rehearsal:
    """Replay accounting under Slurm's present settings and others, with the results of `sil slurm rehearse`.

    The arguments are the options of the command: `others` are further files (`--conf`), `to` other
    installations, `settings` texts like "SchedulerParameters=bf_interval={10,30}" (`--set`), `since` is
    `--from`. `folder` gets the results, with `rehearsal.html`; with the same one, an interrupted rehearsal
    goes on.

    {where}

    Ctrl-C raises KeyboardInterrupt. Raises UserError for invalid files and settings, and if the present
    controller fails.
    """
    confs = [Path(path) for path in (conf, *others)]
    asked = Question(Path(accounting), confs, to, settings, since, warm_up_days, time_zone, slurm_step_s)
    month, replay, schedulers = asked.prepared()
    for note in month.log.notes:
        warn(note)
    with where.listened(month.log.name, "jobs") as (listener, executor):
        try:
            present, *_ = rehearsed(month, replay, schedulers, Path(folder), executor, listener)
        except Interrupted:
            raise KeyboardInterrupt from None
    if present.fault is not None:
        raise UserError(present.fault)
    render(Path(folder))
    found = read_rehearsal(Path(folder))
    write_rehearsal(Path(folder), found)
    return found
