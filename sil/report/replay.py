"""The report of a replayed log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sil.outcome.batsim_tables import Replayed
from sil.report.page import Notice, Page, Part, Section, Table, slug
from sil.report.replay_figures import (
    BINS,
    gantt,
    queue_length,
    slowdown_by_size,
    utilisation,
    waiting_distribution,
)
from sil.report.tables import replay_rows

ESTIMATES = {
    "user": "the users' estimates",
    "actual": "the actual run times",
    "history": "the mean of the user's last two run times",
}


def replay_page(replayed: Replayed) -> Page:
    d = replayed.described
    names = list(d["schedulers"])
    repairs = [Notice("refusal", f"{text}.", "Repaired") for text in d["repairs"]]
    faults = [Notice("fault", f"{text}.", "Fault") for text in replayed.faults]
    return Page(
        d["log"],
        f"{d['jobs']:,} jobs on {d['processors']:,} processors, replayed under {', '.join(names)}",
        f"{d['log']}: {', '.join(names)}",
        list(_terms(d)),
        [*repairs, *faults],
        list(_sections(replayed, names)),
    )


def _terms(d: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    load = f"; load {100 * d['load']:.1f} %" if d["load"] else ""
    yield "Log", f"{d['days']:.1f} days from the first submission to the last{load}"
    yield "Estimates", ESTIMATES[d["estimates"]]
    if d["part"]:
        yield "Part", ", ".join(d["part"])
    yield "Order", f"{d['order']} (of simultaneous events)"
    if d["decision_cost"] != "none":
        yield "Decision cost", d["decision_cost"]
    yield "Version", f"{d['version']}, scheduler source {d['scheduler_source']}"
    if d["acknowledge"]:
        yield "Acknowledgement", d["acknowledge"]


def _sections(replayed: Replayed, names: list[str]) -> Iterator[Section]:
    note = (
        "Over all jobs. Bounded slowdown has a threshold of 10 s. The makespan is from the first submission "
        "to the last end. Quantiles are observed values: the smallest that so many of the jobs do not exceed."
    )
    rows = [[label, *texts] for label, texts in replay_rows(replayed.statistics)]
    yield Section("Comparison", note, [Part(table=Table(["", *names], rows))])
    jobs, processors = replayed.jobs, int(replayed.described["processors"])
    if not jobs:
        return
    bins = f"Means over {BINS} intervals of equal length."
    dots = (
        "Bounded slowdown, threshold 10 s. Dot: mean. Line: median to 95th percentile. A dot above its line: "
        "few jobs have a very large slowdown."
    )
    around = (
        "All runs while some hundred jobs start, around the job that waited longest. Colours only "
        "distinguish jobs."
    )
    for title, text, chart in (
        ("Jobs that wait", bins, queue_length(jobs, names)),
        ("Processors in use", bins, utilisation(jobs, processors, names)),
        ("Waiting time", "The share of jobs that wait at most so long.", waiting_distribution(jobs, names)),
        ("Slowdown by size of job", dots, slowdown_by_size(jobs, names)),
        *((f"Schedule of {name}", around, gantt(table, processors)) for name, table in jobs.items()),
    ):
        yield Section(title, text, [Part(chart=chart, name=slug(title))])
