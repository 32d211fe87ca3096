"""What-if changes of a site: its machines, what nodes have, and the partitions in which they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from math import inf
from typing import Any

from scheduler.messages import meant
from sil.settings.notional import OF_CLUSTERS, OF_NODES, SPECIFICATION, NotionalTable, no_effect
from sil.site.what_if_site import Absence, InapplicableChange, WhatIfSite
from site_db.experience import Expect
from site_db.site_file.tables import MachinesTable, SiteFile


def _check_keys(site: WhatIfSite, change: NotionalTable) -> None:
    """Raise InapplicableChange for keys that mean nothing at this site: of nodes, or of clusters."""
    of_cluster = ["as cluster NAME"] if change.verb == "add" and change.parsed().cluster is not None else []
    for key in (*of_cluster, *sorted(change.given & OF_CLUSTERS)) if site.has_nodes else ():
        raise InapplicableChange(f"jobs on nodes use no clusters; leave out '{key}'")
    for key in () if site.has_nodes else sorted(change.given & OF_NODES):
        raise InapplicableChange(
            f"'{key}' is of nodes that jobs share, and the site has no partitions; leave it out"
        )
    if change.verb == "upgrade" and change.memory_mb is not None and not site.has_nodes:
        raise InapplicableChange(no_effect("memory_mb", "upgrade"))


def _specification(site: WhatIfSite, machine_class: str, change: NotionalTable) -> dict[str, Any]:
    """What the nodes of a class have: what the change says, else what the machines of the class have.

    A key that is neither said nor known is left out. Without nodes, only the memory counts. Raises
    InapplicableChange where the machines of the class differ.
    """
    if not site.has_nodes:
        return {"memory_mb": change.memory_mb} if change.verb == "add" else {}
    there = [site.machines[name] for name in site.of_class(machine_class)]
    found = {}
    for key in SPECIFICATION:
        if key in change.given:
            found[key] = getattr(change, key)
        elif there:
            found[key] = getattr(there[0], key)
            if any(getattr(table, key) != found[key] for table in there):
                raise InapplicableChange(
                    f"the machines of class '{machine_class}' differ in {key}; give {key}"
                )
    return found


def _check_new_nodes(
    site: WhatIfSite, machine_class: str, change: NotionalTable, said: Collection[str]
) -> None:
    """Raise InapplicableChange where it is unknown what nodes of a class without machines have."""
    if not site.has_nodes or site.of_class(machine_class):
        return
    counts_memory = any(table.memory_mb is not None for table in site.machines.values())
    missing = [key for key in ("processors", "memory_mb")[: 1 + counts_memory] if key not in said]
    if not missing:
        return
    question = meant(machine_class, {m.machine_class for m in site.machines.values()})
    hint = f" ({question})" if question else ""
    # What else new nodes need is as of other nodes, which have GPUs if any node has.
    name, like = max(site.machines.items(), key=lambda one: bool(one[1].gpus))
    places = [place for place, table in site.partitions.items() if name in table.nodes]
    gpus, memory_mb = change.gpus or like.gpus, change.memory_mb or like.memory_mb
    parts = [f'add = "{change.add}"', f"processors = {change.processors or like.processors}"]
    parts += [f"memory_mb = {memory_mb:.0f}"] if memory_mb is not None else []
    parts += [f"gpus = {{ {', '.join(f'{of} = {n}' for of, n in gpus.items())} }}"] if gpus else []
    parts += [f"partitions = {_list(change.partitions or places)}"]
    raise InapplicableChange(
        f"the site has no machines of class '{machine_class}'{hint}; say what new ones have: "
        f"{' and '.join(missing)}, as {{ {', '.join(parts)} }}"
    )


def _partitions_of_new(site: WhatIfSite, machine_class: str, change: NotionalTable) -> Sequence[str]:
    """The partitions that the change names, else those of the machines of the class. Raises
    InapplicableChange if there are none, or if these machines are in different ones."""
    if not site.has_nodes:
        return ()
    for name in change.partitions:
        site.check_known("partition", name, site.partitions)
    if change.partitions:
        return change.partitions
    members = {name: set(table.nodes) for name, table in site.partitions.items()}
    machines = site.of_class(machine_class)
    present = [name for name in machines if name in site.class_in_file] or machines
    there = Counter(tuple(name for name, nodes in members.items() if one in nodes) for one in present)
    if len(there) > 1:
        where = "; ".join(f"{n:,} in {' and '.join(names) or 'none'}" for names, n in there.items())
        raise InapplicableChange(
            f"the machines of class '{machine_class}' are in different partitions ({where}); give the "
            f"partitions of the new nodes, as partitions = {_list(max(there, key=len))}"
        )
    (common,) = there or [()]
    if not common:
        raise InapplicableChange(
            f"no partition has machines of class '{machine_class}'; give the partitions of the new nodes, of "
            f"{', '.join(site.partitions)}, as partitions = {_list([next(iter(site.partitions))])}"
        )
    return common


def _list(names: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"


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
            _check_keys(site, change)
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
    has = _specification(site, machine_class, change)
    _check_new_nodes(site, machine_class, change, has)
    partitions = _partitions_of_new(site, machine_class, change)
    site.add_class(machine_class, change)
    base = (cluster or f"new-{machine_class}").replace(" ", "-")
    unused = (name for k in count(1) if (name := f"{base}-{k}") not in site.machines)
    names = list(islice(unused, parsed.count or 0))
    beside = (site.of_class(machine_class) or [*site.machines])[-1]
    table = MachinesTable(
        names=(),
        machine_class=machine_class,
        slots=change.slots or site.slots_of(machine_class),
        os=change.os or "",
        rating=change.rating or site.rating_of(machine_class),
        switch=site.machines[beside].switch,
        notional=True,
        **has,
    )
    site.machines |= dict.fromkeys(names, table)
    for name in partitions:
        nodes = (*site.partitions[name].nodes, *names)
        site.partitions[name] = site.partitions[name].model_copy(update={"nodes": nodes})
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
    for name, partition in site.partitions.items():
        left = tuple(node for node in partition.nodes if node not in removed)
        if len(left) < len(partition.nodes):
            site.partitions[name] = partition.model_copy(update={"nodes": left})
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
    has = _specification(site, to, change)
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
            if table.memory_mb is None:
                raise InapplicableChange(
                    f"more_memory_mb is {change.more_memory_mb:g}, but the site does not say what memory "
                    f"these machines have; give memory_mb"
                )
            own["memory_mb"] = table.memory_mb + change.more_memory_mb
        site.machines[name] = table.model_copy(update=update | own)
    if site.has_nodes and all(site.machines[name] == table for name, table in before.items()):
        raise InapplicableChange(f"nothing is changed: all machines of class '{machine_class}' have that")
    if new_class:
        _set_parallel_times(site, machines, change)


_VERBS = {"add": _add, "remove": _remove, "upgrade": _upgrade, "change": _change}
