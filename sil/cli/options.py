"""Options that several commands have: types of parameters."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, BadParameter, Option

from scheduler import UserError
from sil.settings.engines import Engine
from sil.settings.estimates import Estimates
from sil.workload.swf_rules import Overrun, TooLarge
from site_db.files.plain_numbers import is_decimal

WORKERS = os.cpu_count() or 1
Workers = Annotated[int, Option(min=1, help="Processes to run on. The results do not depend on the number.")]
Dask = Annotated[
    str | None,
    Option(
        help="Run on a Dask cluster instead, with the same results: tcp://HOST:8786, or its scheduler file."
    ),
]
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

EstimatesKind = Annotated[
    Estimates,
    Option(
        help="Run-time estimates: the users' own, the actual run times, or the mean of the user's last two "
        "run times."
    ),
]
EngineChoice = Annotated[
    Engine,
    Option(
        help="What runs the replay, with equal results: compiled, for built-in schedulers on identical "
        "processors, without decision costs and reasons; harness, for all; or auto: compiled where possible, "
        "except for few jobs."
    ),
]
Order = Annotated[
    str,
    Option(
        help="Order of simultaneous events: default; archive, as in published schedules; or batsim (all in "
        "one message, 10 s later than in the log)."
    ),
]
SchedulersOfLogs = Annotated[
    list[str] | None,
    Option(
        "--scheduler", help="fcfs, sjf, easy, easy_sjbf, conservative, slurm, or your own. May be repeated."
    ),
]
SeedOfSchedulers = Annotated[int, Option("--seed", min=0, help="Seed of random schedulers.")]

# Of the report of a replay
_WARM_UP = Option(min=0.0, help="Leave jobs submitted in the first days out of the report's statistics.")
_COOL_DOWN = Option(min=0.0, help="The same for jobs submitted in the last days.")
_BLOCK = Option(
    min=0.01,
    help="Length of the blocks for intervals of differences between schedulers. Default: 7, or 1 "
    "in logs of fewer than 8 weeks.",
)
WarmUp = Annotated[float, _WARM_UP]
CoolDown = Annotated[float, _COOL_DOWN]
WarmUpAsBefore = Annotated[float | None, _WARM_UP]
CoolDownAsBefore = Annotated[float | None, _COOL_DOWN]
BlockDays = Annotated[float | None, _BLOCK]

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
