"""What-if changes of a site: its own data stay as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from sil.settings.notional import SPECIFICATION, NotionalTable
from sil.site import what_if_nodes
from sil.site.what_if_site import Absence, InapplicableChange, WhatIfSite
from site_db.experience import Expect
from site_db.site_file.tables import MachinesTable, SiteFile


@dataclass(frozen=True)
class ChangedSite:
    """The changed site, when machines are absent, and the uncertainty of times given for new classes: their
    relative standard deviation by (job class, machine class)."""

    file: SiteFile
    absences: tuple[Absence, ...]
    uncertainty: Mapping[tuple[str, str], float]
    new_classes: tuple[str, ...]
    """Machine classes that the site does not have."""


def apply_changes(file: SiteFile, expect: Expect, changes: Sequence[NotionalTable]) -> ChangedSite:
    """The site of `file` after `changes`, in order. Raises InapplicableChange."""
    site = WhatIfSite(file, expect)
    for place, change in enumerate(changes):
        try:
            what_if_nodes.check_keys(site, change)
            _VERBS[change.verb](site, change)
        except InapplicableChange as error:
            raise InapplicableChange(f"{change.text}: {error}", place) from None
    had_nodes = {partition.name for partition in file.partitions if partition.nodes}
    for name, partition in site.partitions.items():
        if name in had_nodes and not partition.nodes:
            place = max(k for k, change in enumerate(changes) if change.verb == "remove")
            raise InapplicableChange(
                f"{changes[place].text}: partition '{name}' would have no nodes; leave it one, or add some",
                place,
            )
    return ChangedSite(site.as_file(), tuple(site.absences), site.uncertainty, tuple(site.new_classes))


def _add(site: WhatIfSite, change: NotionalTable) -> None:
    parsed = change.parsed()
    machine_class, cluster = site.class_for(parsed.what, change), parsed.cluster
    has = what_if_nodes.specification(site, machine_class, change)
    what_if_nodes.check_new_nodes(site, machine_class, change, has)
    partitions = what_if_nodes.partitions_of_new(site, machine_class, change)
    site.add_class(machine_class, change)
    names = site.new_names(cluster or f"new-{machine_class}", parsed.count or 0)
    table = MachinesTable(
        names=(),
        machine_class=machine_class,
        slots=change.slots or site.slots_of(machine_class),
        os=change.os or "",
        rating=change.rating or site.rating_of(machine_class),
        notional=True,
        **has,
    )
    site.machines |= dict.fromkeys(names, table)
    what_if_nodes.join(site, names, partitions)
    if change.from_s:
        site.absences += [Absence(name, 0.0, change.from_s) for name in names]
    if change.until_s is not None:
        site.absences += [Absence(name, change.until_s, inf) for name in names]
    if cluster is not None:
        site.add_cluster(cluster, names, parsed.interconnect, change)
        return
    for key in ("speedup", "parallel_s"):
        if key in change.given:
            raise InapplicableChange(
                f"'{key}' applies only to a cluster; write '{change.add} as cluster NAME'"
            )


def _remove(site: WhatIfSite, change: NotionalTable) -> None:
    parsed = change.parsed()
    removed = dict.fromkeys(site.find_machines(parsed.what, parsed.count))
    if change.from_s or change.until_s is not None:
        until_s = inf if change.until_s is None else change.until_s
        site.absences += [Absence(name, change.from_s, until_s) for name in removed]
        return
    site.machines = {name: table for name, table in site.machines.items() if name not in removed}
    what_if_nodes.leave(site, removed)
    for cluster in reversed([*site.clusters.values()]):
        members = tuple(name for name in cluster.members if name not in removed)
        if len(members) < len(cluster.members):
            site.shrink(cluster, members)
    if not site.machines:
        raise InapplicableChange(
            f"'{change.remove}' would remove every machine of the site; at least one must remain"
        )


def _upgrade(site: WhatIfSite, change: NotionalTable) -> None:
    parsed = change.parsed()
    machines = site.find_machines(parsed.what, parsed.count)
    to = site.class_for(parsed.to, change)
    has = what_if_nodes.specification(site, to, change)
    site.add_class(to, change)
    if change.from_s or change.until_s is not None:
        raise InapplicableChange(
            "an upgrade applies from the beginning; remove and add machines at other times"
        )
    update = {"machine_class": to, "rating": change.rating or site.rating_of(to), **has}
    for name in machines:
        site.machines[name] = site.machines[name].model_copy(update=update)
    _set_parallel_times(site, machines, change)


def _set_parallel_times(site: WhatIfSite, machines: Sequence[str], change: NotionalTable) -> None:
    """Set the times of clusters with some of these machines whose members are now all of one class."""
    in_parallel = {
        name for table in site.job_classes.values() for name in (*table.parallel_s, *table.parallel_commands)
    }
    for cluster in site.clusters.values():
        affected = cluster.name in in_parallel and not set(machines).isdisjoint(cluster.members)
        if affected and len(site.classes_in(cluster)) == 1:
            site.set_parallel_times(cluster, change)


ALL_OF_A_CLASS = "; all machines of a class change together, so name only the class"


def _change(site: WhatIfSite, change: NotionalTable) -> None:
    what = change.parsed().what
    machine_class = what if what in site.machines else site.class_of_nodes(what)
    site.check_known("machine class", machine_class, site.machine_classes, ALL_OF_A_CLASS)
    update = {key: getattr(change, key) for key in ("os", "rating", *SPECIFICATION) if key in change.given}
    if not update and not change.scales_times and change.more_memory_mb is None:
        what = "what they have" if site.has_nodes else "os, memory_mb, rating"
        raise InapplicableChange(
            f"nothing is changed for class '{machine_class}'; give {what} or times_as_fast"
        )
    machines = site.of_class(machine_class)
    current = dict.fromkeys(site.machines[name].machine_class for name in machines)
    new_class = {}
    if change.scales_times:
        new_class = {name: site.add_changed_class(machine_class, name, change) for name in current}
    before = {name: site.machines[name] for name in machines}
    for name, table in before.items():
        own: dict[str, Any] = {"machine_class": new_class.get(table.machine_class, table.machine_class)}
        if change.more_memory_mb is not None:
            own["memory_mb"] = what_if_nodes.with_more_memory(table, change.more_memory_mb)
        site.machines[name] = table.model_copy(update=update | own)
    if site.has_nodes and all(site.machines[name] == table for name, table in before.items()):
        raise InapplicableChange(f"nothing is changed: all machines of class '{machine_class}' have that")
    if new_class:
        _set_parallel_times(site, machines, change)


_VERBS = {"add": _add, "remove": _remove, "upgrade": _upgrade, "change": _change}
