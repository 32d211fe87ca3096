"""A validation: recorded jobs under the stated policies of their site, each held against what happened."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from scheduler import UserError
from scheduler.messages import counted
from sil.experiment.replay_folder import REPORT, read
from sil.rehearsal import VALIDATION
from sil.rehearsal.effects import most_changed, usage
from sil.rehearsal.month import Month, OperatorsActs, month_of
from sil.rehearsal.reproduction import Reproduction
from sil.rehearsal.run import described, reproduced, statements, with_reasons
from sil.rehearsal.sections import (
    changed_table,
    judged_title,
    judgement_table,
    reproduction_sections,
    usage_table,
)
from sil.rehearsal.uses import LIMITS, Grade
from sil.report.listing import file_name, json_text
from sil.report.page import Notice, Page, Part, Section, write_page
from sil.report.replay.measured import Replayed
from sil.runs.on_log import Replay
from sil.runs.under_test import SlurmProgram, UnderTest
from sil.site.logs import Validating
from site_db.files.access import no_link
from site_db.files.input_errors import remedy
from site_db.jobs.sacct.times import zone_named

PAGE, VERDICTS, STARTS = "validation.html", "verdicts.json", "starts.csv"


def validated(accounting: Path, how: Validating, schedulers: Sequence[UnderTest]) -> tuple[Month, Replay]:
    """The recorded jobs, and their replay. Slurm's controller gets what was submitted with them, and what
    operators did, if files beside its slurm.conf say so. Raises UserError."""
    cluster = how.cluster
    if cluster is None or not cluster.nodes:
        nodes = remedy("; name the nodes with {}", ("--nodes", "slurm.conf"), ("--site", "DATABASE#SITE"))
        raise UserError(f"{accounting}: recorded jobs are replayed on the nodes of their site{nodes}")
    programs = [each for each in schedulers if isinstance(each, SlurmProgram)]
    if programs and len(programs) < len(schedulers):
        other = next(each.label for each in schedulers if not isinstance(each, SlurmProgram))
        raise UserError(
            f"scheduler '{programs[0].label}' takes the dependencies, drains and reservations of accounting, "
            f"and '{other}' does not: they meet different jobs; validate each by itself"
        )
    done = None
    if programs:
        conf, zone = programs[0].program.path, zone_named(how.time_zone)
        done = OperatorsActs() if conf is None else OperatorsActs.beside(conf, zone)
    month = month_of(accounting, cluster, how, done, how.since, how.warm_up_days)
    return month, Replay(
        month.log,
        reasons=how.reasons,
        slurm_step_s=how.slurm_step_s,
        events=month.events,
        slurm_statements=bool(programs),
    )


@dataclass(frozen=True)
class Validation:
    """The results in a folder, by scheduler."""

    found: Mapping[str, Reproduction]
    differing: Mapping[str, pl.DataFrame]
    """The jobs that differ most, with what accounting says of them and why they waited in the replay."""
    replayed: Replayed

    def as_dict(self) -> dict[str, Any]:
        """The results as a JSON object."""
        return {name: found.as_dict() for name, found in self.found.items()}

    @property
    def starts(self) -> pl.DataFrame:
        """A row for each job that counts, with its recorded start and that under each scheduler; times in
        seconds of the log."""
        columns = ("log_id", "partition", "account", "qos", "user", "processors", "submit_s")
        table = next(iter(self.found.values())).jobs.select("job", *columns, recorded="start_s")
        for name, found in self.found.items():
            starts = found.jobs.select("job", replayed_start_s=pl.col("replayed_start_s"))
            table = table.join(starts.rename({"replayed_start_s": name}), on="job", maintain_order="left")
        return table.drop("job").rename({"log_id": "job"})


def read_validation(out: Path) -> Validation:
    """The results in a folder. Raises UserError."""
    replayed, differing = read(out), {}
    schedulers = [name for name in described(out / VALIDATION).schedulers if name in replayed.jobs]
    found = {name: reproduced(out, VALIDATION, name) for name in schedulers}
    for name, each in found.items():
        changed = most_changed(each.jobs, each.before, each.before, each.after)
        causes = defaultdict[int, list[str]](list)
        for cause, jobs in each.causes.items():
            for job in jobs:
                causes[job].append(cause)
        said, ran = statements(out / file_name(name)), replayed.jobs[name]
        reasons = {} if said is None else said.reasons
        if "reason" in ran.columns:
            reasons = dict(ran.select("job_id", "reason").drop_nulls().iter_rows())
        known = {job: "; ".join(texts) for job, texts in causes.items()}
        differing[name] = with_reasons(changed, known, reasons)
    return Validation(found, differing, replayed)


def write_validation(out: Path, found: Validation | None = None) -> Path:
    """Write page, verdicts and starts into the folder of a validation. Returns the page's path. Raises
    UserError."""
    found = found or read_validation(out)
    no_link(out / VERDICTS).write_text(json_text(found.as_dict()) + "\n", encoding="utf-8")
    if found.found:
        found.starts.write_csv(no_link(out / STARTS))
    write_page(out / PAGE, validation_page(found))
    return out / PAGE


def headline(name: str, found: Reproduction) -> str:
    """What a replay is good enough for, in a sentence."""
    by_grade: dict[Grade, list[str]] = {grade: [] for grade in Grade}
    for each in found.judgements:
        title = judged_title(each)
        by_grade[each.grade].append(title[0].lower() + title[1:])
    words = {grade: f"{grade.value} for" for grade in Grade} | {Grade.NOT_JUDGED: "not judged:"}
    parts = [f"{words[grade]} {', '.join(titles)}" for grade, titles in by_grade.items() if titles]
    return f"The replay under {name} is {'; '.join(parts)}."


def validation_page(validation: Validation) -> Page:
    d, several = validation.replayed.described, len(validation.found) > 1
    notices, parts, sections = [], [], list[Section]()
    for name, found in validation.found.items():
        uses = [found.judged(use).grade for use in LIMITS]
        kind = "answer" if all(grade in (Grade.GOOD, Grade.THIS_PERIOD) for grade in uses) else "refusal"
        notices.append(Notice(kind, headline(name, found)))
        notices += [Notice("note", f"{name}: {text}" if several else text) for text in found.facts()]
        parts.append(Part(name if several else "", table=judgement_table(found)))
        sections += _of_scheduler(name, found, validation.differing[name])
    notices += [Notice("fault", f"{text}.", "Fault") for text in validation.replayed.faults]
    notes = [f"{text}." for text in d["repairs"]]
    n_jobs = max((found.all.jobs for found in validation.found.values()), default=0)
    uses_section = Section(
        "What the simulated site is good enough for",
        "Differences are replayed less recorded, with intervals at 95 % over blocks of days. The limits of "
        "each use are fixed. In this period: the interval reaches beyond the limit, or it is not known, so "
        "that other periods may differ.",
        parts,
    )
    lacking = Section(
        "What the accounting does not contain",
        "What is not known of jobs or not modelled, and what was repaired.",
        [Part(items=notes or ["Nothing was found to be missing."])],
    )
    return Page(
        f"Validation of {d['log']}",
        f"{counted(n_jobs, 'recorded job')} on {counted(d['processors'], 'processor')}, replayed under "
        f"{' and '.join(validation.found)} and compared with what happened",
        f"Validation of {d['log']}",
        [
            ("Jobs that count", "those that started after the beginning of the replay and its warm-up"),
            ("Details", f"charts and statistics of each replay are in {REPORT}, all starts in {STARTS}"),
        ],
        notices,
        [uses_section, *sections, lacking],
    )


def _of_scheduler(name: str, found: Reproduction, differing: pl.DataFrame) -> Iterator[Section]:
    note = (
        "Waits and starts that accounting has, and those of the replay. Groups are those with most jobs; "
        "differences are replayed less recorded, with intervals over blocks of days."
    )
    yield from reproduction_sections(found, f"Starts and waits under {name}", note)
    used = usage_table(usage(found.jobs, found.before, found.after), "recorded", "replayed")
    yield Section(f"Throughput under {name}", parts=[Part("Throughput", table=used)])
    if len(differing):
        table = changed_table(differing, "wait recorded", "wait replayed")
        yield Section(
            f"Jobs that differ most under {name}",
            "Below the recorded wait is what accounting says of the job that is not modelled; below the "
            "replayed wait, what it waited for at last (recorded with --reasons).",
            [Part(table=table)],
        )
