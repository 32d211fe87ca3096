"""Options that several commands have: types of parameters."""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import datetime
from functools import wraps
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

from typer import Argument, BadParameter, Option

from scheduler import UserError
from sil.cli import console
from sil.declared import Field, Shown, declared, spread
from sil.report.analysis import Analysis
from sil.workload.swf_rules import Overrun, TooLarge
from site_db.files.plain_values import is_decimal

Returned = TypeVar("Returned")


def command(function: Callable[..., Returned]) -> Callable[..., Returned]:
    """Decorates a command: the fields of its settings are options, and bad input ends it with a sentence."""
    spread_out = spread(_as_option)(function)

    @wraps(spread_out)
    def call(*args: Any, **given: Any) -> Returned:
        with console.one_sentence_for_bad_input():
            return spread_out(*args, **given)

    return call


def _as_option(field: Field) -> Shown:
    setting, name = field.setting, field.name.removesuffix("_s").removesuffix("_mb")
    if field.kind is bool and field.default:
        name = f"no_{name}"
    option = setting.option or f"--{name.replace('_', '-')}"
    kind: Any = field.kind
    if kind is bool:
        info = Option(option, help=setting.without if field.default else setting.text)
        default = False
    else:
        how: dict[str, Any] = {"metavar": setting.metavar, "parser": setting.parser}
        if int in (kind, *get_args(kind)) or float in (kind, *get_args(kind)):
            how |= {"min": setting.least, "max": setting.most}
        info, default = Option(option, help=setting.text, **how), field.default
    parameter = Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info])
    return Shown(parameter, option, operator.not_ if name.startswith("no_") else lambda value: value)


Json = Annotated[bool, Option("--json", help="Print JSON instead of tables.")]
Seed = Annotated[int | None, Option(min=0, help="Override the seed in the file.")]
Schedulers = Annotated[
    list[str] | None,
    Option(help="Override those in the file. May be repeated; the first is the baseline."),
]
Site = Annotated[
    str | None,
    Option(
        metavar="DATABASE#SITE",
        help="A site in a database instead of the one in the file: site.db, sqlite:///site.db#SITE or "
        "postgresql://user@host/database#SITE.",
    ),
]
Trust = Annotated[
    bool,
    Option(
        "--trust",
        help="Run the modules and commands that the file or its site names, without a question. Schedulers "
        "given as options are trusted.",
    ),
]
Metric = Annotated[str, Option(help="The metric of the grid table: a column of summary.json.")]
METRIC = "sum_job_times"
Reasons = Annotated[bool, Option("--reasons", help="Record in the trace why jobs wait (for `sil why`).")]
NoDeterminismCheck = Annotated[
    bool,
    Option(
        "--no-determinism-check",
        help="Accept schedulers that decide differently in two instances. Random ones can declare is_random.",
    ),
]
DecisionLimit = Annotated[float, Option(min=0.001, help="Seconds of wall time that a decision may take.")]

SchedulersOfLogs = Annotated[
    list[str] | None,
    Option(
        "--scheduler", help="fcfs, sjf, easy, easy_sjbf, conservative, slurm, or your own. May be repeated."
    ),
]

# Of the report of a replay, where an option that is not given leaves the value as it is
_of_analysis = {field.name: field.setting for field in declared(Analysis)}


def _as_before(name: str) -> Any:
    return Option(min=_of_analysis[name].least, help=_of_analysis[name].text)


WarmUp = Annotated[float | None, _as_before("warm_up_days")]
CoolDown = Annotated[float | None, _as_before("cool_down_days")]
BlockDays = Annotated[float | None, _as_before("block_days")]

# Of a trace
Replication = Annotated[int, Option(min=0, help="Number of the replication.")]
Point = Annotated[int, Option(min=0, help="Number of the point of a grid.")]

# Of a log: its file, its repair, and the jobs that are used
_LOG = "A log (SWF), or a Batsim workload (JSON), plain or compressed (gzip, bzip2, xz, zstd)"
Log = Annotated[Path, Argument(help=f"{_LOG}.")]
LogOrAccounting = Annotated[
    Path, Argument(help=f"{_LOG}; or Slurm's accounting (see `sil db import-sacct --help`).")
]
LogOnNodes = Annotated[
    Path,
    Argument(
        help=f"{_LOG}; with --nodes or --site, also Slurm's accounting (see `sil db import-sacct --help`) or "
        f"Alibaba's pods (CSV)."
    ),
]
Nodes = Annotated[
    Path | None,
    Option(
        metavar="FILE",
        help="Nodes with CPUs, memory and GPUs, and partitions: slurm.conf, the output of `scontrol show "
        "node`, a site file (TOML), or Alibaba's nodes (CSV).",
    ),
]
NodesOfSite = Annotated[
    str | None,
    Option("--site", metavar="DATABASE#SITE", help="The same, of a site in a database, like site.db#SITE."),
]
Strict = Annotated[bool, Option("--strict", help="Refuse a log that needs repairs.")]
Processors = Annotated[int | None, Option(min=1, help="Override the machine size in the log.")]
OnOverrun = Annotated[
    Overrun, Option(help="Jobs that exceeded their estimate: raise the estimate, or cut the run.")
]
OnTooLarge = Annotated[
    TooLarge, Option(help="Jobs larger than the machine: clip them, skip them, or stop with an error.")
]
Jobs = Annotated[
    str | None,
    Option(metavar="A:B", help="Only jobs A to B - 1, in order of submission, counted from 0."),
]


def _date(text: str) -> datetime:
    from sil.workload.job_log import moment_of

    try:
        return moment_of(text)
    except UserError as error:
        raise BadParameter(str(error)) from None


def _factor(text: str) -> float:
    if is_decimal(text):
        return float(text)
    percent = text.removesuffix("%").strip()
    meant = f"{float(percent) / 100:g}" if text.endswith("%") and is_decimal(percent) else "0.8"
    raise BadParameter(f"'{text}' is no number; write {meant}")


_AT: dict[str, Any] = {"parser": _date, "metavar": "DATE"}
Begin = Annotated[
    datetime | None,
    Option("--from", help="Only jobs submitted at or after this time (UTC, or of --time-zone).", **_AT),
]
End = Annotated[
    datetime | None,
    Option("--to", help="Only jobs submitted before this time (UTC, or of --time-zone).", **_AT),
]
TimeZone = Annotated[
    str | None,
    Option(
        metavar="ZONE",
        help="Of dates, and of local times in Slurm's accounting, like Europe/Berlin. Default: UTC.",
    ),
]
AS_FACTOR: dict[str, Any] = {"parser": _factor, "metavar": "NUMBER"}
OtherThreshold = Annotated[
    float | None,
    Option(
        "--bounded-slowdown-threshold",
        min=0.001,
        max=1e9,
        help="Override bounded_slowdown_threshold_s in the file.",
    ),
]
BoundedSlowdownThreshold = Annotated[
    float,
    Option(
        min=0.001,
        max=1e9,
        help="Run times that are shorter count as this many seconds in bounded slowdowns.",
        show_default=True,
    ),
]
Load = Annotated[
    float | None, Option(help="Scale the load: divide interarrival times by this factor.", **AS_FACTOR)
]


def folder(default: str) -> Any:
    """The option for the folder of the results; `default` is for the help."""
    return Option("--out", help=f"Folder for the results. Default: {default}.")
