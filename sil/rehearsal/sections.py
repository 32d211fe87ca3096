"""Sections of pages on recorded jobs: how a replay agrees with what happened, who used what, which jobs
differ."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sil.rehearsal.effects import KINDS
from sil.rehearsal.reproduction import GROUPS, Group, Reproduction
from sil.rehearsal.uses import TITLES, Grade, Judgement
from sil.report.figures import WIDTH, tooltips
from sil.report.page import Cell, PageTable, Part, Section, slug
from sil.report.tables import duration_text, signed_duration
from sil.report.vega_lite import Figure, column
from sil.workload.slices import DAY_S

_TITLES = {**GROUPS, **KINDS}
_KINDS = {
    Grade.GOOD: "holds",
    Grade.THIS_PERIOD: "unclear",
    Grade.NOT: "not",
    Grade.NOT_JUDGED: "unclear",
}


def group_title(kind: str, name: str) -> str:
    return "All" if kind == "all" else f"{_TITLES[kind]} {name or '(none)'}"


def group_in_words(kind: str, name: str) -> str:
    """Like "partition main"."""
    title = _TITLES[kind]
    return f"{title if title.isupper() else title.lower()} {name or '(none)'}"


def judged_title(each: Judgement) -> str:
    """The use that is judged, like "Waits of partition main"."""
    return TITLES[each.use] if each.kind == "all" else f"Waits of {group_in_words(each.kind, each.name)}"


def judgement_table(found: Reproduction) -> PageTable:
    rows: list[list[Cell | str]] = [
        [
            judged_title(each),
            Cell(each.grade.value, kind=f"verdict {_KINDS[each.grade]}"),
            "; ".join(each.why),
        ]
        for each in found.judgements
    ]
    return PageTable(["use", "verdict", "measured (limit)"], rows, "text")


def reproduction_sections(found: Reproduction, title: str, note: str) -> Iterator[Section]:
    """How the starts agree, and what explains the rest."""
    yield Section(title, note, [*_agreement(found)])
    causes = [[cause, f"{group.jobs:,}", _near(group)] for cause, group in found.explained()]
    if causes:
        yield Section(
            "What explains the rest",
            "Jobs about which accounting says something that is not modelled, with the share that starts "
            "within 5 minutes of the recorded time all the same.",
            [Part(table=PageTable(["jobs that ...", "jobs", "within 5 minutes"], causes, "text"))],
        )


def _agreement(found: Reproduction) -> Iterator[Part]:
    groups = [("All", found.all), *((group_title(group.kind, group.name), group) for group in found.groups())]
    if found.waiting.jobs:
        groups.insert(1, ("Waited more than 5 minutes", found.waiting))
    rows = [
        [
            title,
            f"{group.jobs:,}",
            *map(duration_text, (group.recorded_s, group.replayed_s)),
            signed_duration(group.difference),
            duration_text(group.off_s),
            _near(group),
        ]
        for title, group in groups
    ]
    head = ["", "jobs", "mean wait recorded", "replayed", "difference"]
    head += ["starts differ by, mean", "starts within 5 minutes"]
    yield Part(table=PageTable(head, rows))
    yield Part(chart=_waits_by_day(found), name=slug("Waits by day"))
    yield Part(chart=_utilisation(found), name=slug("Utilisation by hour"))


def _near(group: Group) -> str:
    return f"{100 * group.near:.1f} %"


def _waits_by_day(found: Reproduction) -> Figure:
    day = (pl.col("submit_s") // DAY_S).cast(pl.Int64)
    by_day = found.jobs.group_by(day=day).agg(
        recorded=pl.mean("recorded_s") / 3600, replayed=pl.mean("replayed_s") / 3600
    )
    return _two_lines(by_day, "hours", "Mean wait (hours)", "Mean wait by day of submission", point=True)


def _utilisation(found: Reproduction) -> Figure:
    percent = (pl.col("recorded", "replayed") * 100.0).round(2)
    by_hour = found.hours.select((pl.col("time_s") / DAY_S).alias("day"), percent)
    return _two_lines(by_hour, "percent", "Processors in use (%)", "Utilisation by hour")


def _two_lines(frame: pl.DataFrame, unit: str, y_title: str, title: str, *, point: bool = False) -> Figure:
    """What was recorded and what was replayed, by day."""
    long = frame.unpivot(["recorded", "replayed"], index="day", variable_name="what", value_name=unit)
    return (
        Figure(long.sort("what", "day"))
        .mark("line", strokeWidth=1.5, point=point)
        .encode(
            x=column("day:Q", title="Days since the first submission"),
            y=column(f"{unit}:Q", title=y_title),
            color=column("what:N", title=None),
            tooltip=tooltips("day", "what", unit),
        )
        .properties(width=WIDTH, height=200, title=title)
    )


def usage_table(used: pl.DataFrame, before: str, after: str) -> PageTable:
    """Processor-hours by group (`sil.rehearsal.effects.usage`)."""
    rows: list[list[Cell | str]] = [
        [
            group_title(kind, name),
            f"{was:,.0f}",
            f"{now:,.0f}",
            f"{100 * (now / was - 1):+,.1f} %" if was else "-",
        ]
        for kind, name, was, now in used.iter_rows()
    ]
    return PageTable(["processor-hours until the last submission", before, after, "difference"], rows)


def changed_table(changed: pl.DataFrame, before: str, after: str) -> PageTable:
    """Jobs (`sil.rehearsal.effects.most_changed`) with what is known of their waits: columns before_reason
    and after_reason."""
    rows = [
        [
            row["log_id"],
            row["user"],
            row["partition"],
            f"{row['processors']:,}",
            Cell(duration_text(row["before_s"]), row["before_reason"]),
            Cell(duration_text(row["after_s"]), row["after_reason"]),
        ]
        for row in changed.iter_rows(named=True)
    ]
    return PageTable(["job", "user", "partition", "processors", before, after], rows, "text")
