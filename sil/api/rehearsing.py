"""Rehearsals of Slurm, and validations of a site's policies, from Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scheduler import UserError
from sil.api.calls import Working, warn
from sil.declared import as_keyword, spread
from sil.experiment.replay import Outcome
from sil.experiment.replay_folder import render
from sil.rehearsal import REHEARSAL, VALIDATION
from sil.rehearsal.month import Month
from sil.rehearsal.page import write_rehearsal
from sil.rehearsal.run import Rehearsal, read_rehearsal, rehearsed
from sil.rehearsal.run import rehearse as replayed
from sil.rehearsal.validation import Validation, read_validation, validated, write_validation
from sil.runs.on_log import Replay
from sil.runs.under_test import UnderTest, check_for_logs, named
from sil.settings.replays import Rehearsing
from sil.site.logs import Validating
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
    present = _replayed(month, replay, schedulers, Path(folder), where)
    if present.fault is not None:
        raise UserError(present.fault)
    render(Path(folder))
    found = read_rehearsal(Path(folder))
    write_rehearsal(Path(folder), found)
    return found


@spread(as_keyword)
def validate(
    accounting: str | Path,
    schedulers: object = "easy",
    *,
    folder: str | Path,
    how: Validating,
    where: Working,
) -> Validation:
    """Replay accounting under a site's stated policies, with the results of `sil validate`.

    `schedulers` are one or several, as in `replay`. The `folder` gets the results, with `validation.html`. Of
    the result, `found` has by scheduler what agrees with what happened, with `judgements` and `groups`.

    {how}
    {where}

    Ctrl-C raises KeyboardInterrupt. Raises UserError for invalid files and settings, and for a scheduler that
    breaks a rule.
    """
    under_test = [*named(schedulers, isolated=True, raises_faults=False).values()]
    check_for_logs(under_test, with_requests=True)
    month, replay = validated(Path(accounting), how, under_test)
    for note in month.log.notes:
        warn(note)
    first = _replayed(month, replay, under_test, Path(folder), where, VALIDATION)
    if first.fault is not None:
        raise UserError(first.fault)
    render(Path(folder))
    found = read_validation(Path(folder))
    write_validation(Path(folder), found)
    return found


def _replayed(
    month: Month,
    replay: Replay,
    schedulers: Sequence[UnderTest],
    folder: Path,
    where: Working,
    file: str = REHEARSAL,
) -> Outcome:
    """The outcome of the first scheduler."""
    with where.listened(month.log.name, "jobs") as (listener, executor):
        try:
            return replayed(month, replay, schedulers, folder, executor, listener, file)[0]
        except Interrupted:
            raise KeyboardInterrupt from None
