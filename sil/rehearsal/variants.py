"""What is rehearsed: accounting, and variants of a controller as names of schedulers under test."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from scheduler import UserError
from sil.rehearsal.month import Month, month_of
from sil.rehearsal.operators import OperatorsActs
from sil.runs.on_log import Replay
from sil.runs.under_test import UnderTest, schedulers_for_logs, with_releases
from sil.settings.replays import Rehearsing
from sil.site.log_file import read_nodes_of
from sil.workload.settings import Rules
from site_db.jobs.sacct.times import zone_named

_CHOICE = re.compile(r"\{([^{}]*)\}")
AGAIN = " #2"
"""Of a name: the same again, with other moments of its cycles, to see by how much two runs differ."""
MOST_VARIANTS = 200


def rehearsed(
    accounting: Path, confs: Sequence[Path], how: Rehearsing
) -> tuple[Month, Replay, tuple[UnderTest, ...]]:
    """The month of accounting, and its replay; the controller with the first slurm.conf, the same again, and
    variants. Raises UserError."""
    now, *others = confs
    cluster, rules = read_nodes_of(now), Rules(time_zone=how.time_zone)
    done = OperatorsActs.beside(now, zone_named(how.time_zone))
    month = month_of(accounting, cluster, rules, done, how.since, how.warm_up_days)
    names = [present(now), f"{present(now)}{AGAIN}"]
    names += variants(now, others, how.to or (), how.settings or ())
    schedulers = with_releases(schedulers_for_logs(names, with_requests=True))
    replay = Replay(month.log, events=month.events, slurm_step_s=how.slurm_step_s, slurm_statements=True)
    return month, replay, schedulers


def expanded(text: str) -> list[str]:
    """A setting with one value of each {list,of,values} in it, in all combinations."""
    texts, choices = _CHOICE.split(text)[::2], [part.split(",") for part in _CHOICE.findall(text)]
    return [
        "".join(part for pair in zip(texts, (*chosen, ""), strict=True) for part in pair)
        for chosen in product(*choices)
    ]


def present(conf: Path) -> str:
    """The controller of this computer with an operator's settings."""
    return _named("", conf, "")


def variants(
    conf: Path, others: Sequence[Path], installations: Sequence[str], settings: Sequence[str]
) -> list[str]:
    """In all combinations: the files that take the place of `conf`, the installations (`prefix=FOLDER`,
    `root=FOLDER`, or a folder that is either), and the settings, each with its {values}. Raises UserError if
    there are too many."""
    names = [
        _named(installation, path, " ".join(chosen))
        for path in (others or [conf])
        for installation in (installations or [""])
        for chosen in product(*map(expanded, settings))
    ]
    found = [name for name in dict.fromkeys(names) if name != present(conf)]
    if len(found) > MOST_VARIANTS:
        raise UserError(f"these are {len(found):,} variants; at most {MOST_VARIANTS} are rehearsed at a time")
    return found


def _named(installation: str, conf: Path, settings: str) -> str:
    if installation and not installation.startswith(("prefix=", "root=")):
        is_root = (Path(installation) / "usr" / "sbin").is_dir()
        installation = f"{'root' if is_root else 'prefix'}={installation}"
    where = f"({installation})" if installation else ""
    return f"slurm{where}: {conf}{f' ({settings})' if settings else ''}"
