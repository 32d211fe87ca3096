"""`sil predict`: predicted start and completion times of jobs, here those on time-shared nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from sil.cli import console, options
from sil.cli.prediction_options import OfLog, OfQueueFile, PredictionOptions
from sil.declared import Settings, declared

if TYPE_CHECKING:
    from rich.text import Text

    from sil.experiment.turnaround import Question, QueueFile, TurnaroundPrediction
    from sil.site.time_shared_cluster import NodesOfSite

MAX_SECONDS = 3.2e9


def predict(
    file: Path,
    *,
    asked: PredictionOptions,
    of_queue: OfQueueFile,
    of_log: OfLog,
    as_json: options.Json = False,
) -> None:
    """Predict when the jobs of a queue or of a log start and end, with intervals.

    * `file`: A queue file (TOML): the jobs that run and wait on time-shared nodes (see
      docs/how-to/shared-nodes.md). Or a log, like that of `sil replay`, at some time (see
      docs/how-to/forecasts.md).
    """
    is_queue = file.suffix.lower() == ".toml"
    given = {*_given(of_log if is_queue else of_queue), *(_given(asked) if is_queue else ())}
    if without := given - {"site", "scheduler", "submit", "job", "by"}:
        what = "a queue file" if is_queue else "a log; it is for queue files"
        option = "cluster" if without == {"shared_nodes"} else min(without).replace("_", "-")
        console.fail(f"--{option} has no effect on {file}, which is {what}; leave it out")
    if asked.submit is not None and asked.job is not None:
        console.fail("--submit and --job predict different jobs; give only one of them")
    if is_queue:
        _predict_queue(file, asked, of_queue, as_json)
        return
    if not file.exists():  # before anything is loaded
        console.fail(f"{file}: there is no such file")
    from sil.cli.forecasts import forecast

    forecast(file, asked, of_log, as_json)


def _given(settings: Settings) -> Iterator[str]:
    """The fields that do not have their defaults."""
    return (x.name for x in declared(type(settings)) if getattr(settings, x.name) != x.default)


def _predict_queue(queue: Path, asked: PredictionOptions, more: OfQueueFile, as_json: bool) -> None:
    from sil.experiment.turnaround import predict_turnaround, read_queue_file
    from sil.world.guard.faults import SchedulerFault

    now, job = datetime.now(), None if asked.job is None else int(asked.job)
    scheduler = asked.scheduler or "normal_easy"
    by_s = None if asked.by is None else _seconds_from(now, asked.by)
    state = read_queue_file(queue)
    question = _question(asked.site, scheduler, more)
    if asked.submit is not None:
        state = _with_submitted(state, asked.submit, question.nodes)
        job = state.waiting[-1].job
    try:
        predictions = predict_turnaround(state, queue, question)
    except SchedulerFault as fault:
        console.exit_with_fault(fault.by(scheduler))
    if not predictions:
        console.fail(f"{queue}: there are no jobs; predict a hypothetical one with --submit CLASS:TASKS")
    if job is not None:
        predictions = [one for one in predictions if one.job == job]
        if not predictions:
            jobs = ", ".join(str(table.job) for table in state.jobs)
            console.fail(f"{queue}: there is no job {job}; there are {jobs}")
    if as_json:
        promised = [{} if by_s is None else {"promised": one.promises(by_s)} for one in predictions]
        console.print_json([one.as_dict() | more for one, more in zip(predictions, promised, strict=True)])
        return
    _print_table(predictions, now)
    _print_basis(predictions, state, question)
    if by_s is not None:
        for one in predictions:
            console.print_line(*_answer(one, by_s, now))


def _question(site: str | None, name: str, asked: OfQueueFile) -> Question:
    from sil.experiment.turnaround import Question
    from sil.runs.under_test import resolve
    from sil.settings import files
    from sil.site.site_in_use import errors_under
    from sil.site.time_shared_cluster import NodesOfSite
    from site_db import sites, store
    from site_db.site_file import importing
    from site_db.sites import SiteReader
    from site_db.states import current_states

    if site is None:
        console.fail("a queue file is of a site; name it with --site")
    scheduler, predictor = resolve(name), asked.predictor
    if site in files.built_in("sites") or site.endswith(".toml"):
        file = importing.read_site_file(files.find(site, "sites", Path()))
        return Question(NodesOfSite.of(file, asked.shared_nodes), scheduler, predictor)
    address = store.parse_address(site)
    with sites.opened(address) as session:
        reader = SiteReader(session, sites.site_at(session, address))
        nodes = NodesOfSite.of(reader.as_file(), asked.shared_nodes)
        errors = errors_under(session, reader.site.id, [name], reader.site.runs_recorded)
        down = current_states(session, reader).down
        return Question(nodes, scheduler, predictor, tuple(errors), frozenset(down))


def _with_submitted(state: QueueFile, submit: str, nodes: NodesOfSite) -> QueueFile:
    job_class, _, tasks = submit.rpartition(":")
    if not job_class or not re.fullmatch("[0-9]{1,9}", tasks) or int(tasks) < 1:
        console.fail(f"--submit '{submit}': expected a job class and a number of tasks, such as CG.B:4")
    sizes = nodes.known.sizes()
    if int(tasks) not in sizes.get(job_class, ()):
        known = ", ".join(f"{name}:{n}" for name in sizes for n in sizes[name])
        console.fail(
            f"--submit '{submit}': the site has no measurement of this job in isolation; it has {known}"
        )
    return state.with_submitted(job_class, int(tasks))


def _seconds_from(now: datetime, by: str) -> float:
    from sil.api.logs import DURATION
    from sil.api.logs import seconds as seconds_of

    if DURATION.fullmatch(by):
        seconds = seconds_of(by)
    else:
        try:
            then = datetime.fromisoformat(by)
        except ValueError:
            expected = "a duration from now (900, 15m or 2h) or a time (2026-11-22T17:00)"
            console.fail(f"--by '{by}': expected {expected}")
        seconds = (then - (datetime.now(then.tzinfo) if then.tzinfo else now)).total_seconds()
        if seconds <= 0:
            console.fail(f"--by '{by}': that time has passed")
    if seconds > MAX_SECONDS:
        console.fail(f"--by '{by}': that is more than {MAX_SECONDS / 86_400 / 365:.0f} years from now")
    return seconds


def _print_table(predictions: list[TurnaroundPrediction], now: datetime) -> None:
    def seconds(value: float) -> str:
        return "never (predicted)" if isinf(value) else f"{value:,.0f}"

    table = Table("job", "class", title="Predicted, from now")
    for heading in ("tasks", "starts in (s)", "ends in (s)", "80 % interval (s)", "ends at"):
        table.add_column(heading, justify="right")
    for one in predictions:
        has_interval = one.low_s is not None and one.high_s is not None
        has_end = not one.overdue and one.end_s <= MAX_SECONDS
        table.add_row(
            str(one.job),
            one.job_class,
            str(one.tasks),
            "runs" if one.start_s is None else seconds(one.start_s),
            "overdue" if one.overdue else seconds(one.end_s),
            f"{one.low_s:,.0f} to {one.high_s:,.0f}" if has_interval else "-",
            f"{now + timedelta(seconds=one.end_s):%a %H:%M:%S}" if has_end else "-",
        )
    console.print_table(table)


def _print_basis(predictions: list[TurnaroundPrediction], state: QueueFile, question: Question) -> None:
    from scheduler.time_shared.forecast import MIN_ERRORS

    waiting = f"{len(state.running)} running and {len(state.waiting)} waiting jobs"
    nodes = f"the {len(question.nodes.names)} nodes of {question.nodes.cluster}"
    console.print_line(
        f"Basis: {question.predictor} over {question.scheduler.label}, {waiting} on {nodes}; local load and "
        "nodes as they are now, and no later arrivals."
    )
    if guessed := [str(table.job) for table in state.running if table.cpu_used_s is None]:
        jobs = ", ".join(guessed)
        console.print_line(f"No CPU time is given for job {jobs}; it is assumed to have run alone so far.")
    for one in predictions:
        if one.overdue:
            basis = f"Job {one.job} has used the CPU time measured in isolation: its completion is unknown"
        elif one.basis is None:
            why = f"fewer than {MIN_ERRORS} similar predictions have been scored at this site"
            basis = f"Job {one.job}: no interval, because {why}"
        else:
            basis = f"Job {one.job}: interval from {one.basis.n_errors:,} errors of {one.basis.alike}"
        console.print_line(f"{basis}.")


def _answer(one: TurnaroundPrediction, by_s: float, now: datetime) -> tuple[Text, str]:
    job, then = f"job {one.job}", f"{now + timedelta(seconds=by_s):%a %H:%M:%S} ({by_s:,.0f} s from now)"
    if one.promises(by_s):
        can = f": {job} can be promised by {then}; nine in ten similar jobs would."
        return console.styled("Yes", "bold green"), can
    if one.end_s > by_s and not one.overdue:
        return console.styled("No", "bold red"), f": {job} is predicted to end later than {then}."
    if one.overdue:
        why = f"{job} is overdue; its completion is unknown"
    elif one.after:
        why = f"{job} waits for job {', '.join(map(str, one.after))}, which is overdue"
    elif one.high_s is None:
        why = f"{job} is predicted to end by {then}, but there is no interval"
    else:
        but = f"one in ten similar jobs took more than {one.high_s:,.0f} s"
        why = f"{job} is predicted to end by {then}, but {but}"
    return console.styled("Not promised", "bold yellow"), f": {why}."
