"""A rehearsal: a month under the present controller, twice, and under variants of it, which are names of
schedulers under test, with one report; without variants, a validation of one scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import BaseModel

from scheduler import UserError
from sil.experiment.replay import Outcome, replay_all
from sil.experiment.replay_folder import read
from sil.outcome.jobs import JOBS, read_jobs_csv
from sil.rehearsal import REHEARSAL
from sil.rehearsal.effects import MeanDifference, differing, effects, most_changed, usage
from sil.rehearsal.month import COLUMNS, Arrivals, Month, OperatorsActs, month_of
from sil.rehearsal.reproduction import Reproduction, reproduction
from sil.rehearsal.submissions import Gap
from sil.rehearsal.uses import Subject
from sil.report.analysis import Analysis
from sil.report.listing import file_name
from sil.report.replay.measured import Replayed
from sil.runs.on_log import Replay
from sil.runs.under_test import UnderTest, controllers, schedulers_for_logs, with_releases
from sil.settings.alternatives import combined
from sil.settings.replays import Rehearsing
from sil.site.logs import Validating, read_nodes_of
from sil.site.past import recorded_past
from sil.slurm.queries import STATEMENTS, ControllerReport
from sil.trace.reading import DAMAGED
from sil.workers.executor import Executor, Listener
from sil.workload.accounting import recorded_in
from sil.workload.settings import Rules
from sil.workload.slices import DAY_S
from site_db.files.access import no_link, read_text
from site_db.files.formats import zone_named
from site_db.files.input_errors import remedy
from site_db.jobs.sacct.columns import RAN, RUNNING

AGAIN = " #2"
"""The end of a name: the same again, with other moments of its cycles, to see by how much two runs differ."""
MAX_VARIANTS = 200


def rehearsed(
    accounting: Path, confs: Sequence[Path], how: Rehearsing
) -> tuple[Month, Replay, tuple[UnderTest, ...]]:
    """The month of accounting, and its replay; the controller with the first slurm.conf, the same again, and
    variants. Raises UserError."""
    now, *others = confs
    cluster, rules = read_nodes_of(now), Rules(time_zone=how.time_zone)
    done = OperatorsActs.beside(now, zone_named(how.time_zone))
    recorded = recorded_in(accounting, rules, RAN | {RUNNING})
    month = month_of(recorded, cluster, rules, done, how.since, how.warm_up_days)
    names = [present(now), f"{present(now)}{AGAIN}"]
    names += variants(now, others, how.to or (), how.settings or ())
    schedulers = with_releases(schedulers_for_logs(names, with_requests=True))
    replay = Replay(month.log, events=month.events, slurm_step_s=how.slurm_step_s, slurm_statements=True)
    return month, replay, schedulers


def validated(
    accounting: Path | None, how: Validating, scheduler: str
) -> tuple[Month, Replay, tuple[UnderTest, ...]]:
    """The jobs that accounting, or else the database of the site, has recorded, their replay, and the
    scheduler. Slurm's controller also gets what was submitted with them, and what operators did, if files
    beside its slurm.conf say so. Raises UserError."""
    cluster = how.cluster
    if cluster is None or not cluster.nodes:
        nodes = remedy("; name the nodes with {}", ("--nodes", "slurm.conf"), ("--site", "DATABASE#SITE"))
        raise UserError(f"recorded jobs are replayed on the nodes of their site{nodes}")
    schedulers = schedulers_for_logs([scheduler], with_requests=True)
    programs, conf = controllers(schedulers), None if how.nodes is None else Path(how.nodes)
    conf = programs[0].path if programs else conf
    done = OperatorsActs() if conf is None else OperatorsActs.beside(conf, zone_named(how.time_zone))
    done, arrivals = (
        (done, Arrivals.AS_SUBMITTED) if programs else (done.on(cluster.nodes), Arrivals.WHEN_ELIGIBLE)
    )
    if accounting is not None:
        recorded = recorded_in(accounting, how, RAN | {RUNNING})
    elif how.site is not None:
        recorded = recorded_past(how.site, cluster)
    else:
        raise UserError("what happened is not given; name --accounting FILE, or a --site that recorded it")
    month = month_of(recorded, cluster, how, done, how.since, how.warm_up_days, arrivals)
    replay = Replay(month.log, events=month.events, slurm_statements=bool(programs))
    return month, replace(replay, reasons=how.reasons, slurm_step_s=how.slurm_step_s), schedulers


def present(conf: Path) -> str:
    """The controller of this computer with an operator's settings."""
    return _named("", conf, "")


