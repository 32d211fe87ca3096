"""What `sil db show` lists of a site: machines, clusters, states, queues, users."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, Cast, ScalarSelect, Select, cast, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from scheduler.node_request import Node
from scheduler.time_shared.social_contract import MOST_CPU
from sil.report.listing import Column, Listing, Row, number, text
from site_db.jobs.records import SourceKind
from site_db.schema import JobClassRow, JobRow, MachineRow, SiteRow, SourceRow, UserRow, UserUsageRow
from site_db.site_file.cluster import Cluster
from site_db.sites import SiteReader
from site_db.states import CurrentStates

UP, DOWN = "up", "down"
MOST_USERS_SHOWN = 20


def rows_of(session: Session, query: Select[*tuple[Any, ...]]) -> list[Row]:
    """The result of a query, by labels of columns."""
    return [dict(row) for row in session.execute(query).mappings()]


def sites(session: Session) -> Listing:
    """All sites of the database."""

    def count(row: type[MachineRow | JobClassRow]) -> ScalarSelect[int]:
        return select(func.count()).where(row.site_id == SiteRow.id).scalar_subquery()

    query = select(
        SiteRow.name.label("site"),
        SiteRow.description,
        count(MachineRow).label("machines"),
        count(JobClassRow).label("job_classes"),
        (SiteRow.runs_recorded - SiteRow.runs_pruned).label("runs"),
        SiteRow.runs_pruned,
    ).order_by(SiteRow.name)
    columns = [text("site"), text("description"), number("machines"), number("job classes"), number("runs")]
    return Listing("sites", "Sites", [*columns, number("pruned", "runs_pruned")], rows_of(session, query))


def machines(reader: SiteReader, states: CurrentStates) -> Listing:
    """How many machines of each class there are."""
    down, in_class = set(states.down), defaultdict[str, list[Row]](list)
    for machine in reader.tables("machines"):
        in_class[machine["machine_class"]].append(machine)
    rows = [
        {
            "machine_class": k["name"],
            "architecture": k["architecture"],
            "machines": len(in_class[k["name"]]),
            "slots": sum(machine["slots"] for machine in in_class[k["name"]]),
            "down": sum(machine["name"] in down for machine in in_class[k["name"]]),
            "notional": sum(machine["notional"] for machine in in_class[k["name"]]),
        }
        for k in reader.tables("machine_classes")
    ]
    columns = [
        text("machine class"),
        text("architecture"),
        number("machines"),
        number("of which down", "down"),
    ]
    if any(row["slots"] != row["machines"] for row in rows):
        columns.insert(3, number("slots"))
    return Listing("machines", f"Machines of {reader.site.name}", [*columns, number("notional")], rows)


def partitions(cluster: Cluster) -> Listing:
    """The partitions of a site of nodes, with what their nodes have, and what all nodes have."""
    rows: list[Row] = []
    for partition in cluster.partitions.values():
        nodes = [node for node in cluster.nodes.values() if partition.name in node.partitions]
        rows.append(
            {
                "partition": partition.name,
                **_what_have(nodes),
                "max_time_s": partition.max_time_s,
                "default_time_s": partition.default_time_s,
                "max_nodes": partition.max_nodes,
                "exclusive": partition.is_exclusive,
            }
        )
    columns = [
        text("partition"),
        number("nodes"),
        number("CPUs", "cpus"),
        number("memory (MB)", "memory_mb"),
        Column("GPUs", lambda row: ", ".join(f"{n:,} {kind}" for kind, n in row["gpus"].items())),
        number("longest (s)", "max_time_s", ",g"),
        number("default (s)", "default_time_s", ",g"),
        number("most nodes", "max_nodes"),
        Column("whole nodes", lambda row: "yes" if row["exclusive"] else ""),
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


def site_resources(cluster: Cluster) -> Listing:
    """The resources of the whole site."""
    rows: list[Row] = [{"name": name, "amount": n} for name, n in cluster.site_resources.items()]
    return Listing(
        "site_resources", "Site resources", [text("site resource", "name"), number("amount")], rows
    )


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
        text("cluster"),
        number("members"),
        number("available"),
        Column("parallel execution", _parallel_execution, warns=_accepts_nothing),
        Column("interconnects", _interconnects, warns=_has_one_down),
    ]
    if any(row["social_contract"] for row in rows):
        columns.append(Column("time-shared nodes", _social_contract))
    return Listing("clusters", "Clusters", columns, rows)


def _is_cut_off(row: Row) -> bool:
    return bool(row["interconnects"]) and not any(line["up"] for line in row["interconnects"])


def _accepts_nothing(row: Row) -> bool:
    return _is_cut_off(row) or not row["accepts_parallel"]


def _has_one_down(row: Row) -> bool:
    return not all(line["up"] for line in row["interconnects"])


def _parallel_execution(row: Row) -> str:
    if _is_cut_off(row):
        return "no, its members are not connected"
    share = row["least_share"]
    some = "all members" if share == 1 else f"{share:.0%} of the members or more"
    return f"yes, with {some}" if row["accepts_parallel"] else f"no, it takes {some}"


def _interconnects(row: Row) -> str:
    return ", ".join(f"{line['name']} ({UP if line['up'] else DOWN})" for line in row["interconnects"])


def _social_contract(row: Row) -> str:
    contract = row["social_contract"]
    if contract is None:
        return "no"
    most_cpu = contract["most_cpu"] or MOST_CPU
    cpu = f"{most_cpu:g} CPU in total"
    return f"{contract['share']:.0%} for jobs, up to {contract['most_jobs']} on a node, {cpu}"


def states(current: CurrentStates) -> Listing:
    """Machines and interconnects that are down, or whose load or traffic was measured."""
    measured = ("local_load", "traffic_mbit_per_s", "committed_mbit_per_s")
    rows = [
        {
            "name": name,
            "up": state.up,
            "since_unix_s": state.since_unix_s,
            **{key: getattr(state, key, None) for key in measured},
        }
        for latest in (current.machines, current.interconnects)
        for name, state in latest.items()
    ]
    rows = [row for row in rows if not row["up"] or any(row[key] is not None for key in measured)]
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
    row = JobRow
    query = (
        select(row.queue, row.state, func.count())
        .join(SourceRow, SourceRow.id == row.source_id)
        .where(row.site_id == reader.site.id, SourceRow.kind != SourceKind.TESTBED)
        .group_by(row.queue, row.state)
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

    def users_of(row: Row) -> str:
        return "all" if row["users"] is None else ", ".join(row["users"]) or "none"

    columns = [
        text("queue"),
        number("priority", spec=""),
        text("scheduler"),
        text("mapping"),
        Column("users", users_of),
        Column("displaces", lambda row: ", ".join(row["displaces"])),
        number("waiting", spec=""),
        number("running", spec=""),
    ]
    return Listing("queues", "Queues", columns, rows)


def users(session: Session, reader: SiteReader) -> Listing:
    """The users and what they have used, listed users first."""
    row, time_s = UserUsageRow, func.coalesce(func.sum(UserUsageRow.execution_time_s), 0.0)

    def total(count: InstrumentedAttribute[int]) -> Cast[int]:
        return cast(func.coalesce(func.sum(count), 0), BigInteger)

    query = (
        select(
            UserRow.name.label("user"),
            UserRow.listed,
            total(row.jobs_submitted).label("jobs_submitted"),
            total(row.runs).label("completed_runs"),
            time_s.label("execution_time_s"),
        )
        .outerjoin(row, row.user_id == UserRow.id)
        .where(UserRow.site_id == reader.site.id)
        .group_by(UserRow.id, UserRow.name, UserRow.listed)
        .order_by(UserRow.listed.desc(), time_s.desc(), UserRow.name)
    )
    columns = [
        text("user"),
        Column("listed", lambda row: "yes" if row["listed"] else ""),
        number("jobs submitted"),
        number("completed runs"),
        Column("execution time (h)", lambda row: f"{row['execution_time_s'] / 3600:,.1f}", is_number=True),
    ]
    return Listing("users", "Users", columns, rows_of(session, query), most=MOST_USERS_SHOWN)


def utc(unix_s: float) -> str:
    return f"{datetime.fromtimestamp(unix_s, UTC):%Y-%m-%d %H:%M:%S}"
