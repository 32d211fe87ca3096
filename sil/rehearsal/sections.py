"""Sections of pages on recorded jobs: how a replay agrees with what happened, who used what, which jobs
differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from sil.rehearsal.effects import KINDS, usage
from sil.rehearsal.reproduction import GROUPS, Group, Reproduction
from sil.rehearsal.submissions import Gap
from sil.rehearsal.uses import MIN_JOBS, TITLES, Grade, Judgement
from sil.report.figures import lines, tooltips
from sil.report.page import Cell, PageTable, Part, Section, slug
from sil.report.replay.over_time import SINCE, utilisation
from sil.report.tables import duration_text, signed_duration
from sil.report.vega_lite import Figure
from sil.workload.slices import DAY_S

STARTS = "Starts"
"""Title of the legends of charts: jobs start as recorded, or as replayed."""
_TITLES = {**GROUPS, **KINDS}


def group_title(kind: str, name: str) -> str:
    return "All" if kind == "all" else f"{_TITLES[kind]} {name or '(none)'}"


def group_in_words(kind: str, name: str) -> str:
    """Like "partition main"."""
    title = _TITLES[kind]
    return f"{title if title.isupper() else title.lower()} {name or '(none)'}"


def judged_title(each: Judgement) -> str:
    """The use that is judged, like "Waits of partition main"."""
    return TITLES[each.use] if each.kind == "all" else f"Waits of {group_in_words(each.kind, each.name)}"


def _kind(grade: Grade) -> str:
    return f"verdict {({Grade.GOOD: 'holds', Grade.NOT: 'not'}).get(grade, 'unclear')}"


def reproduction_sections(found: Reproduction, scheduler: str, differing: pl.DataFrame) -> Iterator[Section]:
    """What the replay is good enough for, how starts agree, and what explains the rest."""
    verdicts: list[list[Cell | str]] = [
        [judged_title(each), Cell(each.grade.value, kind=_kind(each.grade)), "; ".join(each.why)]
        for each in found.judgements
    ]
    yield Section(
        "What the replay is good enough for",
        f"The limits were fixed before any log was looked at. {Grade.THIS_PERIOD.capitalize()}: others may "
        "differ, since the interval reaches beyond the limit, or is not known.",
        [Part(table=PageTable(["use", "verdict", "measured (limit)"], verdicts, "text"))],
    )
    yield Section(
        "Does it reproduce the month?",
        f"Starts that accounting has, and those of the replay under {scheduler}. Differences are replayed "
        "less recorded, with intervals at 95 % over blocks of days. Groups are those with most jobs; "
        f"fewer than {MIN_JOBS} jobs are too few to say anything of others.",
        [*_agreement(found)],
    )
    causes = [[cause, f"{group.jobs:,}", _near(group)] for cause, group in found.explained()]
    table = PageTable(["jobs that ...", "jobs", "within 5 minutes (%)"], causes, "text")
    parts = [Part(table=table)] if causes else []
    if len(differing):
        table = changed_table(differing, "wait recorded", "wait replayed")
        parts.append(Part("Jobs that differ most", table=table))
    if parts:
        yield Section(
            "What explains the rest",
            "Jobs about which accounting says something that is not modelled, with the share that starts "
            "within 5 minutes of the recorded time all the same; and the jobs whose waits differ most, with "
            "what accounting says of them, and what they waited for at last, if reasons are recorded.",
            parts,
        )


def gap_rows(gaps: Sequence[Gap]) -> list[list[str]]:
    """Rows of the columns GAPS."""
    return [[gap.missing, f"{gap.jobs:,}", gap.instead] for gap in gaps]


GAPS = ("not in the accounting", "jobs", "in the replay")


def _agreement(found: Reproduction) -> Iterator[Part]:
    is_rest = len(found.first_part) > 0
    groups = [
        ("The rest, which is judged" if is_rest else "All", found.all),
        *((group_title(group.kind, group.name), group) for group in found.groups()),
    ]
    if found.waiting.jobs:
        groups.insert(1, ("Waited more than 5 minutes", found.waiting))
    if is_rest:
        groups.insert(0, ("First part, on which weights were calibrated", found.calibrated))
    rows: list[list[Cell | str]] = [
        [
            title,
            Cell(f"{group.jobs:,}", "too few" if group.jobs < MIN_JOBS else ""),
            *map(duration_text, (group.recorded_s, group.replayed_s)),
            *map(_interval, (signed_duration(group.difference), signed_duration(group.off_s, plus=""))),
            _interval(_near(group)),
        ]
        for title, group in groups
    ]
    head = ["", "jobs", "mean wait recorded", "replayed", "difference"]
    head += ["starts differ by, mean", "starts within 5 minutes (%)"]
    yield Part(table=PageTable(head, rows))
    yield Part(chart=_waits_by_day(found), name=slug("Waits by day"))
    jobs, requested = {"recorded": found.before, "replayed": found.after}, "requested_number_of_resources"
    used = utilisation(jobs, "Processors", requested, found.processors, [*jobs])
    looks = {name: used.spec["encoding"][name] for name in ("color", "strokeDash")}
    titled = {name: {**look, "legend": {"title": STARTS}} for name, look in looks.items()}
    used = used.encode(tooltip=tooltips(scheduler=STARTS, day=SINCE, value="Processors in use (%)"), **titled)
    yield Part(chart=used.properties(title="Utilisation"), name=slug("Utilisation over time"))
    table = usage_table(usage(found.jobs, found.before, found.after), "recorded", "replayed")
    yield Part("Throughput", table=table, folded=True)


def _near(group: Group) -> str:
    return group.near.scaled(100.0).text(".1f")


def _interval(text: str) -> Cell:
    """A mean, with its interval below."""
    mean, _, limits = text.partition(" [")
    return Cell(mean, limits and f"[{limits}")


def _waits_by_day(found: Reproduction) -> Figure:
    day, hours = (pl.col("submit_s") // DAY_S).alias("day"), pl.mean("recorded_s", "replayed_s") / 3600
    by_day = found.jobs.group_by(day).agg(hours).sort("day").drop_nulls()
    waits = {"recorded": by_day["recorded_s"], "replayed": by_day["replayed_s"]}
    points = [
        (day, name, wait_h) for name in waits for day, wait_h in zip(by_day["day"], waits[name], strict=True)
    ]
    return lines(points, SINCE, "Mean wait by day (hours)", STARTS, height=200)


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