def variants(
    conf: Path, others: Sequence[Path], installations: Sequence[str], settings: Sequence[str]
) -> list[str]:
    """The variants in all combinations: the files that take the place of `conf`, the installations
    (`prefix=FOLDER`, `root=FOLDER`, or a folder that is either), and the settings, each with its {values}.
    Raises UserError if there are too many."""
    names = [
        _named(installation, path, chosen)
        for path in (others or [conf])
        for installation in (installations or [""])
        for chosen in combined(settings)
    ]
    found = [name for name in dict.fromkeys(names) if name != present(conf)]
    if len(found) > MAX_VARIANTS:
        raise UserError(f"these are {len(found):,} variants; at most {MAX_VARIANTS} are rehearsed at a time")
    return found


def _named(installation: str, conf: Path, settings: str) -> str:
    if installation and not installation.startswith(("prefix=", "root=")):
        is_root = (Path(installation) / "usr" / "sbin").is_dir()
        installation = f"{'root' if is_root else 'prefix'}={installation}"
    where = f"({installation})" if installation else ""
    return f"slurm{where}: {conf}{f' ({settings})' if settings else ''}"


RECORDED = "recorded.parquet"
UNREADABLE = (OSError, ValueError, RecursionError, UserError)


class RehearsalFile(BaseModel):
    """The content of rehearsal.json."""

    schedulers: list[str]
    causes: dict[str, list[int]]
    begun: list[int]
    processors: int
    subject: Subject
    gaps: list[Gap]
    calibration: dict[str, Any] | None = None


class JobsVerdict(StrEnum):
    """Whether jobs are worse off under a variant."""

    REGRESSION = "regression"
    """More jobs are refused, or some wait longer, as is to be expected of other months."""
    THIS_MONTH = "worse in this month"
    """Jobs wait longer on average; whether they do in other months is not known."""
    NONE = "no regression"


@dataclass(frozen=True)
class Variant:
    """Another controller, or other settings, against the present ones."""

    name: str
    effects: Sequence[MeanDifference]
    changed: pl.DataFrame
    """The jobs that change most, with `before_reason` and `after_reason`."""
    settings: Sequence[tuple[str, str, str]]
    """The settings that differ, as the daemons have read them: name, before, after."""
    refused_more: int
    """How many more of the jobs that count are refused or never start."""
    usage: pl.DataFrame
    """Processor-hours until the last submission (`usage`)."""

    @property
    def verdict(self) -> JobsVerdict:
        worse = [effect for effect in self.effects if effect.is_worse]
        if self.refused_more > 0 or any(effect.is_settled for effect in worse):
            return JobsVerdict.REGRESSION
        return JobsVerdict.THIS_MONTH if any(effect.kind == "all" for effect in worse) else JobsVerdict.NONE

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "verdict": self.verdict.value,
            "refused_more": self.refused_more,
            "settings": [dict(zip(("name", "before", "after"), row, strict=True)) for row in self.settings],
            "usage": self.usage.to_dicts(),
            "effects": [effect.as_dict() for effect in self.effects],
            "changed": self.changed.to_dicts(),
        }


@dataclass(frozen=True)
class Rehearsal:
    """The results in a folder: whether the month reproduces, and what becomes of it under each variant."""

    present: str
    reproduction: Reproduction
    variants: Sequence[Variant]
    said: Mapping[str, ControllerReport]
    """What controllers said of themselves, by name of the scheduler."""
    replayed: Replayed
    subject: Subject
    gaps: Sequence[Gap]
    calibration: dict[str, Any] | None

    @property
    def differing(self) -> pl.DataFrame:
        """The jobs of which the present settings reproduce the wait least, with what accounting says of them
        that is not modelled, and what they waited for."""
        found, ran, causes = self.reproduction, self.replayed.jobs[self.present], dict[int, str]()
        for cause, jobs in found.causes.items():
            causes |= {job: f"{causes[job]}; {cause}" if job in causes else cause for job in jobs}
        reasons = self.said[self.present].reasons if self.present in self.said else {}
        if "reason" in ran.columns:
            reasons = dict(ran.select("job_id", "reason").drop_nulls().iter_rows())
        changed = most_changed(found.jobs, found.before, found.before, found.after)
        return _with_reasons(changed, causes, reasons)

    def as_dict(self) -> dict[str, Any]:
        """The results as a JSON object."""
        return {
            "log": self.replayed.described["log"],
            "jobs": self.reproduction.all.jobs,
            "subject": self.subject.model_dump(),
            "calibration": self.calibration,
            "not_in_accounting": [gap._asdict() for gap in self.gaps],
            "reproduction": self.reproduction.as_dict(),
            "variants": [variant.as_dict() for variant in self.variants],
        }


def rehearse(
    month: Month,
    replay: Replay,
    schedulers: Sequence[UnderTest],
    out: Path,
    executor: Executor,
    listener: Listener,
    calibration: dict[str, Any] | None = None,
) -> list[Outcome]:
    """Replay a month under `schedulers`: the present one, and of a rehearsal the same again, and variants.
    Raises what `replay_all` raises."""
    analysis = Analysis(month.warm_up_days)
    analysis.check(month.log.span_s / DAY_S)
    return replay_all(
        replay, schedulers, out, executor, analysis, Recording(month, schedulers, out, listener, calibration)
    )


