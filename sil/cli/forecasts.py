"""`sil predict` of a log: the present state of a batch system, run forward."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from math import isfinite, isinf
from pathlib import Path
from typing import Any

from rich.table import Column, Table

from scheduler.managers.limit_admission import cost, delays
from scheduler.messages import UserError, counted
from sil.api.logs import second_of_log, seconds
from sil.cli import console
from sil.cli.prediction_options import OfLog, PredictionOptions
from sil.cli.progress import progress
from sil.forecast.forward import KnownJobs, PolicyOfLog, Present
from sil.forecast.questions import (
    ForecastErrors,
    ForecastTime,
    HypotheticalJob,
    JobForecast,
    forecasts,
    past_forecasts,
    waits_ahead,
    with_submission,
)
from sil.forecast.recorded import recorded
from sil.report.tables import duration_text
from sil.runs.free_nodes import notes_for
from sil.runs.under_test import schedulers_for_logs
from sil.settings.events_file import events_in
from site_db.jobs.sacct.reader import is_sacct

LONGEST_HORIZON_S = 7 * 86_400.0
FEW_ROWS = 25
"""The most jobs that are listed without --all."""


def forecast(file: Path, asked: PredictionOptions, of_log: OfLog, as_json: bool) -> None:
    """Print what is asked of a log. Raises UserError."""
    known, at = _known(file, asked, of_log), of_log.at
    n, seed = of_log.samples or known.policy.samples, of_log.seed
    if of_log.score is not None:
        _print_scored(known, of_log.score, n, seed, as_json)
        return
    now_s = known.now_s
    if at is not None:
        is_number = re.fullmatch(r"\d+(\.\d+)?", at) is not None
        now_s = second_of_log(f"{at}s" if is_number else at, known.policy.log.clock)
    present = Present.of(known, now_s, len(known.start_s) if at is None else None)
    if not len(present.jobs):
        name = known.policy.log.name
        raise UserError(f"{name}: no job has been submitted at {at}; give a later time with --at")
    if asked.submit is not None:
        if of_log.horizon is not None:
            raise UserError("--horizon has no effect beside --submit; leave one of them out")
        by_s = None if asked.by is None else seconds(asked.by)
        _print_variants(present, _submission(asked.submit), of_log, n, by_s, as_json)
        return
    if asked.by is not None:
        raise UserError("--by has no effect on a log without --submit; give both")
    horizon_s = 0.0 if of_log.horizon is None else seconds(of_log.horizon)
    if not 0 <= horizon_s <= LONGEST_HORIZON_S:
        raise UserError(f"--horizon {of_log.horizon}: expected a duration of at most 7d")
    with progress("runs") as bars:
        samples = present.sampled(n, seed, horizon_s, lambda runs: bars.track(runs, description="forward"))
    found, waits = forecasts(present, samples), waits_ahead(present, samples) if horizon_s else {}
    if asked.job is not None:
        found = [each for each in found if each.job == asked.job]
        if not found:
            where = f"{known.policy.log.name}: job {asked.job}"
            raise UserError(f"{where} neither runs nor waits then; see all that do without --job")
    date = known.policy.log.clock.date(now_s)
    if as_json:
        of_waits = {of: {name: x.as_dict() for name, x in each.items()} for of, each in waits.items()}
        jobs = {"now_s": now_s, "date": date, "jobs": [each.as_dict() for each in found]}
        console.print_json(jobs | ({"waits": of_waits} if horizon_s else {}))
        return
    shown = found if of_log.every or asked.job else [x for x in found if x.start is not None][:FEW_ROWS]
    title = f"Forecast at {now_s:,.0f} s of the log" + ("" if date is None else f" ({date})")
    columns = {"job": [x.job for x in shown], "partition": [x.partition for x in shown]}
    if not known.policy.log.requests:
        del columns["partition"]
    if shown:
        _print_times(title, columns | {"CPUs": [str(x.processors) for x in shown]}, shown)
    else:
        console.print_line(f"{title}: no job waits.")
    if left := len(found) - len(shown):
        do = "runs or waits" if left == 1 else "run or wait"
        console.print_line(f"{counted(left, 'other job')} {do}; --all lists them.")
    _print_basis(present, n)
    if horizon_s:
        _print_waits(waits, str(of_log.horizon))


def _known(file: Path, asked: PredictionOptions, of_log: OfLog) -> KnownJobs:
    """What happened, as recorded or under the policy. Raises UserError."""
    cluster = asked.cluster
    (scheduler,) = schedulers_for_logs([asked.scheduler or "easy"], cluster is not None)
    known = None
    if cluster is not None and cluster.nodes and is_sacct(file):
        known = recorded(file, asked, cluster, scheduler)
    policy = PolicyOfLog(asked.read(file), scheduler) if known is None else known.policy
    if policy.log.after:
        raise UserError(
            "--closed-loop: the jobs of a forecast come as they came in the past, whenever others end; leave "
            "it out"
        )
    log, events = events_in(of_log.events or [], policy.log)
    policy = replace(policy, log=log).under(events)
    policy.replay(log.jobs, events).check([scheduler])
    of_nodes = [] if cluster is None else cluster.notes
    for note in (*of_nodes, *log.notes, *notes_for(events, [scheduler])):
        console.print_note(note)
    return KnownJobs.under(policy) if known is None else replace(known, policy=policy)


def _submission(text: str) -> HypotheticalJob:
    """The job of a text like 64/12h, or 4/64/12h with the nodes. Raises UserError."""
    found = re.fullmatch(r"(?:(\d{1,9})/)?(\d{1,9})/(\d[\d.]*[smhdw]?)", text)
    job = None if found is None else HypotheticalJob(int(found[1] or 1), int(found[2]), seconds(found[3]))
    if job is None or not all(job) or job.cpus % job.nodes:
        expected = "expected CPUS/TIME, or NODES/CPUS/TIME such as 4/64/12h with 16 CPUs on each node"
        raise UserError(f"--submit '{text}': {expected}")
    return job


def _span(span_s: float | None) -> str:
    return "-" if span_s is None else duration_text(span_s) if isfinite(span_s) else "never"


def _between(times: ForecastTime | None) -> tuple[str, str]:
    """A time from now and its interval, as cells."""
    if times is None or isinf(times.low_s):
        return "runs" if times is None else "never", "-"
    return _span(times.median_s), f"{_span(times.low_s)} to {_span(times.high_s)}"


def _right(*names: str) -> list[Column]:
    return [Column(name, justify="right") for name in names]


def _print_times(title: str, columns: dict[str, list[str]], found: Sequence[JobForecast]) -> None:
    """A table of forecasts after these columns; what the scheduler plans is left out where room is short."""
    names, times = [*columns, "starts in", "80 % interval"], ("ends in", "80 % interval")
    wide, narrow = (
        Table(*_right(*names, "planned", *times), title=title),
        Table(*_right(*names, *times), title=title),
    )
    for one, *of_job in zip(found, *columns.values(), strict=True):
        of_job += _between(one.start)
        wide.add_row(*of_job, _span(one.planned_start_s), *_between(one.end))
        narrow.add_row(*of_job, *_between(one.end))
    console.print_table(wide, narrow)


def _print_basis(present: Present, n_samples: int) -> None:
    jobs = f"{len(present.running):,} running and {counted(len(present.waiting), 'waiting job')}"
    how = f"{counted(n_samples, 'time')} under {present.policy.scheduler.label}"
    console.print_line(
        f"Basis: {jobs}, run forward {how}, with run times of "
        f"{counted(len(present.ended), 'job')} that had ended, and arrivals of earlier weeks."
    )
    if n := int((~(present.planned[: len(present.running)] <= present.now_s)).sum()):
        console.print_note(
            f"{counted(n, 'running job')} cannot start beside the others in the model, and "
            f"take no nodes before they do: are --nodes and --policy those of the accounting?"
        )


def _print_variants(
    present: Present, asked: HypotheticalJob, of_log: OfLog, n: int, by_s: float | None, as_json: bool
) -> None:
    rows, found = list[dict[str, Any]](), list[JobForecast]()
    for job in asked.variants():
        with_it = with_submission(present, job, of_log.user, of_log.partition, by_s)
        samples = with_it.sampled(n, of_log.seed)
        every = forecasts(with_it, samples)
        rows.append(job._asdict() | every[-1].as_dict())
        found.append(every[-1])
        if by_s is not None:
            before_s, after_s = (dict(enumerate(x.planned.tolist())) for x in (present, with_it))
            delays_s = {every[k].job: later_s for k, later_s in delays(before_s, after_s).items()}
            kept = float((samples.end_s[:, -1] <= present.now_s + by_s).mean())
            rows[-1] |= {"kept_share": kept, "delays_s": delays_s}
    if as_json:
        console.print_json(rows)
        return
    columns = {"nodes": [str(row["nodes"]) for row in rows], "CPUs": [str(row["cpus"]) for row in rows]}
    if not present.policy.log.requests:
        del columns["nodes"]
    columns["time limit"] = [_span(row["limit_s"]) for row in rows]
    if by_s is not None:
        columns[f"ends within {_span(by_s)}"] = [f"{100 * row['kept_share']:.0f} %" for row in rows]
    _print_times("Forecast if submitted now", columns, found)
    if by_s is not None:
        at_cost = cost(rows[0]["delays_s"]) or "it delays no other job"
        console.print_line(f"Of the first, by the time limits of all jobs: {at_cost}.")
    _print_basis(present, n)


def _print_waits(waits: dict[str, dict[str, ForecastTime]], horizon: str) -> None:
    if not waits:
        console.print_note("no arrivals are known from a whole week before")
        return
    names, title = _right("median", "80 % interval"), f"Jobs that arrive within {horizon}"
    table = Table("partition", "", *names, title=title)
    for partition, of_it in waits.items():
        for name, x in of_it.items():
            text = _span if name.endswith("wait") else "{:,.0f}".format
            table.add_row(partition, name, text(x.median_s), f"{text(x.low_s)} to {text(x.high_s)}")
        table.add_section()
    console.print_line("")
    console.print_table(table)


def _print_scored(known: KnownJobs, n_jobs: int, n_samples: int, seed: int, as_json: bool) -> None:
    with progress("forecasts") as bars:
        scored = past_forecasts(known, n_jobs, n_samples, seed)
        found = list(bars.track(scored, total=2 * n_jobs, description=known.policy.log.name))
    scores, n_certain = list[dict[str, Any]](), int((known.start_s == known.submit_s).sum())
    title = f"Forecasts of {counted(n_jobs, 'job')} that waited, under {known.policy.scheduler.label}"
    table = Table("", "of", *_right("in 80 % interval (%)", "its mean width", "mean error"), title=title)
    for of in ("start", "end"):
        some = [one for one in found if one.of == of]
        true_s, plan = [one.true_s for one in some], [ForecastTime(*3 * (one.planned_s,)) for one in some]
        made = ForecastErrors.of([ForecastTime.of(one.times_s) for one in some], true_s)
        error_s = ForecastErrors.of(plan, true_s).error_s
        scores += (
            {"method": "forecast", "of": of, **made._asdict()},
            {"method": "plan", "of": of, "error_s": error_s},
        )
        table.add_row("forecast", of, f"{100 * made.coverage:.1f}", _span(made.width_s), _span(made.error_s))
        table.add_row("the scheduler's plan", of, "-", "-", _span(error_s))
    if as_json:
        console.print_json({"jobs": n_jobs, "certain": n_certain, "scores": scores})
        return
    console.print_table(table)
    certain = counted(n_certain, "other job")
    console.print_line(f"{certain} started when submitted, which forecasts know with certainty.")
