"""The results folder of a replay: its files, and its report, which can be rendered again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, get_args, get_origin

from scheduler import UserError
from sil.outcome.jobs import JOBS, ImpossibleJob, read_jobs_csv, with_users_and_reasons
from sil.outcome.run_parts import run_parts
from sil.report import FigureKind
from sil.report.analysis import Analysis
from sil.report.listing import file_name, json_text
from sil.report.replay.measured import SENTENCES, Replayed
from sil.settings.replays import Estimates
from sil.trace.facts import TRACE
from sil.trace.log_clock import KEY
from sil.trace.reading import DAMAGED, read_facts, read_node_cores
from site_db.files.access import OF_JSON, no_link, read_text

if TYPE_CHECKING:
    from sil.outcome.replayed_log import Results
    from sil.runs.on_log import Replay

SUMMARY = "summary.json"
REPORT = "report.html"
FIGURES = "figures"

ALL_AS_BEFORE: Mapping[str, float] = MappingProxyType({})
OPTIONAL = (KEY,)
"""Keys that summary.json has only of logs with dates."""
DESCRIBED: Mapping[str, Any] = {
    "log": str,
    "acknowledge": str,
    "part": list[str],
    "jobs": int,
    "processors": int,
    "gpus": float,
    "nodes": list[str],
    "load": float | None,
    "days": float,
    "estimates": str,
    "order": str,
    "decision_cost": str,
    "repairs": list[str],
    "programs": dict[str, list[str]],
    "schedulers": dict[str, dict[str, float | str | None]],
    "version": str,
    "scheduler_source": str,
    "analysis": dict[str, float | None],
    "bounded_slowdown_threshold_s": float,
}
"""The keys of summary.json, with the types of values. `analysis` are the numbers of an `Analysis`."""


def write_summary(
    out: Path, replay: Replay, results: Mapping[str, Results], programs: Mapping[str, Any], analysis: Analysis
) -> None:
    """Write summary.json, with the results of the schedulers that are done, and the `programs` of all."""
    found = {
        **replay.description(),
        "programs": programs,
        "load": replay.log.load,
        "days": replay.log.span_s / 86_400.0,
        "schedulers": {
            name: {**of.statistics, "fault": of.fault, "refused": of.refused} for name, of in results.items()
        },
        "analysis": asdict(analysis),
    }
    text = json_text({key: found[key] for key in (*DESCRIBED, *OPTIONAL) if key in found})
    no_link(out / SUMMARY).write_text(text + "\n", encoding="utf-8")


def are_replays(out: Path) -> bool:
    """Whether a folder has the results of replays."""
    return (out / SUMMARY).is_file() and not (out / TRACE).is_file()


def render(out: Path, changes: Mapping[str, float] = ALL_AS_BEFORE) -> Replayed:
    """Write report.html from summary.json and the jobs.csv of each scheduler in `out`, with its analysis
    except for some `changes`. Raises UserError, also if the analysis measures no job."""
    # Loading these takes longer than a short log.
    from sil.report.page import write_page
    from sil.report.replay.page import replay_page

    replayed = read(out)
    write_page(out / REPORT, replay_page(replayed, _analysis(replayed, changes)))
    return replayed


def draw(out: Path, kind: FigureKind, changes: Mapping[str, float] = ALL_AS_BEFORE) -> list[Path]:
    """Write the charts of the report (`render`) as files into the folder `figures` of `out`. Raises
    UserError."""
    from sil.report.page import write_figures
    from sil.report.replay.page import replay_page, schedule_sections

    replayed = read(out)
    page = replay_page(replayed, _analysis(replayed, changes))
    page.sections += [] if replayed.parts else schedule_sections(replayed)
    return write_figures(out / FIGURES, kind, page)


def _is_of(kind: Any, value: Any) -> bool:
    """Whether a value of JSON is of a type. (Loading Pydantic takes a tenth of a short replay.)"""
    origin, of = get_origin(kind), get_args(kind)
    if origin in (list, dict):
        values = value.values() if isinstance(value, dict) else value
        return isinstance(value, origin) and all(_is_of(of[-1], each) for each in values)
    if of:
        return any(_is_of(each, value) for each in of)
    return isinstance(value, (int, float) if kind is float else kind) and not isinstance(value, bool)


def _analysis(replayed: Replayed, changes: Mapping[str, float]) -> Analysis:
    return Analysis(**{**replayed.described["analysis"], **changes})


def read(out: Path) -> Replayed:
    """The results in a folder. Raises UserError."""
    path = out / SUMMARY
    try:
        summary = json.loads(read_text(path, OF_JSON))
        described, jobs, parts = {key: summary[key] for key in DESCRIBED}, {}, {}
        described |= {key: summary[key] for key in OPTIONAL if key in summary}
        if wrong := [key for key, kind in DESCRIBED.items() if not _is_of(kind, described[key])]:
            raise TypeError(wrong[0])
        if not described["schedulers"]:
            raise ValueError("no scheduler")
        Estimates(described["estimates"])
        Analysis(**described["analysis"]).check(inf)
        for name, statistics in described["schedulers"].items():
            given = {key: value for key, value in statistics.items() if value is not None}
            if any(isinstance(value, str) != (key in SENTENCES) for key, value in given.items()):
                raise TypeError("a sentence is a number, or the other way round")
            path = out / file_name(name) / JOBS
            if path.exists() or "makespan" in statistics:
                jobs[name] = read_jobs_csv(path)
                if (trace := path.parent / TRACE).is_file():
                    jobs[name] = with_users_and_reasons(jobs[name], trace)
                    if described["nodes"] and (cores := read_node_cores(trace)):
                        parts[name] = run_parts(read_facts(trace), cores)
        return Replayed(described, {name: table for name, table in jobs.items() if len(table)}, parts)
    except ImpossibleJob:
        raise
    except (*DAMAGED, ValueError, LookupError, TypeError, RecursionError) as error:
        raise UserError(
            f"{path}: this was not written by `sil replay` ({type(error).__name__}); repeat the replay"
        ) from None
