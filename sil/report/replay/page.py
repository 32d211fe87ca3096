"""The page of a replayed log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from scheduler.messages import counted
from sil.outcome.metrics import REFUSED
from sil.outcome.refused_and_failed import IF_RESUBMITTED
from sil.report.analysis import Analysis
from sil.report.page import Cell, Notice, Page, PageTable, Part, Section, slug, terms_of_nodes
from sil.report.replay import Jobs
from sil.report.replay.by_size import (
    by_user,
    fairness_table,
    jobs_by_size_and_run_time,
    slowdown_by_size,
    slowdown_by_size_and_run_time,
    slowdown_by_user,
    waiting_by_week_and_size,
)
from sil.report.replay.differences import Compared
from sil.report.replay.measured import Replayed, measured
from sil.report.replay.over_time import AROUND, ON_NODES, gantt, small_multiples, waiting_distribution
from sil.report.schedule_chart import MAX_RECTANGLES, schedules
from sil.report.tables import replay_rows
from sil.report.vega_lite import Figure
from sil.trace.log_clock import LogClock
from sil.workload.job_log import span_text

SCHEDULES = (
    "Drag to move, turn the wheel with Ctrl to zoom in time and with Shift to zoom in processors, and "
    "double-click to see all. The window is the same for all schedulers, and follows the one that is drawn "
    "in the charts over time. With more than about "
    f"{MAX_RECTANGLES:,} rectangles in it, cells show means over processors and time, and are pale where "
    "processors are idle; with fewer, hover over a run for details."
)
PROGRAMS = "Where a program runs with another configuration than its own, each part that is not as given."
FAIRNESS = (
    "The mean bounded slowdown of each user: those with the most processor-hours, and how unequal all users "
    "are. Jain's index is the squared sum over users, divided by their number and by the sum of squares."
)
ESTIMATES = {
    "user": "the users' estimates",
    "actual": "the actual run times",
    "history": "the mean of the user's last two run times",
}


def replay_page(replayed: Replayed, analysis: Analysis) -> Page:
    """The page of a replayed log. Raises UserError if the analysis measures no job."""
    d = replayed.described
    names = list(d["schedulers"])
    repairs = [f"{text}." for text in d["repairs"]]
    of_measured = measured(replayed, analysis)
    n_measured = max(map(len, of_measured.jobs.values()), default=0)
    # The jobs that ended before a fault would be a selection.
    whole = {name: table for name, table in of_measured.jobs.items() if of_measured.statistics[name]}
    compared = Compared.of(whole, names, analysis.block_days)
    return Page(
        d["log"],
        f"{counted(d['jobs'], 'job')} on {counted(d['processors'], 'processor')}, replayed under "
        f"{', '.join(names)}",
        f"{d['log']}: {', '.join(names)}",
        [*_terms(d), *analysis.terms(n_measured)],
        [
            *(Notice("answer", text) for text in compared.headline(of_measured.statistics)),
            *(Notice("refusal", f"{text}.", "Refused") for text in replayed.refusals),
            *(Notice("fault", f"{text}.", "Fault") for text in replayed.faults),
        ],
        [
            _comparison(of_measured, names, analysis),
            *compared.sections(names),
            *(_sections(replayed, of_measured.jobs, names) if of_measured.jobs else ()),
            *_programs(d["programs"]),
        ],
        Part(f"Repairs of the log, and notes: {len(repairs)}", items=repairs) if repairs else None,
    )


def _terms(d: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    load = f"; load {100 * d['load']:.1f} %" if d["load"] else ""
    yield "Log", f"{span_text(86_400 * d['days'])} from the first submission to the last{load}"
    yield from terms_of_nodes(d["nodes"])
    clock = LogClock.described(d)
    others = {
        "Estimates": ESTIMATES[d["estimates"]],
        "Part": ", ".join(d["part"]),
        "Order": f"{d['order']} (of simultaneous events)",
        "Decision cost": d["decision_cost"] if d["decision_cost"] != "none" else "",
        "Version": f"{d['version']}, scheduler source {d['scheduler_source']}",
        "First submission": clock.date(clock.first_s) or "",
        "Acknowledgement": d["acknowledge"],
    }
    yield from ((term, text) for term, text in others.items() if text)


def _comparison(measured: Replayed, names: Sequence[str], analysis: Analysis) -> Section:
    over, end = "all jobs", "The makespan is from the first submission to the last end."
    if analysis.is_trimmed:
        over = "the measured jobs"
        end = "Utilisation is that between the first and the last submission of these."
    bound_s = float(measured.described["bounded_slowdown_threshold_s"])
    note = (
        f"Over {over}. Bounded slowdown has a threshold of {bound_s:g} s. {end} Quantiles are observed "
        "values: the smallest value not exceeded by that share of jobs."
    )
    refused = {m.label for m in REFUSED}
    if any(REFUSED[0].key in found for found in measured.statistics.values()):
        note += f" {IF_RESUBMITTED[0].upper()}{IF_RESUBMITTED[1:]}."
    rows: list[list[Cell | str]] = [
        [label, *(Cell(text, kind="not" if label in refused else "") for text in texts)]
        for label, texts in replay_rows(measured.statistics, on_page=True)
    ]
    return Section("Comparison", note, [Part(table=PageTable(["", *names], rows))])


def _sections(replayed: Replayed, jobs: Jobs, names: Sequence[str]) -> Iterator[Section]:
    """The sections on the measured `jobs`; what is over time is on all jobs."""
    d = replayed.described
    processors, threshold = int(d["processors"]), f"{d['bounded_slowdown_threshold_s']:g} s"
    over_time = small_multiples(replayed.jobs, names, processors, int(d["gpus"]), LogClock.described(d))
    yield _drawn("Over time", "Means over intervals of equal length, of all jobs.", over_time)
    if d["nodes"]:  # on which jobs overlap
        yield from schedule_sections(replace(replayed, jobs=jobs))
    else:
        yield Section("Schedules", SCHEDULES, [Part(schedules=schedules(replayed.jobs, processors))])
    limit = "Cumulative distribution of waiting times."
    yield _drawn("Waiting time", limit, waiting_distribution(jobs, names))
    weeks = "Mean waiting time by size of job and by week of submission; longer waits are darker."
    yield _drawn("Waiting time by week and size", weeks, waiting_by_week_and_size(jobs, names))
    dots = (
        f"Bounded slowdown, threshold {threshold}. Dot: mean. Line: median to 95th percentile. A dot above "
        "its line: few jobs have a very large slowdown."
    )
    yield _drawn("Slowdown by size of job", dots, slowdown_by_size(jobs, names))
    numbers = "The number of jobs of each size and run time, and their mean bounded slowdown."
    parts = [
        Part(chart=jobs_by_size_and_run_time(next(iter(jobs.values()))), name="run-time-by-size"),
        Part(chart=slowdown_by_size_and_run_time(jobs, names), name="slowdown-by-size-and-run-time"),
    ]
    yield Section("Run time by size", numbers, parts)
    users = by_user(jobs)
    if len(users):
        chart = Part(chart=slowdown_by_user(users, jobs, names), name="fairness")
        yield Section("Fairness", FAIRNESS, [chart, Part(table=fairness_table(users, names))])


def _programs(programs: Mapping[str, list[str]]) -> Iterator[Section]:
    rows = [[name, sentence] for name, sentences in programs.items() for sentence in sentences]
    if rows:
        yield Section("Programs under test", PROGRAMS, [Part(table=PageTable(["", "what it is"], rows))])


def _drawn(title: str, note: str, chart: Figure) -> Section:
    return Section(title, note, [Part(chart=chart, name=slug(title))])


def schedule_sections(replayed: Replayed) -> list[Section]:
    """Part of each schedule as a chart that can be a file."""
    d, jobs = replayed.described, replayed.jobs
    note = AROUND
    if d["nodes"]:
        note += ON_NODES
        jobs = {name: table for name, table in jobs.items() if name in replayed.parts}
    return [
        _drawn(
            f"Schedule of {name}", note, gantt(table, int(d["processors"]), None, replayed.parts.get(name))
        )
        for name, table in jobs.items()
    ]