@dataclass(frozen=True)
class Recording(Listener):
    """Passes progress on, and writes what was recorded as soon as there are results to compare it with."""

    month: Month
    schedulers: Sequence[UnderTest]
    out: Path
    listener: Listener
    calibration: dict[str, Any] | None

    def progressed(self, done: int, total: int | None) -> None:
        self.listener.progressed(done, total)

    def notify(self, sentence: str) -> None:
        self.listener.notify(sentence)

    def finished(self, scheduler: str) -> None:
        """Pass on the results of the first scheduler only."""
        month, present = self.month, self.schedulers[0]
        if scheduler != present.label:
            return
        month.runs.write_parquet(no_link(self.out / RECORDED))
        causes = {cause: sorted(jobs) for cause, jobs in month.causes.items()}
        found = RehearsalFile(
            schedulers=[each.label for each in self.schedulers],
            causes=causes,
            begun=sorted(month.begun),
            processors=month.log.processors,
            subject=Subject.of(month.log.cluster, present),
            gaps=[*month.gaps],
            calibration=self.calibration,
        )
        no_link(self.out / REHEARSAL).write_text(found.model_dump_json(), encoding="utf-8")
        self.listener.finished(scheduler)


def reproduced(out: Path) -> Reproduction:
    """How the first scheduler of a rehearsal reproduces the month. Raises UserError."""
    found = _described(out)
    try:
        runs = pl.read_parquet(out / RECORDED, glob=False).select(*COLUMNS)
        jobs = read_jobs_csv(out / file_name(found.schedulers[0]) / JOBS)
    except (*DAMAGED, ValueError) as error:
        raise _not_one(out, error) from None
    causes = {cause: frozenset(jobs) for cause, jobs in found.causes.items()}
    return reproduction(runs, jobs, causes, found.begun, found.processors)


def read_rehearsal(out: Path) -> Rehearsal:
    """The results in a folder. Raises UserError."""
    described, replayed, found = _described(out), read(out), reproduced(out)
    # Where all jobs are refused, the results have no jobs.
    ran = {
        name: replayed.jobs[name] if name in replayed.jobs else read_jobs_csv(out / file_name(name) / JOBS)
        for name, statistics in replayed.statistics.items()
        if statistics
    }
    replayed = replace(replayed, jobs=ran)
    present, *others = [name for name in described.schedulers if name in ran]
    said = {name: said for name in ran if (said := _said(out / file_name(name) / STATEMENTS))}
    again, names = f"{present}{AGAIN}", [name for name in others if not name.endswith(AGAIN)]
    variants = [
        _variant(name, present, again, found.jobs, said, replayed) for name in names if again in others
    ]
    of = described.subject, described.gaps, described.calibration
    return Rehearsal(present, found, variants, said, replayed, *of)


def _variant(
    name: str,
    present: str,
    again: str,
    jobs: pl.DataFrame,
    said: Mapping[str, ControllerReport],
    replayed: Replayed,
) -> Variant:
    counted = pl.col("job_id").is_in(jobs["job"].implode())
    before, once_more, after = (replayed.jobs[each].filter(counted) for each in (present, again, name))
    changed = most_changed(jobs, before, once_more, after)
    views = {each: said[each].views if each in said else {} for each in (present, name)}
    changed = _with_reasons(
        changed, *(said[each].reasons if each in said else {} for each in (present, name))
    )
    return Variant(
        name,
        effects(jobs, before, once_more, after),
        changed,
        [
            each
            for kind in views[present]
            for each in sorted(differing(views[present][kind], views[name].get(kind, {})))
        ],
        len(before) - len(after),
        usage(jobs, before, after),
    )


def _with_reasons(changed: pl.DataFrame, *reasons: Mapping[int, str]) -> pl.DataFrame:
    """Jobs with what is known of their waits, as before_reason and after_reason."""
    jobs, columns = changed["job"].to_list(), ("before_reason", "after_reason")
    return changed.with_columns(
        pl.Series(column, [known.get(job, "") for job in jobs], pl.String)
        for column, known in zip(columns, reasons, strict=True)
    )


def _described(out: Path) -> RehearsalFile:
    try:
        return RehearsalFile.model_validate_json(read_text(out / REHEARSAL), strict=True)
    except UNREADABLE as error:
        raise _not_one(out, error) from None


def _said(path: Path) -> ControllerReport | None:
    """What a controller said of itself; None where it has not been asked, or the file is damaged."""
    try:
        return ControllerReport.model_validate_json(read_text(path))
    except UNREADABLE:
        return None


def _not_one(out: Path, error: Exception) -> UserError:
    return UserError(
        f"{out}: this was not written by `sil slurm rehearse` or `sil validate` ({type(error).__name__}); "
        f"repeat the command"
    )
