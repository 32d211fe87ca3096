"""A site while what-if changes are applied: machines, classes, clusters, and the times that follow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from scheduler.messages import UserError, meant
from sil.settings.notional import SPECIFICATION, NotionalTable
from site_db.experience import Expect
from site_db.site_file.machine_names import expand
from site_db.site_file.relations import in_site_order
from site_db.site_file.tables import ClusterTable, InterconnectTable, MachineClassTable, SiteFile

ESTIMATED = ""
"""The command line of a job class on a machine class for which the database's rules estimate the time."""


class InapplicableChange(UserError):
    """A change does not fit the site. The message is one sentence for the user; `place` is the number of the
    change."""

    def __init__(self, sentence: str, place: int = 0) -> None:
        super().__init__(sentence)
        self.place = place


@dataclass(frozen=True)
class Absence:
    """A machine is absent from `from_s` to `to_s` (infinite = to the end)."""

    machine: str
    from_s: float
    to_s: float


class WhatIfSite:
    """The tables of a site by name. Methods raise InapplicableChange for a change that does not fit."""

    def __init__(self, file: SiteFile, expect: Expect) -> None:
        self._file, self._expect = file, expect
        self.machines = {name: group for group in file.machines for name in group.names}
        self.class_in_file = {name: group.machine_class for name, group in self.machines.items()}
        self.machine_classes = {table.name: table for table in file.machine_classes}
        self.clusters = {table.name: table for table in file.clusters}
        self.partitions = {table.name: table for table in file.partitions}
        self.interconnects = {table.name: table for table in file.interconnects}
        self.job_classes = {table.name: table for table in file.job_classes}
        self.absences: list[Absence] = []
        self.uncertainty: dict[tuple[str, str], float] = {}
        self.new_classes: list[str] = []
        self._original_class: dict[str, str] = {}
        """The class before, by the name of a class whose machines were changed as a whole."""

    @property
    def has_nodes(self) -> bool:
        """Whether its machines are nodes, of which jobs request parts."""
        return bool(self.partitions)

    def as_file(self) -> SiteFile:
        groups = [table.model_copy(update={"names": (name,)}) for name, table in self.machines.items()]
        kinds = ("machine_classes", "interconnects", "clusters", "partitions", "job_classes")
        tables = {kind: tuple(getattr(self, kind).values()) for kind in kinds}
        return in_site_order(self._file.model_copy(update={"machines": tuple(groups), **tables}))

    def add_class(self, name: str, change: NotionalTable) -> None:
        """Add a machine class with its times, by `sequential_s`, `like` or `rating`, unless it exists."""
        given = [key for key in ("sequential_s", "like", "rating") if key in change.given]
        if name in self.machine_classes:
            if given and name not in self.new_classes:
                raise InapplicableChange(f"the site has the class '{name}'; leave out {' and '.join(given)}")
            return
        says_what_it_has = self.has_nodes and change.given & {*SPECIFICATION}
        if len(given) > 1 or not (given or says_what_it_has):
            hint = f" ({question})" if (question := meant(name, self.machine_classes)) else ""
            raise InapplicableChange(
                f"the site has no machine class '{name}'{hint}; for a new class, give its speed with one of "
                f"sequential_s (seconds by job class), like with times_as_fast, and rating"
            )
        if not given and "times_as_fast" in change.given:
            raise InapplicableChange("times_as_fast needs 'like', the class to which the new one is compared")
        self.machine_classes[name] = MachineClassTable(name=name)
        self.new_classes.append(name)
        for job_class in change.sequential_s:
            self.check_known("job class", job_class, self.job_classes)
        if change.like is not None:
            self.check_known("machine class", change.like, self.machine_classes)
        if not self._allow(name, change) and not self.has_nodes:
            raise InapplicableChange(f"no job class would run on machines of class '{name}'")

    def _allow(self, machine_class: str, change: NotionalTable) -> bool:
        """Allow job classes on a new machine class, where a time follows from the change. Returns whether
        there is one."""
        is_any = False
        for job_class, table in self.job_classes.items():
            time_s = change.sequential_s.get(job_class)
            if change.like is not None and change.rating is None:
                like_s = self._sequential_s(job_class, change.like)
                time_s = None if like_s is None else like_s / change.times_as_fast
            if change.rating is not None and (table.sequential_s or table.commands):
                self._set(job_class, "commands", machine_class, ESTIMATED)
            elif change.rating is None and time_s is not None:
                self._set(job_class, "sequential_s", machine_class, time_s)
                if change.uncertainty:
                    self.uncertainty[job_class, machine_class] = change.uncertainty
            else:
                continue
            is_any = True
        return is_any

    def _set(self, job_class: str, key: str, place: str, value: Any) -> None:
        table = self.job_classes[job_class]
        update = {key: {**getattr(table, key), place: value}}
        self.job_classes[job_class] = table.model_copy(update=update)

    def add_changed_class(self, original: str, current: str, change: NotionalTable) -> str:
        """Add a class for the machines of class `original`, now `current`, as they are after `change`: the
        history of their class is of machines as they were. Returns its name."""
        number = sum(before == original for before in self._original_class.values()) + 1
        name = f"{original}-changed-{number}"
        self.add_class(name, change.model_copy(update={"like": current, "rating": None}))
        self._original_class[name] = original
        return name

    def class_for(self, name: str, change: NotionalTable) -> str:
        """The class that a change names; perhaps by one of its nodes, like gn01, or by what the names of its
        nodes begin with, like gn, unless the change says what a new class of that name is."""
        says_what_it_is = change.given & {*SPECIFICATION, "sequential_s", "like", "rating"}
        return name if says_what_it_is else self.class_of_nodes(name)

    def class_of_nodes(self, name: str) -> str:
        """The class of the nodes with that name and a number, or of the node of that name; `name` itself if
        it is a class, or if there is not exactly one."""
        if name in self.machine_classes or not self.has_nodes:
            return name
        classes = {
            table.machine_class
            for machine, table in self.machines.items()
            if name in (machine, machine.rstrip("0123456789"))
        }
        return classes.pop() if len(classes) == 1 else name

    def of_class(self, machine_class: str) -> list[str]:
        """The machines that are of a class, or were before the class was changed as a whole."""
        return [
            name
            for name, table in self.machines.items()
            if machine_class in (table.machine_class, self._original_class.get(table.machine_class))
        ]

    def rating_of(self, machine_class: str) -> float | None:
        ratings = {m.rating for m in self.machines.values() if m.machine_class == machine_class}
        return ratings.pop() if len(ratings) == 1 else None

    def slots_of(self, machine_class: str) -> int:
        """The slots of each machine of a class; one in a class without machines."""
        numbers = {m.slots for m in self.machines.values() if m.machine_class == machine_class}
        if len(numbers) > 1:
            has = " or ".join(map(str, sorted(numbers)))
            raise InapplicableChange(f"machines of class '{machine_class}' have {has} slots; give 'slots'")
        return numbers.pop() if numbers else 1

    def _sequential_s(self, job_class: str, machine_class: str) -> float | None:
        times_s = self.job_classes[job_class].sequential_s
        return times_s.get(machine_class) or self._expect(job_class, machine_class)

    def add_cluster(
        self, name: str, members: list[str], interconnect: str | None, change: NotionalTable
    ) -> None:
        """Add a cluster of machines of one class."""
        if name in self.clusters:
            raise InapplicableChange(f"the site has a cluster '{name}' already; name another")
        if name in self.machines:
            raise InapplicableChange(
                f"'{name}' is the name of a machine; choose another name for the cluster"
            )
        scales = bool(change.speedup or change.parallel_s)
        if interconnect is not None:
            if change.bandwidth_mbit_per_s is not None:
                if any(table.name == interconnect for table in self._file.interconnects):
                    raise InapplicableChange(
                        f"the site has an interconnect '{interconnect}'; leave out bandwidth_mbit_per_s and "
                        f"latency_us"
                    )
                if not scales:
                    raise InapplicableChange(
                        f"run times over the new interconnect '{interconnect}' are unknown; give speedup or "
                        f"parallel_s"
                    )
                new = {key: getattr(change, key) for key in ("bandwidth_mbit_per_s", "latency_us")}
                self.interconnects.setdefault(interconnect, InterconnectTable(name=interconnect, **new))
            self.check_known("interconnect", interconnect, self.interconnects)
        else:
            of_class = {self.machines[name].machine_class for name in members}
            alike = [c for c in self.clusters.values() if self.classes_in(c) == of_class and c.interconnects]
            if alike:
                interconnect = alike[0].interconnects[0]
            elif not scales:
                raise InapplicableChange(
                    f"the interconnect of cluster '{name}' is missing; write '... as cluster {name} "
                    f"over NAME', or give speedup or parallel_s"
                )
        interconnects = () if interconnect is None else (interconnect,)
        self.clusters[name] = ClusterTable(name=name, members=tuple(members), interconnects=interconnects)
        self.set_parallel_times(self.clusters[name], change)

    def set_parallel_times(self, cluster: ClusterTable, change: NotionalTable) -> None:
        """Set the expected parallel times of a cluster of machines of one class."""
        for job_class in change.parallel_s:
            self.check_known("job class", job_class, self.job_classes)
        times_s = dict(change.parallel_s)
        (machine_class,) = self.classes_in(cluster)
        for name, table in () if times_s else self.job_classes.items():
            # By the speedup over one machine, of what runs in parallel anywhere.
            alone_s = self._sequential_s(name, machine_class)
            if alone_s is not None and (table.parallel_s or table.parallel_commands):
                factor = change.speedup or self._speedup(name, cluster)
                if factor is not None:
                    times_s[name] = alone_s / factor
        for job_class, time_s in times_s.items():
            self._set(job_class, "parallel_s", cluster.name, time_s)
        if not times_s:
            raise InapplicableChange(
                f"parallel run times on cluster '{cluster.name}' are unknown; give speedup or parallel_s"
            )

    def _speedup(self, job_class: str, cluster: ClusterTable) -> float | None:
        """The speedup by the law S(n) = n / (1 + a (n - 1)), with the mean a of clusters over the same
        interconnect."""
        factors = []
        for other in self._file.clusters:
            classes, size = {self.class_in_file[name] for name in other.members}, len(other.members)
            if len(classes) != 1 or size < 2 or set(other.interconnects) != set(cluster.interconnects):
                continue
            parallel_s, alone_s = (self._expect(job_class, place) for place in (other.name, classes.pop()))
            if parallel_s is not None and alone_s is not None:
                factors.append((size * parallel_s / alone_s - 1.0) / (size - 1))
        n = len(cluster.members)
        return n / (1.0 + max(0.0, fmean(factors)) * (n - 1)) if factors else None

    def shrink(self, cluster: ClusterTable, members: tuple[str, ...]) -> None:
        """Leave a cluster `members`, with which jobs take longer; remove it if there are none."""
        if members:
            self.clusters[cluster.name] = cluster.model_copy(update={"members": members})
        else:
            del self.clusters[cluster.name]
        for name, table in self.job_classes.items():
            times_s, commands = dict(table.parallel_s), dict(table.parallel_commands)
            time_s = times_s.pop(cluster.name, None)
            if members and time_s is not None:
                times_s[cluster.name] = time_s * len(cluster.members) / len(members)
            if not members:
                commands.pop(cluster.name, None)
            update = {"parallel_s": times_s, "parallel_commands": commands}
            self.job_classes[name] = table.model_copy(update=update)

    def classes_in(self, cluster: ClusterTable) -> set[str]:
        return {self.machines[name].machine_class for name in cluster.members}

    def find_machines(self, what: str, number: int | None) -> list[str]:
        """Machines of a class, the last ones first; those of a cluster; or those with these names. A name
        with a space in it has to be the only one."""
        found = self.of_class(what)
        if number is not None and not found:
            found = self.of_class(self.class_of_nodes(what))
        if not found and what in self.machines:
            found = [what]
        elif not found:
            try:
                members = self.clusters[what].members if what in self.clusters else expand(what.split())
            except ValueError as error:
                raise InapplicableChange(str(error)) from None
            named = {*members}
            for missing in sorted(named - self.machines.keys())[:1]:
                known = (*self.machine_classes, *self.clusters, *self.machines)
                self.check_known("machine, machine class or cluster", missing, known)
            found = [name for name in self.machines if name in named]
        if number is None:
            return found
        if len(found) < number:
            raise InapplicableChange(f"there are {len(found)} machines of '{what}', and {number} are named")
        return found[::-1][:number]

    def check_known(self, what: str, name: str, known: Iterable[str], remedy: str = "") -> None:
        known = list(known)
        if name not in known:
            hint = meant(name, known) or f"it has {', '.join(known[:8]) or 'none'}"
            raise InapplicableChange(f"the site has no {what} '{name}'; {hint}{remedy}")
