"""A site of the database as its file would say it: the way back from `importing`."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from site_db.schema import JobClassRow, MachineRow
from site_db.site_file.tables import SiteFile
from site_db.site_rows import SiteRows


def site_file_of(rows: SiteRows) -> SiteFile:
    """The site as its file would say it."""
    members, lines = rows.members, rows.lines_of_clusters
    displaced, queue_users = rows.displaced, rows.queue_users
    return SiteFile.model_validate(
        {
            "name": rows.site.name,
            "description": rows.site.description,
            "only_listed_users": rows.site.only_listed_users,
            "machine_classes": [
                {"name": k.name, "architecture": k.architecture} for k in rows.machine_classes
            ],
            "machines": _groups_of_machines(rows),
            "interconnects": [
                {
                    "name": x.name,
                    "bandwidth_mbit_per_s": x.bandwidth_mbit_per_s,
                    "latency_us": x.latency_us,
                }
                for x in rows.interconnects
            ],
            "clusters": [
                {
                    "name": c.name,
                    "members": members[c.id],
                    "interconnects": lines[c.id],
                    "least_share": c.least_share,
                    "social_contract": rows.contracts.get(c.id),
                }
                for c in rows.clusters
            ],
            "job_classes": [_job_class_table(rows, k) for k in rows.job_classes],
            "queues": [
                {
                    "name": q.name,
                    "priority": q.priority,
                    "scheduler": q.scheduler,
                    "mapping": q.mapping,
                    "users": None if q.open_to_all else queue_users[q.id],
                    "displaces": displaced[q.id],
                }
                for q in rows.queues
            ],
            "users": _user_tables(rows),
        }
    ).in_site_order()


def _groups_of_machines(rows: SiteRows) -> list[dict[str, Any]]:
    classes = {k.id: k.name for k in rows.machine_classes}
    lines = rows.lines_of_machines

    def specification(m: MachineRow) -> dict[str, Any]:
        return {
            "machine_class": classes[m.machine_class_id],
            "processors": m.processors,
            "memory_mb": m.memory_mb,
            "storage_gb": m.storage_gb,
            "os": m.os,
            "rating": m.rating,
            "interconnects": lines[m.id],
            "notional": m.notional,
        }

    return [
        {"names": [m.name for m in group], **common}
        for common, group in groupby(rows.machines, specification)
    ]


def _job_class_table(rows: SiteRows, k: JobClassRow) -> dict[str, Any]:
    classes = {one.id: one.name for one in rows.machine_classes}
    clusters = {one.id: one.name for one in rows.clusters}
    table: dict[str, Any] = {
        "name": k.name,
        "description": k.description,
        "size": k.size,
        "network_mbit_per_s": k.network_mbit_per_s,
        "preferred": rows.preferred[k.id],
        "in_isolation": rows.in_isolation[k.id],
    }
    for place in rows.places[k.id]:
        if place.machine_class_id is not None:
            where, times, commands = classes[place.machine_class_id], "sequential_s", "commands"
        else:
            where, times, commands = clusters[place.cluster_id or 0], "parallel_s", "parallel_commands"
        if place.expected_s is not None:
            table.setdefault(times, {})[where] = place.expected_s
        if place.command_line is not None:
            table.setdefault(commands, {})[where] = place.command_line
    return table


def _user_tables(rows: SiteRows) -> list[dict[str, Any]]:
    queues, rights = rows.user_queues, rows.rights
    return [
        {
            "name": u.name,
            "queues": None if u.all_queues else queues[u.id],
            "most_jobs": u.most_jobs,
            "highest_priority": u.highest_priority,
            "may_submit_as": [
                {"user": name, "queues": where} for name, where in sorted(rights[u.id].items())
            ],
        }
        for u in rows.users
    ]
