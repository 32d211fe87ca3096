"""What `sil db` shows of a site, as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from rich.table import Table
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from scheduler.model import Job, JobId
from sil.cli.console import counted
from sil.cli.shared_node_tables import contract_text, measured_alone, predictions
from site_db.estimation import ExecutionEstimate, Layout, Place, PlaceKind, Rule
from site_db.experience import MemoryExperience, StatisticsReader
from site_db.history.kept_statistics import Kept, read_kept
from site_db.jobs.records import SourceKind
from site_db.schema import (
    ClusterRow,
    ExecutionHistoryRow,
    InterconnectStateRow,
    JobClassRow,
    JobRow,
    MachineClassRow,
    MachineRow,
    MachineStateRow,
    SiteRow,
    SourceRow,
    UserRow,
    UserUsageRow,
)
from site_db.sites import SiteReader, find_site
from site_db.states import current_states
from site_db.toml_file import InvalidFile

UP, DOWN = "up", "[red]down[/red]"


def sites(session: Session) -> Table:
    """All sites of the database."""
    table = _table("Sites", "site", "description")
    for column in ("machines", "job classes", "runs", "pruned"):
        table.add_column(column, justify="right")
    for site in session.scalars(select(SiteRow).order_by(SiteRow.name)):
        counts = [
            session.scalar(select(func.count()).select_from(row).where(row.site_id == site.id)) or 0
            for row in (MachineRow, JobClassRow)
        ]
        numbers = [*counts, site.runs_recorded - site.runs_pruned, site.runs_pruned]
        table.add_row(site.name, site.description, *(f"{n:,}" for n in numbers))
    return table


def whole_site(session: Session, site: str) -> list[Table]:
    """Everything about one site that staff want to see at a glance."""
    reader = SiteReader(session, site)
    tables = [_machines(session, reader), _clusters(session, reader), _states(session, reader)]
    tables += [_queues(session, reader), _users(session, reader), _expected_times(session, reader)]
    tables += [measured_alone(reader), predictions(session, reader)]
    return [table for table in tables if table.row_count]


def _machines(session: Session, reader: SiteReader) -> Table:
    down = set(current_states(session, reader).down)
    table = _table(f"Machines of {reader.site.name}", "machine class", "architecture")
    for column in ("machines", "of which down", "notional"):
        table.add_column(column, justify="right")
    for k in reader.tables("machine_classes"):
        members = [m for m in reader.tables("machines") if m["machine_class"] == k["name"]]
        numbers = (
            len(members),
            sum(m["name"] in down for m in members),
            sum(m["notional"] for m in members),
        )
        table.add_row(k["name"], k["architecture"], *map(str, numbers))
    return table


def _clusters(session: Session, reader: SiteReader) -> Table:
    states = current_states(session, reader)
    table = _table("Clusters", "cluster")
    for column in ("members", "available"):
        table.add_column(column, justify="right")
    table.add_column("parallel execution")
    table.add_column("interconnects")
    contracts = {cluster.name: cluster.social_contract for cluster in reader.as_file().clusters}
    if any(contracts.values()):
        table.add_column("nodes shared")
    for cluster in reader.as_scheduled().clusters:
        state = states.clusters.get(cluster.name)
        available = len(cluster.members) if state is None else state.available_members
        accepts = state is None or state.accepts_parallel
        lines = [f"{name} ({UP if name not in states.down else DOWN})" for name in cluster.interconnects]
        share = cluster.least_share
        some = "all members" if share == 1 else f"{share:.0%} of the members or more"
        needs = f"yes, with {some}" if accepts else f"[red]no[/red], it takes {some}"
        if cluster.interconnects and set(cluster.interconnects) <= set(states.down):
            needs = "[red]no[/red], its members are not connected"
        cells = [cluster.name, str(len(cluster.members)), str(available), needs, ", ".join(lines)]
        table.add_row(*cells, *([contract_text(contracts[cluster.name])] if any(contracts.values()) else []))
    return table


def _states(session: Session, reader: SiteReader) -> Table:
    """What was last told of machines and interconnects that are down, or of which more was told."""
    states = current_states(session, reader)
    table = _table("States", "machine or interconnect", "is", "told (UTC)")
    for column in ("local load (processors)", "traffic (Mbit/s)", "committed (Mbit/s)"):
        table.add_column(column, justify="right")
    told: list[tuple[str, MachineStateRow | InterconnectStateRow, list[float | None]]] = [
        (name, state, [state.local_load, None, None]) for name, state in states.machines.items()
    ]
    told += [
        (name, state, [None, state.traffic_mbit_per_s, state.committed_mbit_per_s])
        for name, state in states.interconnects.items()
    ]
    for name, state, seen in told:
        if not state.up or any(value is not None for value in seen):
            numbers = ("" if value is None else f"{value:,g}" for value in seen)
            table.add_row(name, UP if state.up else DOWN, _utc(state.since_unix_s), *numbers)
    return table


def _queues(session: Session, reader: SiteReader) -> Table:
    row = JobRow
    query = (
        select(row.queue, row.state, func.count())
        .join(SourceRow, SourceRow.id == row.source_id)
        .where(row.site_id == reader.site.id, SourceRow.kind != SourceKind.TESTBED)
        .group_by(row.queue, row.state)
    )
    counts = {(queue, state): n for queue, state, n in session.execute(query)}
    table = _table("Queues", "queue")
    table.add_column("priority", justify="right")
    for column in ("scheduler", "mapping", "users", "displaces"):
        table.add_column(column)
    for column in ("waiting", "running"):
        table.add_column(column, justify="right")
    for policy, own in reader.queue_policies():
        users = "all" if policy.users is None else ", ".join(sorted(policy.users)) or "nobody"
        jobs = (str(counts.get((policy.name, state), 0)) for state in ("waiting", "running"))
        displaces = ", ".join(sorted(policy.displaces))
        table.add_row(
            policy.name, str(policy.priority), own or "", policy.mapping.value, users, displaces, *jobs
        )
    return table


MOST_USERS_SHOWN = 20


def _users(session: Session, reader: SiteReader) -> Table:
    row, total = UserUsageRow, func.sum(UserUsageRow.execution_time_s)
    query = (
        select(UserRow.name, UserRow.listed, func.sum(row.jobs_submitted), func.sum(row.runs), total)
        .outerjoin(row, row.user_id == UserRow.id)
        .where(UserRow.site_id == reader.site.id)
        .group_by(UserRow.id, UserRow.name, UserRow.listed)
        .order_by(UserRow.listed.desc(), func.coalesce(total, 0).desc(), UserRow.name)
    )
    users = session.execute(query).all()
    more = f" (the first {MOST_USERS_SHOWN} of {len(users):,})" if len(users) > MOST_USERS_SHOWN else ""
    table = _table(f"Users{more}", "user", "listed")
    for column in ("jobs submitted", "whole runs", "execution time (h)"):
        table.add_column(column, justify="right")
    for name, listed, jobs, runs, time_s in users[:MOST_USERS_SHOWN]:
        hours = f"{(time_s or 0) / 3600:,.1f}"
        table.add_row(name, "yes" if listed else "", f"{jobs or 0:,}", f"{runs or 0:,}", hours)
    return table


MOST_ROWS_SHOWN = 60


def _expected_times(session: Session, reader: SiteReader) -> Table:
    """What is expected of each job class in each place: one machine of a class stands for all.

    A class without machines, as an archive log leaves it, has at least its history.
    """
    statistics_reader = StatisticsReader(session, reader.site.name)
    layout, statistics = statistics_reader.layout, statistics_reader.statistics(session)
    experience = MemoryExperience(layout, statistics)
    resources = _representatives(layout)
    empty = [k for k in range(len(layout.machine_classes)) if k not in layout.class_of_machine]
    rows = []
    for c, name in enumerate(layout.job_classes):
        for label, resource in resources:
            if estimate := experience.explain(_job(name), resource):
                rows.append((name, label, estimate))
        for k in empty:
            if seen := statistics.get((c, Place(PlaceKind.MACHINE_CLASS, k))):
                label = f"{layout.machine_classes[k]} (0)"
                estimate = ExecutionEstimate(seen.mean_s, seen.deviation_s, Rule.MACHINE_CLASS, seen.count)
                rows.append((name, label, estimate))
    title = "Expected times"
    if len(rows) > MOST_ROWS_SHOWN:
        title += f" (the first {MOST_ROWS_SHOWN} of {len(rows):,}; --job-class NAME tells more)"
    table = _estimates(title, "job class", "resource")
    for job_class, name, estimate in rows[:MOST_ROWS_SHOWN]:
        table.add_row(job_class, name, *_columns(estimate))
    return table


def one_job_class(session: Session, site: str, name: str) -> list[Table]:
    """All that is known of one job class: machine by machine, with quantiles, and as it was measured in
    isolation. Raises InvalidFile."""
    reader = SiteReader(session, site)
    if name not in reader.ids("job_classes"):
        known = ", ".join([*reader.ids("job_classes")][:10]) or "none"
        raise InvalidFile(f"the site '{site}' has no job class '{name}'; it has {known}")
    experience, layout = _experience(session, site), reader.layout()
    kept = _kept_by_place(session, site, name)
    table = _estimates(f"{name} at {site}", "resource")
    for column in ("own runs", "median (s)", "95 % (s)"):
        table.add_column(column, justify="right")
    for resource, label in enumerate((*layout.machines, *layout.clusters)):
        estimate = experience.explain(_job(name), resource)
        if estimate is None:
            continue
        c = resource - len(layout.machines)
        here = Place(PlaceKind.MACHINE, resource) if c < 0 else Place(PlaceKind.CLUSTER, c, layout.sizes[c])
        table.add_row(label, *_columns(estimate), *_own_runs(kept.get(here, Kept())))
    everywhere = Kept()
    for place, one in kept.items():
        if place.kind is not PlaceKind.MACHINE:
            everywhere.merge(one)
    table.add_section()
    table.add_row("everywhere", *[""] * 4, *_own_runs(everywhere))
    alone = measured_alone(reader, name)
    return [table, alone] if alone.row_count else [table]


def _own_runs(kept: Kept) -> tuple[str, ...]:
    """How many there were, their median and their 95th percentile."""
    n = kept.runs.count
    return f"{n:,}", *(f"{kept.sketch.quantile(q):,.1f}" if n else "" for q in (0.5, 0.95))


def latest_runs(session: Session, site: str, n: int) -> Table:
    """The latest whole runs, the last one last."""
    row, site_id = ExecutionHistoryRow, find_site(session, site).id
    query = (
        select(
            row.number,
            JobClassRow.name,
            func.coalesce(MachineRow.name, ClusterRow.name, MachineClassRow.name),
            row.members,
            row.started_unix_s,
            row.run_time_s,
            row.size,
            UserRow.name,
            row.queue,
            SourceRow.kind,
            SourceRow.name,
        )
        .join(JobClassRow, JobClassRow.id == row.job_class_id)
        .join(SourceRow, SourceRow.id == row.source_id)
        .join(UserRow, UserRow.id == row.user_id)
        .outerjoin(MachineRow, MachineRow.id == row.machine_id)
        .outerjoin(MachineClassRow, MachineClassRow.id == row.machine_class_id)
        .outerjoin(ClusterRow, ClusterRow.id == row.cluster_id)
        .where(row.site_id == site_id)
        .order_by(row.number.desc())
        .limit(n)
    )
    table = Table(title=f"The latest whole runs at {site}", title_justify="left")
    table.add_column("number", justify="right")
    for column in ("job class", "resource"):
        table.add_column(column)
    for column in ("started (UTC)", "run time (s)", "size"):
        table.add_column(column, justify="right")
    for column in ("user", "queue", "told by"):
        table.add_column(column)
    for number, job_class, resource, members, started_s, time_s, size, *rest in reversed(
        session.execute(query).all()
    ):
        user, queue, kind, source = rest
        where = f"{resource} ({counted(members, 'machine')})" if members else resource
        table.add_row(
            f"{number:,}",
            job_class,
            where,
            _moment(started_s, kind),
            f"{time_s:,.1f}",
            "" if size is None else f"{size:g}",
            user,
            queue,
            f"{kind}: {source}",
        )
    return table


def _moment(unix_s: float, kind: str) -> str:
    if kind == SourceKind.TESTBED or not 0 <= unix_s < 2e11:
        return f"{unix_s:,.0f} s simulated"
    return _utc(unix_s)


def _utc(unix_s: float) -> str:
    return f"{datetime.fromtimestamp(unix_s, UTC):%Y-%m-%d %H:%M:%S}"


def _representatives(layout: Layout) -> list[tuple[str, int]]:
    """One machine of each class, and all clusters with all their members: (what to call it, index of the
    resource)."""
    size = Counter(layout.class_of_machine)
    first = {k: layout.class_of_machine.index(k) for k in sorted(size)}
    machines = [(f"{layout.machine_classes[k]} ({size[k]})", j) for k, j in first.items()]
    return machines + [
        (f"{name} (all {layout.sizes[c]})", len(layout.machines) + c)
        for c, name in enumerate(layout.clusters)
    ]


def _experience(session: Session, site: str) -> MemoryExperience:
    reader = StatisticsReader(session, site)
    return MemoryExperience(reader.layout, reader.statistics(session))


def _kept_by_place(session: Session, site: str, job_class: str) -> dict[Place, Kept]:
    reader = StatisticsReader(session, site)
    ids = select(JobClassRow.id).join(SiteRow).where(SiteRow.name == site, JobClassRow.name == job_class)
    kept = read_kept(session, find_site(session, site).id, session.scalars(ids).all())
    return {cell[1]: one for key, one in kept.items() if (cell := reader.cell(key))}


def _job(job_class: str) -> Job:
    return Job(JobId(0), job_class, 0.0)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column)
    return table


def _estimates(title: str, *columns: str) -> Table:
    table = _table(title, *columns)
    for column in ("expected (s)", "deviation (s)", "runs"):
        table.add_column(column, justify="right")
    table.add_column("by")
    return table


def _columns(estimate: ExecutionEstimate) -> Sequence[str]:
    deviation = "" if estimate.deviation_s is None else f"{estimate.deviation_s:,.1f}"
    rule = estimate.rule.value.replace("_", " ")
    return f"{estimate.expected_s:,.1f}", deviation, f"{estimate.runs:,}", rule
