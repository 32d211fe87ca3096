"""`sil predict`: predicted start and completion times of jobs on time-shared nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.table import Table

from sil.cli import console, options
from sil.declared import Setting, Settings

if TYPE_CHECKING:
    from rich.text import Text

    from sil.experiment.turnaround import Question, QueueFile, TurnaroundPrediction
    from sil.site.time_shared_cluster import NodesOfSite

MAX_SECONDS = 3.2e9


@dataclass(frozen=True, kw_only=True)
class PredictionOptions(Settings):
    """Which predictions, of what.

    * `site`: A site in a database (site.db#SITE), whose past prediction errors give the intervals; or a site
      file, or the name of a built-in one.
    * `cluster`: The time-shared cluster; optional if the site has only one.
    * `scheduler`: The scheduler of that cluster.
    * `predictor`: aware, blind or hybrid, optionally with methods, as in 'blind mpl-mpl' (default cpu-cpu).
    * `submit`: Predict a hypothetical job submitted now, such as CG.B:4.
    * `job`: Predict only this job.
    * `by`: Whether completion by then can be promised: a duration from now (900, 15m, 2h), or a time
      (2026-11-22T17:00).
    """

    site: Annotated[str, Setting(metavar="SITE")]
    cluster: str | None = None
    scheduler: str = "normal_easy"
    predictor: str = "aware"
    submit: Annotated[str | None, Setting(metavar="CLASS:TASKS")] = None
    job: int | None = None
    by: Annotated[str | None, Setting(metavar="TIME")] = None


def predict(queue: Path, *, asked: PredictionOptions, as_json: options.Json = False) -> None:
    """Predict when jobs on time-shared nodes start and complete, with an interval and its basis.

    * `queue`: A queue file: the running and waiting jobs (see docs/how-to/shared-nodes.md).
    """
    from sil.experiment.turnaround import predict_turnaround, read_queue_file
    from sil.world.guard.faults import SchedulerFault

    now, job = datetime.now(), asked.job
    if asked.submit is not None and job is not None:
        console.fail("--submit and --job predict different jobs; give only one of them")
    by_s = None if asked.by is None else _seconds_from(now, asked.by)
    state = read_queue_file(queue)
    question = _question(asked)
    if asked.submit is not None:
        state = _with_submitted(state, asked.submit, question.nodes)
        job = state.waiting[-1].job
    try:
        predictions = predict_turnaround(state, queue, question)
    except SchedulerFault as fault:
        console.exit_with_fault(fault.by(asked.scheduler))
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


def _question(asked: PredictionOptions) -> Question:
    from sil.experiment.turnaround import Question
    from sil.runs.under_test import resolve
    from sil.settings import files
    from sil.site.site_in_use import errors_under
    from sil.site.time_shared_cluster import NodesOfSite
    from site_db import sites, store
    from site_db.site_file import importing
    from site_db.sites import SiteReader
    from site_db.states import current_states

    scheduler, predictor = resolve(asked.scheduler), asked.predictor
    if asked.site in files.built_in("sites") or asked.site.endswith(".toml"):
        file = importing.read_site_file(files.find(asked.site, "sites", Path()))
        return Question(NodesOfSite.of(file, asked.cluster), scheduler, predictor)
    address = store.parse_address(asked.site)
    with sites.opened(address) as session:
        reader = SiteReader(session, sites.site_at(session, address))
        nodes = NodesOfSite.of(reader.as_file(), asked.cluster)
        errors = errors_under(session, reader.site.id, [asked.scheduler], reader.site.runs_recorded)
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
