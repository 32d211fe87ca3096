"""A site with changes that are only imagined: the site's own data stay as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sil.settings.notional import NotionalTable
from sil.site.what_if_site import Absence, CannotImagine, Expect, ImaginedMachine, ImaginedSite
from site_db.site_file.tables import MachinesTable, SiteFile


@dataclass(frozen=True)
class Overlay:
    """The changed site, when machines are not there, and how sure times are that were said of new classes:
    their relative standard deviation by (job class, machine class)."""

    file: SiteFile
    absences: tuple[Absence, ...]
    uncertain: Mapping[tuple[str, str], float]
    new_classes: tuple[str, ...]
    """Machine classes that the site does not have."""


def overlaid(file: SiteFile, expect: Expect, changes: Sequence[NotionalTable]) -> Overlay:
    """The site of `file` after `changes`, in order. Raises CannotImagine."""
    site = ImaginedSite(file, expect)
    for place, change in enumerate(changes):
        try:
            _VERBS[change.verb](site, change)
        except CannotImagine as error:
            raise CannotImagine(f"{change.told()}: {error}", place) from None
    return Overlay(site.as_file(), tuple(site.absences), site.uncertain, tuple(site.new_classes))


def _add(site: ImaginedSite, change: NotionalTable) -> None:
    parts = change.parsed()
    kind, cluster = str(parts["what"]), parts["cluster"]
    site.make_known(kind, change)
    names = site.new_names(cluster or f"new-{kind}", int(parts["count"]))
    table = MachinesTable(
        names=(), machine_class=kind, os=change.os or "", memory_mb=change.memory_mb,
        rating=change.rating or site.rating_of(kind), notional=True,
    )  # fmt: skip
    site.machines += [ImaginedMachine(name, table) for name in names]
    if change.from_s:
        site.absences += [Absence(name, 0.0, change.from_s) for name in names]
    if change.until_s is not None:
        site.absences += [Absence(name, change.until_s, float("inf")) for name in names]
    if cluster is None:
        for key in ("speedup", "parallel_s"):
            if key in change.said:
                raise CannotImagine(f"'{key}' is that of a cluster; write '{change.add} as cluster NAME'")
        return
    site.add_cluster(str(cluster), kind, names, parts["line"], change)


def _remove(site: ImaginedSite, change: NotionalTable) -> None:
    parts = change.parsed()
    gone = site.some(str(parts["what"]), parts["count"])
    until_s = float("inf") if change.until_s is None else change.until_s
    if change.from_s or change.until_s is not None:
        site.absences += [Absence(machine.name, change.from_s, until_s) for machine in gone]
        return
    names = {machine.name for machine in gone}
    site.machines = [machine for machine in site.machines if machine.name not in names]
    for k, cluster in reversed(list(enumerate(site.clusters))):
        left = tuple(name for name in cluster.members if name not in names)
        if len(left) < len(cluster.members):
            site.shrink(k, cluster, left)
    if not site.machines:
        raise CannotImagine(f"'{change.remove}' are all machines of the site; some have to stay")


def _upgrade(site: ImaginedSite, change: NotionalTable) -> None:
    parts = change.parsed()
    kind = str(parts["to"])
    chosen = site.some(str(parts["what"]), int(parts["count"]))
    site.make_known(kind, change)
    if change.from_s or change.until_s is not None:
        raise CannotImagine("an upgrade is there from the beginning; remove and add machines at other times")
    rating = change.rating or site.rating_of(kind)
    for machine in chosen:
        update = {"machine_class": kind, "rating": rating}
        machine.table = machine.table.model_copy(update=update)
    _time_clusters(site, chosen, change)


def _time_clusters(site: ImaginedSite, machines: Sequence[ImaginedMachine], change: NotionalTable) -> None:
    """Those of which machines have another class now, and all the same one."""
    names = {machine.name for machine in machines}
    class_of = {machine.name: machine.table.machine_class for machine in site.machines}
    for cluster in site.clusters:
        kinds = {class_of[name] for name in cluster.members}
        if names & set(cluster.members) and len(kinds) == 1 and site.is_used_in_parallel(cluster):
            site.time_cluster(cluster, kinds.pop(), change, known={})


def _change(site: ImaginedSite, change: NotionalTable) -> None:
    kind = str(change.parsed()["what"])
    site.check_known("machine class", kind, [table.name for table in site.classes])
    update = {
        key: value for key in ("os", "memory_mb", "rating") if (value := getattr(change, key)) is not None
    }
    if not update and not change.scales_times:
        raise CannotImagine(
            f"what is to change of the machines of class '{kind}'? say os, memory_mb, rating or times_as_fast"
        )
    of_class = [machine for machine in site.machines if site.is_of(machine, kind)]
    new_class_of: dict[str, str] = {}
    if change.scales_times:
        new_class_of = {now: site.changed_class(kind, now, change) for now in site.classes_of(of_class)}
    for machine in of_class:
        now = machine.table.machine_class
        its_class = {"machine_class": new_class_of.get(now, now)}
        machine.table = machine.table.model_copy(update=update | its_class)
    if new_class_of:
        _time_clusters(site, of_class, change)


_VERBS = {"add": _add, "remove": _remove, "upgrade": _upgrade, "change": _change}
