"""What a site's database knows: an overview, statistics, history, past demand."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import asdict
from typing import Any

import numpy as np
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from scheduler.messages import UserError, counted
from scheduler.model import Job, JobId
from scheduler.time_shared.forecast import prediction_limits
from sil.report.listing import Column, Listing, Row, number, text, texts
from sil.site import resource_listings
from sil.site.resource_listings import rows_of, utc
from site_db.estimation import ExecutionEstimate, PlaceKind, Rule, RunPlace
from site_db.experience import MemoryExperience, StatisticsReader, known_errors, schedulers_predicted
from site_db.files.input_errors import InvalidFile
from site_db.history.stored_statistics import StoredStatistics, read_stored
from site_db.jobs.past import demand
from site_db.jobs.records import DemandBy, SourceKind
from site_db.schema import (
    ClusterRow,
    ExecutionHistoryRow,
    JobClassRow,
    MachineClassRow,
    MachineRow,
    SourceRow,
    UserRow,
)
from site_db.site_file.nodes import cluster_of, held_by_class
from site_db.sites import SiteReader, find_site
from site_db.states import current_states

MAX_TIMES_SHOWN = 20
LONGEST_NAME_SHOWN = 60
ESTIMATE = [
    number("expected (s)", "expected_s", ",.1f"),
    number("deviation (s)", "deviation_s", ",.1f"),
    number("runs"),
    Column("by", lambda row: (row["rule"] or "").replace("_", " ")),
]


def expected_times(session: Session, site: str) -> Listing:
    """The expected times of each job class on one machine of each class and on each whole cluster.

    A machine class without machines, as an archive log leaves it, is listed with its history."""

    def short(row: Row) -> str:
        """Names of learnt classes state the whole request."""
        name: str = row["job_class"]
        return name if len(name) <= LONGEST_NAME_SHOWN else f"{name[: LONGEST_NAME_SHOWN - 3]}..."

    reader = StatisticsReader(session, site)
    layout, statistics = reader.layout, reader.statistics(session)
    experience = MemoryExperience(layout, statistics)
    size, n_machines = Counter(layout.class_of_machine), len(layout.machines)
    resources = [
        (f"{layout.machine_classes[k]} ({size[k]})", layout.class_of_machine.index(k)) for k in sorted(size)
    ]
    resources += [
        (f"{name} (all {layout.sizes[c]})", n_machines + c) for c, name in enumerate(layout.clusters)
    ]
    empty = [(k, f"{name} (0)") for k, name in enumerate(layout.machine_classes) if k not in size]
    rows = []
    for c, name in enumerate(layout.job_classes):
        found = [(label, experience.explain(_job(name), resource)) for label, resource in resources]
        for k, label in empty:
            if seen := statistics.get((c, RunPlace(PlaceKind.MACHINE_CLASS, k))):
                found.append((label, ExecutionEstimate.of(seen, Rule.MACHINE_CLASS)))
        rows += [{"job_class": name, "resource": label, **_facts(one)} for label, one in found if one]
    columns = [Column("job class", short), text("resource"), *ESTIMATE]
    hint = "; --job-class NAME shows one class, --json all names in full"
    return Listing("expected_times", "Expected times", columns, rows, most=MAX_TIMES_SHOWN, hint=hint)


def one_job_class(session: Session, site: str, name: str) -> Listing:
    """What is known of one job class on each resource, with quantiles. Raises InvalidFile."""
    reader = StatisticsReader(session, site)
    layout = reader.layout
    if name not in layout.job_classes:
        known = ", ".join(layout.job_classes[:10]) or "none"
        raise InvalidFile(f"the site '{site}' has no job class '{name}'; it has {known}")
    experience = MemoryExperience(layout, reader.statistics(session))
    site_id = find_site(session, site).id
    ids = select(JobClassRow.id).where(JobClassRow.site_id == site_id, JobClassRow.name == name)
    stored = read_stored(session, site_id, session.scalars(ids).all())
    kept = {cell[1]: one for key, one in stored.items() if (cell := reader.cell(key))}
    rows = []
    for resource, label in enumerate(layout.resources):
        if estimate := experience.explain(_job(name), resource):
            c = resource - len(layout.machines)
            here = RunPlace(PlaceKind.MACHINE, resource)
            if c >= 0:
                here = RunPlace(PlaceKind.CLUSTER, c, layout.sizes[c])
            own = _own_runs(kept.get(here, StoredStatistics()))
            rows.append({"resource": label, **_facts(estimate), **own})
    everywhere = StoredStatistics()
    for place, one in kept.items():
        if place.kind is not PlaceKind.MACHINE:
            everywhere.merge(one)
    total = {"resource": "everywhere", **_facts(None), **_own_runs(everywhere)}
    quantiles = [number("median (s)", "median_s", ",.1f"), number("95 % (s)", "percentile_95_s", ",.1f")]
    columns = [text("resource"), *ESTIMATE, number("own runs"), *quantiles]
    return Listing("expected_times", f"{name} at {site}", columns, rows, total)


def _facts(estimate: ExecutionEstimate | None) -> dict[str, Any]:
    return {key: getattr(estimate, key, None) for key in ("expected_s", "deviation_s", "runs", "rule")}


def _own_runs(kept: StoredStatistics) -> dict[str, Any]:
    n = kept.runs.count
    median_s, percentile_95_s = (kept.sketch.quantile(q) if n else None for q in (0.5, 0.95))
    return {"own_runs": n, "median_s": median_s, "percentile_95_s": percentile_95_s}


def _job(job_class: str) -> Job:
    return Job(JobId(0), job_class, 0.0)


def latest_runs(session: Session, site: str, n: int) -> Listing:
    """The latest completed runs, the last one last."""

    def resource_and_members(row: Row) -> str:
        members = row["members"]
        return f"{row['resource']} ({counted(members, 'machine')})" if members else str(row["resource"])

    def started(row: Row) -> str:
        is_simulated = row["source_kind"] == SourceKind.TESTBED or not 0 <= row["started_s"] < 2e11
        return f"{row['started_s']:,.0f} s simulated" if is_simulated else utc(row["started_s"])

    row = ExecutionHistoryRow
    resource = func.coalesce(MachineRow.name, ClusterRow.name, MachineClassRow.name)
    query = (
        select(
            *(row.number, JobClassRow.name.label("job_class"), resource.label("resource"), row.members),
            *(row.started_unix_s.label("started_s"), row.run_time_s, row.size, UserRow.name.label("user")),
            *(row.queue, SourceRow.kind.label("source_kind"), SourceRow.name.label("source")),
        )
        .join(JobClassRow, JobClassRow.id == row.job_class_id)
        .join(SourceRow, SourceRow.id == row.source_id)
        .join(UserRow, UserRow.id == row.user_id)
        .outerjoin(MachineRow, MachineRow.id == row.machine_id)
        .outerjoin(MachineClassRow, MachineClassRow.id == row.machine_class_id)
        .outerjoin(ClusterRow, ClusterRow.id == row.cluster_id)
        .where(row.site_id == find_site(session, site).id)
        .order_by(row.number.desc())
        .limit(n)
    )
    columns = [
        *(number("number"), text("job class"), Column("resource", resource_and_members)),
        Column("started (UTC)", started, is_number=True),
        *(number("run time (s)", "run_time_s", ",.1f"), number("size", spec="g")),
        *texts("user", "queue"),
        Column("source", lambda row: f"{row['source_kind']}: {row['source']}"),
    ]
    return Listing("runs", f"The latest completed runs at {site}", columns, rows_of(session, query)[::-1])


def measured_in_isolation(reader: SiteReader, job_class: str | None = None) -> Listing:
    """Measurements of parallel jobs in isolation: of all job classes, or of one."""
    rows = [
        {"job_class": table["name"], **measured}
        for table in sorted(reader.tables("job_classes"), key=lambda table: str(table["name"]))
        for measured in table["in_isolation"]
        if job_class in (None, table["name"])
    ]
    columns = [
        text("job class"),
        number("tasks", spec=""),
        number("execution time (s)", "exe_s", ",.2f"),
        number("CPU of a task", "cpu", ".2f"),
        number("memory of a task (MB)", "memory_mb", "g"),
    ]
    return Listing("in_isolation", "Measured in isolation", columns, rows)


def predictions(session: Session, reader: SiteReader) -> Listing:
    """Errors of turnaround predictions so far, by scheduler and predictor."""

    def limits(row: Row) -> str:
        return "-" if row["low_ratio"] is None else f"{row['low_ratio']:.2f} to {row['high_ratio']:.2f}"

    ratios: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for name in schedulers_predicted(session, reader.site.id):
        for error in known_errors(session, reader.site.id, name, reader.site.runs_recorded):
            ratios[error.scheduler, error.predictor].append(error.ratio)
    keys = ("scheduler", "predictor", "predictions", "median_ratio", "low_ratio", "high_ratio")
    rows = []
    for names, found in sorted(ratios.items()):
        low, high = prediction_limits(sorted(found)) or (None, None)
        rows.append(dict(zip(keys, (*names, len(found), float(np.median(found)), low, high), strict=True)))
    columns = [
        text("scheduler"),
        text("predictor"),
        number("scored predictions", "predictions"),
        number("actual / predicted, median", "median_ratio", ".2f"),
        Column("80 % interval", limits, is_number=True),
    ]
    return Listing("predictions", "Turnaround predictions so far", columns, rows)


def overview(session: Session, site: str) -> list[Listing]:
    """Machines, partitions, clusters, states, queues, users, expected times, measurements in isolation and
    predictions. Raises UserError."""
    reader = SiteReader(session, site)
    states = current_states(session, reader)
    cluster = cluster_of(reader.as_file())
    return [
        resource_listings.machines(reader, states),
        resource_listings.partitions(cluster),
        resource_listings.site_resources(cluster),
        resource_listings.clusters(reader, states),
        resource_listings.states(states),
        resource_listings.queues(session, reader),
        resource_listings.users(session, reader),
        expected_times(session, site),
        measured_in_isolation(reader),
        predictions(session, reader),
    ]


def past_demand(session: Session, reader: SiteReader, by: DemandBy) -> Listing:
    """The number of past jobs, how many completed, CPU hours, GPU hours and the mean wait. Raises
    UserError."""
    ids, file = reader.ids("job_classes"), reader.as_file()
    held_by = {ids[name]: held for name, held in held_by_class(file, cluster_of(file)).items()}
    found = demand(session, reader.site.id, held_by, by)
    if not found:
        raise UserError(
            f"the site '{reader.site.name}' has no past jobs; import them from a log (`sil db import-sacct`)"
        )
    rows: list[Row] = [
        {
            by.value: name or "none",
            **asdict(one),
            "completed_percent": 100.0 * one.completed / one.jobs,
            "mean_waiting_s": one.waiting_s / one.jobs,
        }
        for name, one in found.items()
    ]
    columns = [
        text(by.value),
        number("jobs"),
        Column("completed (%)", lambda row: f"{row['completed_percent']:.1f}", is_number=True),
        number("CPU hours", "cpu_h", ",.1f"),
        number("GPU hours", "gpu_h", ",.1f"),
        number("mean wait (s)", "mean_waiting_s", ",.1f"),
    ]
    return Listing("demand", f"Demand at {reader.site.name} by {by.value}", columns, rows)
