"""What `sil db show` lists of a site: machines, clusters, states, queues, users."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, Select, cast, func, select
from sqlalchemy.orm import Session

from scheduler.node_request import Node
from scheduler.time_shared.social_contract import MAX_CPU
from sil.report.listing import Column, Listing, Row, number, text, texts
from site_db.jobs.records import SourceKind
from site_db.schema import JobClassRow, JobRow, MachineRow, SiteRow, SourceRow, UserRow, UserUsageRow
from site_db.site_file.cluster import SiteNodes
from site_db.sites import SiteReader
from site_db.states import CurrentStates

UP, DOWN = "up", "down"
MAX_USERS_SHOWN = 20


def rows_of(session: Session, query: Select[*tuple[Any, ...]]) -> list[Row]:
    """The result of a query, by labels of columns."""
    return [dict(row) for row in session.execute(query).mappings()]


def yes_or_blank(title: str, key: str) -> Column:
    return Column(title, lambda row: "yes" if row[key] else "")


def sites(session: Session) -> Listing:
    """All sites of the database."""
    machines, job_classes = (
        select(func.count()).where(row.site_id == SiteRow.id).scalar_subquery().label(name)
        for row, name in ((MachineRow, "machines"), (JobClassRow, "job_classes"))
    )
    runs = (SiteRow.runs_recorded - SiteRow.runs_pruned).label("runs")
    site = SiteRow.name.label("site")
    query = select(site, SiteRow.description, machines, job_classes, runs, SiteRow.runs_pruned)
    columns = [*texts("site", "description"), number("machines"), number("job classes"), number("runs")]
    columns.append(number("pruned", "runs_pruned"))
    return Listing("sites", "Sites", columns, rows_of(session, query.order_by(SiteRow.name)))


def machines(reader: SiteReader, states: CurrentStates) -> Listing:
    """How many machines of each class there are."""
    down, in_class = set(states.down), defaultdict[str, list[Row]](list)
    for machine in reader.tables("machines"):
        in_class[machine["machine_class"]].append(machine)
    rows = []
    for k in reader.tables("machine_classes"):
        here = in_class[k["name"]]
        slots, notional = (sum(machine[key] for machine in here) for key in ("slots", "notional"))
        n_down = sum(machine["name"] in down for machine in here)
        row = {"machine_class": k["name"], "architecture": k["architecture"], "machines": len(here)}
        rows.append({**row, "slots": slots, "down": n_down, "notional": notional})
    columns = [text("machine class"), text("architecture"), number("machines")]
    columns += [number("slots")] if any(row["slots"] != row["machines"] for row in rows) else []
    columns += [number("of which down", "down"), number("notional")]
    return Listing("machines", f"Machines of {reader.site.name}", columns, rows)


def partitions(cluster: SiteNodes) -> Listing:
    """The partitions of a site of nodes, with what their nodes have, and what all nodes have."""
    rows: list[Row] = [
        {
            "partition": one.name,
            **_what_have([cluster.nodes[name] for name in cluster.by_partition[one.name]]),
            "max_time_s": one.max_time_s,
            "default_time_s": one.default_time_s,
            "max_nodes": one.max_nodes,
            "exclusive": one.is_exclusive,
        }
        for one in cluster.partitions.values()
    ]
    columns = [
        *(text("partition"), number("nodes"), number("CPUs", "cpus"), number("memory (MB)", "memory_mb")),
        Column("GPUs", lambda row: ", ".join(f"{n:,} {kind}" for kind, n in row["gpus"].items())),
        number("longest (s)", "max_time_s", ",g"),
        number("default (s)", "default_time_s", ",g"),
        number("most nodes", "max_nodes"),
        yes_or_blank("whole nodes", "exclusive"),
    ]
    limits = dict.fromkeys(("max_time_s", "default_time_s", "max_nodes", "exclusive"))
    total = {"partition": "all nodes", **_what_have([*cluster.nodes.values()]), **limits}
    return Listing("partitions", "Partitions", columns, rows, total if rows else None)


def _what_have(nodes: Sequence[Node]) -> Row:
    return {
        "nodes": len(nodes),
        "cpus": int(sum(node.cores for node in nodes)),
        "memory_mb": sum(node.memory_mib for node in nodes),
        "gpus": dict(sorted(Counter(gpu for node in nodes for gpu in node.gpus).items())),
    }


def site_resources(cluster: SiteNodes) -> Listing:
    """The resources of the whole site."""
    rows: list[Row] = [{"name": name, "amount": n} for name, n in cluster.site_resources.items()]
    columns = [text("site resource", "name"), number("amount")]
    return Listing("site_resources", "Site resources", columns, rows)


def clusters(reader: SiteReader, states: CurrentStates) -> Listing:
    """The clusters and whether they accept parallel jobs now."""
    down = set(states.down)
    rows = []
    for cluster in reader.tables("clusters"):
        state, lines = states.clusters.get(cluster["name"]), cluster["interconnects"]
        rows.append(
            {
                "cluster": cluster["name"],
                "members": len(cluster["members"]),
                "available": len(cluster["members"]) if state is None else state.available_members,
                "accepts_parallel": state is None or state.accepts_parallel,
                "least_share": cluster["least_share"],
                "interconnects": [{"name": name, "up": name not in down} for name in lines],
                "social_contract": cluster["social_contract"],
            }
        )
    columns = [
        *(text("cluster"), number("members"), number("available")),
        Column(
            "parallel execution",
            _parallel_execution,
            warns=lambda row: _is_cut_off(row) or not row["accepts_parallel"],
        ),
        Column(
            "interconnects",
            lambda row: ", ".join(f"{x['name']} ({UP if x['up'] else DOWN})" for x in row["interconnects"]),
            warns=lambda row: not all(line["up"] for line in row["interconnects"]),
        ),
    ]
    if any(row["social_contract"] for row in rows):
        columns.append(Column("time-shared nodes", _social_contract))
    return Listing("clusters", "Clusters", columns, rows)


def _is_cut_off(row: Row) -> bool:
    return bool(row["interconnects"]) and not any(line["up"] for line in row["interconnects"])


def _parallel_execution(row: Row) -> str:
    if _is_cut_off(row):
        return "no, its members are not connected"
    share = row["least_share"]
    some = "all members" if share == 1 else f"{share:.0%} of the members or more"
    return f"yes, with {some}" if row["accepts_parallel"] else f"no, it takes {some}"


def _social_contract(row: Row) -> str:
    contract = row["social_contract"]
    if contract is None:
        return "no"
    cpu = f"{contract['most_cpu'] or MAX_CPU:g} CPU in total"
    return f"{contract['share']:.0%} for jobs, up to {contract['most_jobs']} on a node, {cpu}"


def states(current: CurrentStates) -> Listing:
    """Machines and interconnects that are down, or whose load or traffic was measured."""
    measured = ("local_load", "traffic_mbit_per_s", "committed_mbit_per_s")
    rows = []
    latest: list[tuple[str, Any]] = [*current.machines.items(), *current.interconnects.items()]
    for name, state in latest:
        seen = {key: getattr(state, key, None) for key in measured}
        if not state.up or any(value is not None for value in seen.values()):
            rows.append({"name": name, "up": state.up, "since_unix_s": state.since_unix_s, **seen})
    columns = [
        text("machine or interconnect", "name"),
        Column("state", lambda row: UP if row["up"] else DOWN, warns=lambda row: not row["up"]),
        Column("since (UTC)", lambda row: utc(row["since_unix_s"])),
        number("local load (processors)", "local_load", ",g"),
        number("traffic (Mbit/s)", "traffic_mbit_per_s", ",g"),
        number("committed (Mbit/s)", "committed_mbit_per_s", ",g"),
    ]
    return Listing("states", "States", columns, rows)


def queues(session: Session, reader: SiteReader) -> Listing:
    """The queues, their policies and their jobs now."""
    query = (
        select(JobRow.queue, JobRow.state, func.count())
        .join(SourceRow, SourceRow.id == JobRow.source_id)
        .where(JobRow.site_id == reader.site.id, SourceRow.kind != SourceKind.TESTBED)
        .group_by(JobRow.queue, JobRow.state)
    )
    counts = {(queue, state): n for queue, state, n in session.execute(query)}
    rows = [
        {
            "queue": queue["name"],
            **{key: queue[key] for key in ("priority", "scheduler", "mapping", "users")},
            "displaces": sorted(queue["displaces"]),
            **{state: counts.get((queue["name"], state), 0) for state in ("waiting", "running")},
        }
        for queue in reader.tables("queues")
    ]
    columns = [
        *(text("queue"), number("priority", spec=""), *texts("scheduler", "mapping")),
        Column("users", lambda x: "all" if x["users"] is None else ", ".join(x["users"]) or "none"),
        Column("displaces", lambda row: ", ".join(row["displaces"])),
        *(number(state, spec="") for state in ("waiting", "running")),
    ]
    return Listing("queues", "Queues", columns, rows)


def users(session: Session, reader: SiteReader) -> Listing:
    """The users and what they have used, listed users first."""
    used, time_s = UserUsageRow, func.coalesce(func.sum(UserUsageRow.execution_time_s), 0.0)
    submitted, runs = (
        cast(func.coalesce(func.sum(count), 0), BigInteger) for count in (used.jobs_submitted, used.runs)
    )
    query = (
        select(
            UserRow.name.label("user"),
            UserRow.listed,
            submitted.label("jobs_submitted"),
            runs.label("completed_runs"),
            time_s.label("execution_time_s"),
        )
        .outerjoin(used, used.user_id == UserRow.id)
        .where(UserRow.site_id == reader.site.id)
        .group_by(UserRow.id, UserRow.name, UserRow.listed)
        .order_by(UserRow.listed.desc(), time_s.desc(), UserRow.name)
    )
    columns = [text("user"), yes_or_blank("listed", "listed")]
    columns += [number("jobs submitted"), number("completed runs")]
    columns += [
        Column("execution time (h)", lambda x: f"{x['execution_time_s'] / 3600:,.1f}", is_number=True)
    ]
    return Listing("users", "Users", columns, rows_of(session, query), most=MAX_USERS_SHOWN)


def utc(unix_s: float) -> str:
    return f"{datetime.fromtimestamp(unix_s, UTC):%Y-%m-%d %H:%M:%S}"
