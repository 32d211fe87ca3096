"""The page of a rehearsal, and its sentences for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from scheduler.messages import counted
from sil.experiment.replay_folder import REPORT
from sil.outcome.statistics import Interval
from sil.rehearsal.effects import NOTICEABLE, NOTICEABLE_S, QUANTITIES, MeanDifference
from sil.rehearsal.run import JobsVerdict, Rehearsal, Variant, read_rehearsal
from sil.rehearsal.sections import (
    GAPS,
    changed_table,
    gap_rows,
    group_in_words,
    group_title,
    reproduction_sections,
    usage_table,
)
from sil.rehearsal.uses import VERDICTS, Use
from sil.report.listing import json_text
from sil.report.page import Cell, Notice, Page, PageTable, Part, Section, write_page
from sil.report.tables import duration_text, signed_duration
from sil.slurm.queries import FACTORS, ControllerReport
from site_db.files.access import no_link

PAGES = {False: "validation.html", True: "rehearsal.html"}
"""Without variants, and with some."""
STARTS = "starts.csv"
MAX_SETTINGS = 5
"""The most settings that are named in a sentence."""
_BACKFILLED = "Backfilling: Total backfilled jobs (since last stats cycle start)"
_STATISTICS: dict[str, tuple[str, Callable[[list[int]], float]]] = {
    "Main schedule: Total cycles": ("Cycles of the main scheduler", sum),
    "Main schedule: Mean depth cycle": ("Jobs that it looks at in a cycle, mean", fmean),
    "Backfilling: Total cycles": ("Cycles of backfilling", sum),
    "Backfilling: Depth Mean": ("Jobs that it looks at in a cycle, mean", fmean),
    "Backfilling: Depth Mean (try depth)": ("Jobs that it tries to start in a cycle, mean", fmean),
    "Backfilling: Queue length mean": ("Jobs in the queue, mean", fmean),
    _BACKFILLED: ("Jobs started by backfilling", sum),
}
"""What `sdiag` counts, by its section and name; over days, a sum, or the mean of days."""


def write_rehearsal(out: Path, found: Rehearsal | None = None) -> Path:
    """Write page, verdicts and starts into the folder of a rehearsal. Returns the path of the page. Raises
    UserError."""
    found = found or read_rehearsal(out)
    path, verdicts = out / PAGES[bool(found.variants)], json_text(found.as_dict())
    no_link(out / VERDICTS).write_text(f"{verdicts}\n", encoding="utf-8")
    found.reproduction.starts.write_csv(no_link(out / STARTS))
    write_page(path, rehearsal_page(found))
    return path


def rehearsal_page(found: Rehearsal) -> Page:
    d, month = found.replayed.described, found.reproduction
    kind = {Use.JOBS: "answer", Use.MEANS: "note", Use.NONE: "refusal"}[month.use]
    notices = [Notice(kind, text) for text in month.sentences()]
    if found.calibration is not None:
        notices += [Notice("note", text) for text in found.calibration["sentences"]]
    notices += [
        Notice("answer" if variant.verdict is JobsVerdict.NONE else "refusal", headline(variant))
        for variant in found.variants
    ]
    notices += [Notice("fault", f"{text}.", "Fault") for text in found.replayed.faults]
    notes, title = [f"{text}." for text in d["repairs"]], "Rehearsal" if found.variants else "Validation"
    return Page(
        f"{title} of {d['log']}",
        f"{counted(month.all.jobs, 'job')} on {counted(d['processors'], 'processor')} under {found.present}"
        + (f" and {counted(len(found.variants), 'variant')}" if found.variants else ""),
        f"{title} of {d['log']}",
        [
            ("Jobs that count", "submitted after the warm-up, or waiting when the replay began"),
            ("Details", f"charts and statistics of each replay are in {REPORT}, all starts in {STARTS}"),
        ],
        notices,
        [
            *reproduction_sections(found.reproduction, found.present, found.differing),
            Section(
                "What the accounting does not say",
                "Of the jobs that are replayed, also of those that do not count.",
                [Part(table=PageTable(GAPS, gap_rows(found.gaps), "text"))],
            ),
            *_matrix(found.variants),
            *(section for variant in found.variants for section in _variant(variant, found.present)),
            *_controllers(found.said, {name: len(jobs) for name, jobs in found.replayed.jobs.items()}),
        ],
        Part(f"Notes on the accounting, and repairs: {len(notes)}", items=notes) if notes else None,
    )


def headline(variant: Variant) -> str:
    """What a variant does, in a sentence."""
    parts = []
    if variant.refused_more > 0:
        parts.append(f"{counted(variant.refused_more, 'job')} more refused or never started")
    waits = [effect for effect in variant.effects if effect.quantity == "waiting_time"]
    for effect in waits[:1]:
        if not effect.exceeds_scatter:
            change = f"{duration_text(effect.before)}, {signed_duration(effect.difference)}"
            parts.append(f"the same mean wait ({change})")
        else:
            elsewhere = "" if effect.is_settled else ", in this month; for others it is not settled"
            before = duration_text(effect.before)
            parts.append(f"mean wait {before}, {signed_duration(effect.difference)}{elsewhere}")
    settled = [effect for effect in waits[1:] if effect.is_settled]
    for word, is_longer in (("longer", True), ("shorter", False)):
        groups = [effect for effect in settled if (effect.difference.mean > 0.0) == is_longer]
        if groups:
            most = max(groups, key=lambda effect: abs(effect.difference.mean))
            more = f" and {counted(len(groups) - 1, 'other group')}" if len(groups) > 1 else ""
            parts.append(f"{word} waits for {group_in_words(most.kind, most.name)}{more}")
    names = ", ".join(name for name, *_ in variant.settings[:MAX_SETTINGS])
    if names:
        others = " and others" if len(variant.settings) > MAX_SETTINGS else ""
        parts.append(f"settings that differ: {names}{others}")
    what = "; ".join(parts) or "no job in common"
    return f"{variant.verdict.value.capitalize()} under {variant.name}: {what}."


def _matrix(variants: Sequence[Variant]) -> Iterator[Section]:
    rows: list[list[Cell | str]] = []
    for variant in variants:
        of_all = {effect.quantity: effect for effect in variant.effects if effect.kind == "all"}
        changes = [_marked(of_all[quantity]) if quantity in of_all else "-" for quantity in QUANTITIES]
        rows.append([variant.name, variant.verdict.value, *changes, f"{variant.refused_more:+,}"])
    if len(variants) > 1:
        head = ["", "verdict", *(f"{title}, change" for title in QUANTITIES.values()), "refused jobs"]
        yield Section("All variants", "For marks see each variant.", [Part(table=PageTable(head, rows))])


def _variant(variant: Variant, present: str) -> Iterator[Section]:
    parts = []
    if variant.settings:
        settings = [[name, before, after] for name, before, after in variant.settings]
        head = ["setting, as the controller has read it", present, variant.name]
        parts.append(Part("Settings that differ", table=PageTable(head, settings, "text")))
    rows: list[list[Cell | str]] = [
        [
            group_title(effect.kind, effect.name),
            QUANTITIES[effect.quantity],
            f"{effect.jobs:,}",
            _number(effect, effect.before),
            _marked(effect),
            _change(effect, effect.scatter),
        ]
        for effect in variant.effects
        if effect.kind == "all" or effect.exceeds_scatter
    ]
    head = ["", "", "jobs", "before", "change", "second run of the present settings"]
    parts.append(Part("Who waits longer or less long", table=PageTable(head, rows)))
    used = usage_table(variant.usage, "before", "after")
    parts.append(Part("Usage", table=used, folded=True))
    if len(variant.changed):
        changed = changed_table(variant.changed, "wait before", "wait after")
        parts.append(Part("Jobs that change most", table=changed))
    yield Section(
        variant.name,
        f"Differences from {present}, job by job. -: not more than two runs of the present settings differ "
        f"by, less than {100 * NOTICEABLE:g} % or, of waits, than {duration_text(NOTICEABLE_S)}. * Beyond "
        "this month: the interval over blocks of time excludes 0, at 95 % for all intervals together "
        "(Bonferroni). Groups without a difference are left out.",
        parts,
    )


def _marked(effect: MeanDifference) -> str:
    if not effect.exceeds_scatter:
        return "-"
    return f"{_change(effect)}{'*' if effect.is_settled else ''}"


def _number(effect: MeanDifference, value: float) -> str:
    return duration_text(value) if effect.quantity == "waiting_time" else f"{value:,.2f}"


def _change(effect: MeanDifference, of: Interval | None = None) -> str:
    found = effect.difference if of is None else of
    return signed_duration(found) if effect.quantity == "waiting_time" else found.text(",.2f", "+")


def _controllers(said: Mapping[str, ControllerReport], n_jobs: Mapping[str, int]) -> Iterator[Section]:
    if not said:
        return
    rows = [
        [title, *(_over_days(each, key, add) for each in said.values())]
        for key, (title, add) in _STATISTICS.items()
        if any(key in day for each in said.values() for day in each.days.values())
    ]
    shares = [
        f"{100 * sum(day.get(_BACKFILLED, 0) for day in each.days.values()) / max(n_jobs[name], 1):.1f} %"
        for name, each in said.items()
    ]
    rows.append(["Share of jobs started by backfilling", *shares])
    head = ["", *said]
    parts = [Part("sdiag", table=PageTable(head, rows))]
    factors = [
        [factor, *(_mean_factor(each, factor) for each in said.values())]
        for factor in FACTORS
        if any(row.get(factor) for each in said.values() for row in each.factors.values())
    ]
    if factors:
        parts.append(
            Part("sprio: weighted factors of jobs that waited, mean", table=PageTable(head, factors))
        )
    yield Section(
        "What the controllers say",
        "Asked once an hour of simulated time. Times of cycles are only known where decisions cost time.",
        parts,
    )


def _over_days(said: ControllerReport, key: str, add: Callable[[list[int]], float]) -> str:
    values = [day[key] for day in said.days.values() if key in day]
    return f"{add(values):,.0f}" if values else "-"


def _mean_factor(said: ControllerReport, factor: str) -> str:
    values = [row[factor] for row in said.factors.values() if factor in row]
    return f"{fmean(values):,.0f}" if values else "-"
