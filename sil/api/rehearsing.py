"""Rehearsals of Slurm from Python."""

from __future__ import annotations

from pathlib import Path

from scheduler import UserError
from sil.api.calls import Working, warn
from sil.declared import as_keyword, spread
from sil.experiment.replay_folder import render
from sil.rehearsal.page import write_rehearsal
from sil.rehearsal.run import Rehearsal, read_rehearsal, rehearsed
from sil.rehearsal.run import rehearse as replayed
from sil.settings.replays import Rehearsing
from sil.workers.executor import Interrupted


@spread(as_keyword)
def rehearse(
    accounting: str | Path,
    conf: str | Path,
    *others: str | Path,
    folder: str | Path,
    how: Rehearsing,
    where: Working,
) -> Rehearsal:
    """Replay accounting under Slurm's present settings and others, with the results of `sil slurm rehearse`.

    The first `conf` is the present slurm.conf, `others` are variants of it. `folder` gets the results, with
    `rehearsal.html`; with the same one, an interrupted rehearsal goes on.

    {how}
    {where}

    Ctrl-C raises KeyboardInterrupt. Raises UserError for invalid files and settings, and if the present
    controller fails.
    """
    confs = [Path(path) for path in (conf, *others)]
    month, replay, schedulers = rehearsed(Path(accounting), confs, how)
    for note in month.log.notes:
        warn(note)
    with where.listened(month.log.name, "jobs") as (listener, executor):
        try:
            present, *_ = replayed(month, replay, schedulers, Path(folder), executor, listener)
        except Interrupted:
            raise KeyboardInterrupt from None
    if present.fault is not None:
        raise UserError(present.fault)
    render(Path(folder))
    found = read_rehearsal(Path(folder))
    write_rehearsal(Path(folder), found)
    return found
