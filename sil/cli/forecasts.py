"""`sil predict` of a log: the present state of a batch system, run forward."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from rich.table import Column, Table

from scheduler import UserError
from scheduler.messages import counted
from sil.api.logs import second_of_log, seconds
from sil.cli import console
from sil.cli.prediction_options import OfLog, PredictionOptions
from sil.cli.progress import progress
from sil.forecast.forward import KnownReplay, Present
from sil.forecast.questions import (
    HypotheticalJob,
    JobForecast,
    chosen,
    forecasts,
    replay_under,
    waits_ahead,
    with_submission,
)
from sil.forecast.scoring import ForecastTime, Scored, score
from sil.runs.under_test import schedulers_for_logs
from sil.trace.log_clock import LogClock
from sil.workload.job_log import JobLog

LONGEST_HORIZON_S = 7 * 86_400.0
_METHODS = {
    "forecast": "forecast",
    "calibrated": "forecast, calibrated",
    "past waits": "past waits (BMBP)",
    "plan": "the scheduler's plan",
}


def forecast(file: Path, asked: PredictionOptions, of_log: OfLog, as_json: bool) -> None:
    """Print what is asked of a log. Raises UserError."""
    name = asked.scheduler or "easy"
    (scheduler,) = schedulers_for_logs([name], asked.cluster is not None)
    log = asked.read(file)
    for note in log.notes if asked.cluster is None else (*asked.cluster.notes, *log.notes):
        console.print_note(note)
    if log.after:
        raise UserError(
            "--closed-loop: the jobs of a forecast come as they came in the past, whenever others end; leave "
            "it out"
        )
    if of_log.score is not None:
        replayed, n = KnownReplay.under(replay_under(log, scheduler)), of_log.score
        with progress("jobs") as bars:
            bar = bars.add_task(log.name, total=n)
            found = score(replayed, n, of_log.samples, of_log.seed, lambda k: bars.update(bar, completed=k))
        _print_scored(found, name, as_json)
        return
    now_s = float(log.jobs["submit_s"][-1])
    if of_log.at is not None:
        is_number = re.fullmatch(r"\d+(\.\d+)?", of_log.at) is not None
        now_s = second_of_log(f"{of_log.at}s" if is_number else of_log.at, log.clock)
    log = _until(log, now_s, of_log.at)
    present = Present.of(KnownReplay.under(replay_under(log, scheduler)), now_s)
    if asked.submit is not None:
        if of_log.horizon is not None:
            raise UserError("--horizon has no effect beside --submit; leave one of them out")
        _print_variants(present, _submission(asked.submit), of_log, as_json)
        return
    horizon_s = 0.0 if of_log.horizon is None else seconds(of_log.horizon)
    if not 0 <= horizon_s <= LONGEST_HORIZON_S:
        raise UserError(f"--horizon {of_log.horizon}: expected a duration of at most 7d")
    samples = present.sampled(of_log.samples, of_log.seed, horizon_s)
    found_jobs = forecasts(present, samples)
    if asked.job is not None:
        found_jobs = chosen(found_jobs, asked.job, log.name)
    waits = waits_ahead(samples) if horizon_s else {}
    if as_json:
        of_waits = {"waits": {name: x._asdict() for name, x in waits.items()}} if horizon_s else {}
        jobs = [each.as_dict() for each in found_jobs]
        console.print_json({"now_s": now_s, "date": log.clock.date(now_s), "jobs": jobs, **of_waits})
        return
    if found_jobs:
        _print_jobs(found_jobs, log.clock, now_s)
    else:
        console.print_line(f"No job runs or waits at {now_s:,.10g} s of the log.")
    _print_basis(present, name, of_log)
    if horizon_s:
        _print_waits(waits, str(of_log.horizon))


def _until(log: JobLog, now_s: float, at: str | None) -> JobLog:
    """The jobs that have been submitted. Raises UserError if there are none."""
    n = int(np.searchsorted(log.jobs["submit_s"].to_numpy(), now_s, side="right"))
    if not n:
        raise UserError(f"{log.name}: no job has been submitted at {at}; give a later time with --at")
    return log[:n]


def _submission(text: str) -> HypotheticalJob:
    """The job of a text like 64/12h, or 4/64/12h with the nodes. Raises UserError."""
    found = re.fullmatch(r"(?:(\d{1,9})/)?(\d{1,9})/(\d[\d.]*[smhdw]?)", text)
    job = None if found is None else HypotheticalJob(int(found[1] or 1), int(found[2]), seconds(found[3]))
    if job is None or not all(job) or job.nodes > job.cpus:
        raise UserError(
            f"--submit '{text}': expected CPUS/TIME or NODES/CPUS/TIME, such as 64/12h or 4/64/12h"
        )
    return job


def span(span_s: float) -> str:
    """A duration as Slurm prints it: D-HH:MM:SS, without days where there are none."""
    minutes, s = divmod(round(span_s), 60)
    hours, m = divmod(minutes, 60)
    days, h = divmod(hours, 24)
    return f"{f'{days}-' if days else ''}{h:02}:{m:02}:{s:02}"


def _between(times: ForecastTime | None) -> tuple[str, str]:
    """A time from now and its interval, as cells."""
    if times is None:
        return "runs", "-"
    return span(times.median_s), f"{span(times.low_s)} to {span(times.high_s)}"


def _right(*names: str) -> list[Column]:
    return [Column(name, justify="right") for name in names]


def _print_jobs(found: list[JobForecast], clock: LogClock, now_s: float) -> None:
    date = clock.date(now_s)
    title = f"Forecast at {now_s:,.0f} s of the log" + ("" if date is None else f" ({date})")
    names = ("job", "CPUs", "starts in", "80 % interval", "planned", "ends in", "80 % interval")
    table = Table(*_right(*names), title=title)
    for one in found:
        planned = "-" if one.planned_start_s is None else span(one.planned_start_s)
        table.add_row(str(one.job), str(one.processors), *_between(one.start), planned, *_between(one.end))
    console.print_table(table)


def _print_basis(present: Present, scheduler: str, of_log: OfLog) -> None:
    jobs = f"{len(present.running):,} running and {counted(len(present.waiting), 'waiting job')}"
    console.print_line(
        f"Basis: {jobs}, run forward {of_log.samples:,} times under {scheduler}, with run "
        f"times of {counted(len(present.ended), 'job')} that had ended, and arrivals of earlier weeks."
    )


def _print_variants(present: Present, asked: HypotheticalJob, of_log: OfLog, as_json: bool) -> None:
    found: list[tuple[HypotheticalJob, JobForecast]] = []
    for job in asked.variants():
        with_it = with_submission(present, job, of_log.user, of_log.partition)
        found.append((job, forecasts(with_it, with_it.sampled(of_log.samples, of_log.seed))[-1]))
    if as_json:
        console.print_json([{**job._asdict(), **one.as_dict()} for job, one in found])
        return
    names = ("CPUs", "time limit", "starts in", "80 % interval", "planned", "ends in", "80 % interval")
    on_nodes = present.replay.log.cluster is not None
    table = Table(*_right(*(["nodes"] if on_nodes else []), *names), title="Forecast if submitted now")
    for job, one in found:
        cells = [str(job.nodes)] if on_nodes else []
        planned = span(one.planned_start_s or 0.0)
        cells += [str(job.cpus), span(job.limit_s), *_between(one.start), planned, *_between(one.end)]
        table.add_row(*cells)
    console.print_table(table)


def _print_waits(waits: dict[str, ForecastTime], horizon: str) -> None:
    table = Table("", *_right("median", "80 % interval"), title=f"Jobs that arrive within {horizon}")
    for name, x in waits.items():
        table.add_row(name, f"{x.median_s:,.0f}", f"{x.low_s:,.0f} to {x.high_s:,.0f}")
    if waits:
        console.print_line("")
        console.print_table(table)
    else:
        console.print_note("no arrivals are known from a whole week before")


def _print_scored(found: Scored, scheduler: str, as_json: bool) -> None:
    if as_json:
        scores = [each._asdict() for each in found.scores]
        console.print_json({"jobs": found.n_jobs, "certain": found.n_certain, "scores": scores})
        return
    title = f"Forecasts of {counted(found.n_jobs, 'job')} that waited, under {scheduler}"
    table = Table("", "of", *_right("in 80 % interval (%)", "its mean width", "mean error"), title=title)
    for each in found.scores:
        is_between = each.coverage is not None and each.width_s is not None
        cells = (f"{100 * (each.coverage or 0):.1f}", span(each.width_s or 0)) if is_between else ("-", "-")
        table.add_row(_METHODS[each.method], each.of, *cells, span(each.error_s))
    console.print_table(table)
    certain = counted(found.n_certain, "other job")
    console.print_line(f"{certain} started when submitted, which forecasts know with certainty.")
