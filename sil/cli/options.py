"""Options that several commands have: types of parameters."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import MISSING
from functools import partial, wraps
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import click

from sil.cli import console
from sil.cli.parameters import Argument, CommandOption, as_command
from sil.declared import Field, Settings, Shown, declared, sentences, spread, without_sentences
from sil.report.analysis import Analysis
from sil.settings.replays import Overrides, ReplaySettings
from sil.site.logs import LogFile
from sil.workload import settings
from sil.workload.settings import Rules

Returned = TypeVar("Returned")


def command(function: Callable[..., Returned], name: str, **how: Any) -> click.Command:
    """A command of this name: the parameters of the function are arguments and, by keyword or with a default,
    options, of which its docstring has the help in a list; the fields of its settings are options, too. Bad
    input ends it with a sentence."""
    spread_out = spread(_as_option)(function)

    @wraps(spread_out)
    def call(*args: Any, **given: Any) -> Returned:
        with console.one_sentence_for_bad_input():
            return spread_out(*args, **given)

    call.__doc__ = without_sentences(function.__doc__)
    return as_command(call, name, sentences(function.__doc__), **how)


def _as_option(field: Field) -> Shown:
    option, is_off = _option(field), field.kind is bool and field.default
    name = field.name.removesuffix("_s").removesuffix("_mb")
    default = Parameter.empty if field.default is MISSING else False if is_off else field.default
    # A command has options of one kind only: files are paths.
    kind: Any = Path | None if Path in get_args(field.kind) else field.kind
    name = f"no_{name}" if is_off else name
    parameter = Parameter(
        name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, _info(field)]
    )
    return Shown(parameter, option, operator.not_ if is_off else partial(_checked, field, option))


def _checked(field: Field, option: str, value: Any) -> Any:
    """The value of an option. Click checks bounds, but not whether a number is finite. Raises UserError."""
    return field.checked(value, option) if isinstance(value, float) else value


def _option(field: Field) -> str:
    name = field.name.removesuffix("_s").removesuffix("_mb").replace("_", "-")
    return field.setting.option or (f"--no-{name}" if field.kind is bool and field.default else f"--{name}")


def _info(field: Field) -> Any:
    setting, kinds = field.setting, (field.kind, *get_args(field.kind))
    how: dict[str, Any] = {"metavar": setting.metavar, "parser": setting.parser}
    if int in kinds or float in kinds:
        how |= {"min": setting.least, "max": setting.most}
    return CommandOption(name=_option(field), help=field.without or field.text, **how)


LOAD = CommandOption(parser=settings.LOAD.parser, metavar=settings.LOAD.metavar)
Json = Annotated[bool, CommandOption(name="--json", help="Print JSON instead of tables.")]
Metric = Annotated[str, CommandOption(help="The metric of the grid table: a column of summary.json.")]
METRIC = "sum_job_times"

SchedulersOfLogs = Annotated[
    list[str] | None,
    CommandOption(
        name="--scheduler",
        help="fcfs, sjf, easy, easy_sjbf, conservative, slurm, or your own. May be repeated.",
    ),
]

# Of a trace
Replication = Annotated[int, CommandOption(min=0, help="Number of the replication.")]
Point = Annotated[int, CommandOption(min=0, help="Number of the point of a grid.")]

# Of a log: its file, its repair, and the jobs that are used
_LOG = "A log (SWF), or a Batsim workload (JSON), plain or compressed (gzip, bzip2, xz, zstd)"
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


def folder(default: str) -> Any:
    """The option for the folder of the results; `default` is for the help."""
    return CommandOption(name="--out", help=f"Folder for the results. Default: {default}.")


def _of(settings: type[Settings], name: str) -> Any:
    """The option for a field of settings of which a command has no other fields."""
    (field,) = (field for field in declared(settings) if field.name == name)
    return _info(field)


Seed = Annotated[int | None, _of(Overrides, "seed")]
Trust = Annotated[bool, _of(Overrides, "trust")]
TimeZone = Annotated[str | None, _of(Rules, "time_zone")]
Processors = Annotated[int | None, _of(LogFile, "processors")]
WarmUp = Annotated[float | None, _of(Analysis, "warm_up_days")]
CoolDown = Annotated[float | None, _of(Analysis, "cool_down_days")]
BlockDays = Annotated[float | None, _of(Analysis, "block_days")]
DecisionLimit = Annotated[float, _of(ReplaySettings, "decision_limit_s")]
