"""A site as it is imagined: machines, classes and clusters, and the times that follow from what is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from statistics import fmean

from scheduler.errors import UserError
from sil.settings.notional import NotionalTable
from site_db.site_file import hostlist
from site_db.site_file.relations import in_site_order
from site_db.site_file.tables import (
    ClusterTable,
    InterconnectTable,
    JobClassTable,
    MachineClassTable,
    MachinesTable,
    SiteFile,
)

NOT_KNOWN = ""
"""The command line of a job class on a machine class, of which only the database's rules tell the times."""

Expect = Callable[[str, str], float | None]
"""Expected seconds of a job class on a machine class, or on a whole cluster; None where it cannot run."""


class CannotImagine(UserError):
    """A change does not go with the site. The message is one sentence for the user; `place` is the number of
    the change."""

    def __init__(self, sentence: str, place: int = 0) -> None:
        super().__init__(sentence)
        self.place = place


@dataclass(frozen=True)
class Absence:
    """A machine is not there from `from_s` to `to_s` (infinite = to the end)."""

    machine: str
    from_s: float
    to_s: float


@dataclass
class ImaginedMachine:
    name: str
    table: MachinesTable


@dataclass
class ImaginedSite:
    """A site that is being changed. Raises CannotImagine for what does not go with it."""

    file: SiteFile
    expect: Expect
    machines: list[ImaginedMachine] = field(default_factory=list)
    classes: list[MachineClassTable] = field(default_factory=list)
    clusters: list[ClusterTable] = field(default_factory=list)
    interconnects: list[InterconnectTable] = field(default_factory=list)
    job_classes: list[JobClassTable] = field(default_factory=list)
    absences: list[Absence] = field(default_factory=list)
    uncertain: dict[tuple[str, str], float] = field(default_factory=dict)
    new_classes: dict[str, None] = field(default_factory=dict)
    changed: dict[str, str] = field(default_factory=dict)
    """By the name of a class whose machines were changed as a whole: the one that they were of."""

    def __post_init__(self) -> None:
        self.machines = [ImaginedMachine(name, group) for group in self.file.machines for name in group.names]
        self.classes = list(self.file.machine_classes)
        self.clusters = list(self.file.clusters)
        self.interconnects = list(self.file.interconnects)
        self.job_classes = list(self.file.job_classes)

    def as_file(self) -> SiteFile:
        groups = tuple(
            machine.table.model_copy(update={"names": (machine.name,)}) for machine in self.machines
        )
        parts = {
            "machines": groups,
            "machine_classes": tuple(self.classes),
            "interconnects": tuple(self.interconnects),
            "clusters": tuple(self.clusters),
            "job_classes": tuple(self.job_classes),
        }
        return in_site_order(self.file.model_copy(update=parts))

    # -- classes of machines --------------------------------------------------------------------------------

    def make_known(self, kind: str, change: NotionalTable) -> None:
        """A class that the site does not have gets times, in one of three ways."""
        said = [key for key in ("sequential_s", "like", "rating") if key in change.said]
        if kind in {table.name for table in self.classes}:
            if said and kind not in self.new_classes:
                raise CannotImagine(f"the site knows the class '{kind}'; leave out {' and '.join(said)}")
            return
        if len(said) != 1:
            close = get_close_matches(kind, [table.name for table in self.classes], n=1)
            hint = f" (did you mean '{close[0]}'?)" if close else ""
            raise CannotImagine(
                f"the site has no machine class '{kind}'{hint}; of a new one, say how fast it is: one of "
                f"sequential_s (seconds by job class), like with times_as_fast, and rating"
            )
        self.classes.append(MachineClassTable(name=kind))
        self.new_classes[kind] = None
        for job_class in change.sequential_s:
            self.check_known("job class", job_class, [table.name for table in self.job_classes])
        if change.like is not None:
            self.check_known("machine class", change.like, [table.name for table in self.classes])
        runs_there = 0
        for k, table in enumerate(self.job_classes):
            if change.rating is not None:
                if table.sequential_s or table.commands:
                    commands = {**table.commands, kind: NOT_KNOWN}
                    self.job_classes[k] = table.model_copy(update={"commands": commands})
                    runs_there += 1
                continue
            if change.like is not None:
                like_s = self._sequential_s(table.name, change.like)
                time_s = None if like_s is None else like_s / change.times_as_fast
            else:
                time_s = change.sequential_s.get(table.name)
            if time_s is not None:
                times = {**table.sequential_s, kind: time_s}
                self.job_classes[k] = table.model_copy(update={"sequential_s": times})
                runs_there += 1
                if change.uncertainty:
                    self.uncertain[table.name, kind] = change.uncertainty
        if not runs_there:
            raise CannotImagine(f"no job class would run on machines of class '{kind}'")

    def changed_class(self, kind: str, now: str, change: NotionalTable) -> str:
        """A class of its own for the machines of class `kind`, by now `now`, as they are after `change`: what
        is known of their times is of machines as they were."""
        number = sum(origin == kind for origin in self.changed.values()) + 1
        name = f"{kind}-changed-{number}"
        self.make_known(name, change.model_copy(update={"like": now, "rating": None}))
        self.changed[name] = kind
        return name

    def is_of(self, machine: ImaginedMachine, kind: str) -> bool:
        """Whether it is of a class, or was before that was changed as a whole."""
        now = machine.table.machine_class
        return kind in (now, self.changed.get(now))

    def classes_of(self, machines: Iterable[ImaginedMachine]) -> list[str]:
        return list(dict.fromkeys(machine.table.machine_class for machine in machines))

    def rating_of(self, kind: str) -> float | None:
        ratings = {m.table.rating for m in self.machines if m.table.machine_class == kind}
        return ratings.pop() if len(ratings) == 1 else None

    def _sequential_s(self, job_class: str, kind: str) -> float | None:
        table = next(table for table in self.job_classes if table.name == job_class)
        return table.sequential_s.get(kind) or self.expect(job_class, kind)

    # -- clusters -------------------------------------------------------------------------------------------

    def add_cluster(
        self, name: str, kind: str, members: list[str], line: str | None, change: NotionalTable
    ) -> None:
        if name in {cluster.name for cluster in self.clusters}:
            raise CannotImagine(f"the site has a cluster '{name}' already; name another")
        if name in {machine.name for machine in self.machines}:
            raise CannotImagine(f"'{name}' is the name of a machine; name the cluster otherwise")
        if line is not None and change.bandwidth_mbit_per_s is not None:
            self._add_interconnect(line, change)
        if line is not None:
            self.check_known("interconnect", line, [x.name for x in self.interconnects])
        elif alike := [c for c in self.clusters if self._kinds(c) == {kind} and c.interconnects]:
            line = alike[0].interconnects[0]
        elif not (change.speedup or change.parallel_s):
            raise CannotImagine(
                f"over which interconnect is cluster '{name}'? say '... as cluster {name} over NAME', or how "
                f"fast jobs are there with speedup or parallel_s"
            )
        lines = () if line is None else (line,)
        cluster = ClusterTable(name=name, members=tuple(members), interconnects=lines)
        self.clusters.append(cluster)
        self.time_cluster(cluster, kind, change, known=change.parallel_s)

    def is_used_in_parallel(self, cluster: ClusterTable) -> bool:
        """Whether any job class runs on it as a whole."""
        return any(cluster.name in (*k.parallel_s, *k.parallel_commands) for k in self.job_classes)

    def _add_interconnect(self, name: str, change: NotionalTable) -> None:
        if name in {x.name for x in self.file.interconnects}:
            raise CannotImagine(f"the site has an interconnect '{name}'; leave out what it is like")
        if not (change.speedup or change.parallel_s):
            raise CannotImagine(
                f"nothing tells how jobs run over the new interconnect '{name}'; say speedup or parallel_s"
            )
        if name not in {x.name for x in self.interconnects}:
            bandwidth, latency = change.bandwidth_mbit_per_s, change.latency_us
            assert bandwidth is not None
            self.interconnects.append(
                InterconnectTable(name=name, bandwidth_mbit_per_s=bandwidth, latency_us=latency)
            )

    def time_cluster(
        self, cluster: ClusterTable, kind: str, change: NotionalTable, known: Mapping[str, float]
    ) -> None:
        """Expected parallel times of a cluster of machines of one class."""
        for job_class in known:
            self.check_known("job class", job_class, [table.name for table in self.job_classes])
        runs_there = 0
        for k, table in enumerate(self.job_classes):
            time_s = known.get(table.name)
            one_s = self._sequential_s(table.name, kind)
            if not known and one_s is not None and (table.parallel_s or table.parallel_commands):
                speedup = change.speedup or self._speedup(table.name, cluster)
                time_s = None if speedup is None else one_s / speedup
            if time_s is not None:
                times = {**table.parallel_s, cluster.name: time_s}
                self.job_classes[k] = table.model_copy(update={"parallel_s": times})
                runs_there += 1
        if not runs_there:
            raise CannotImagine(
                f"nothing tells how jobs run in parallel on cluster '{cluster.name}'; say speedup or "
                f"parallel_s"
            )

    def _speedup(self, job_class: str, cluster: ClusterTable) -> float | None:
        """By the law S(n) = n / (1 + a (n - 1)), with the mean a of clusters over the same interconnect."""
        factors = []
        for other in self.file.clusters:
            kinds, size = self._kinds_at_first(other), len(other.members)
            if len(kinds) != 1 or size < 2 or set(other.interconnects) != set(cluster.interconnects):
                continue
            together_s, one_s = self.expect(job_class, other.name), self.expect(job_class, next(iter(kinds)))
            if together_s is not None and one_s is not None:
                factors.append((size * together_s / one_s - 1.0) / (size - 1))
        n = len(cluster.members)
        return n / (1.0 + max(0.0, fmean(factors)) * (n - 1)) if factors else None

    def shrink(self, k: int, cluster: ClusterTable, left: tuple[str, ...]) -> None:
        """A cluster lost members: it needs longer, or is no more."""
        if left:
            self.clusters[k] = cluster.model_copy(update={"members": left})
        else:
            del self.clusters[k]
        for i, table in enumerate(self.job_classes):
            times, commands = dict(table.parallel_s), dict(table.parallel_commands)
            time_s = times.pop(cluster.name, None)
            if left and time_s is not None:
                times[cluster.name] = time_s * len(cluster.members) / len(left)
            if not left:
                commands.pop(cluster.name, None)
            update = {"parallel_s": times, "parallel_commands": commands}
            self.job_classes[i] = table.model_copy(update=update)

    def _kinds(self, cluster: ClusterTable) -> set[str]:
        class_of = {machine.name: machine.table.machine_class for machine in self.machines}
        return {class_of[name] for name in cluster.members}

    def _kinds_at_first(self, cluster: ClusterTable) -> set[str]:
        class_of = {name: group.machine_class for group in self.file.machines for name in group.names}
        return {class_of[name] for name in cluster.members}

    # -- names ----------------------------------------------------------------------------------------------

    def some(self, what: str, count: int | None) -> list[ImaginedMachine]:
        """Machines of a class, the last ones first; those of a cluster; or those of these names, of which one
        may have a space in it if it is the only one."""
        found = [machine for machine in self.machines if self.is_of(machine, what)]
        found = found or [machine for machine in self.machines if machine.name == what]
        found = found or self._named(what)
        if count is not None and len(found) < count:
            raise CannotImagine(f"there are {len(found)} machines of '{what}', and {count} are named")
        return found if count is None else found[::-1][:count]

    def _named(self, what: str) -> list[ImaginedMachine]:
        cluster = next((c for c in self.clusters if c.name == what), None)
        try:
            names = set(cluster.members) if cluster is not None else set(hostlist.expand(what.split()))
        except ValueError as error:
            raise CannotImagine(str(error)) from None
        found = [machine for machine in self.machines if machine.name in names]
        for missing in sorted(names - {machine.name for machine in found})[:1]:
            known = [*(t.name for t in self.classes), *(c.name for c in self.clusters)]
            known += [machine.name for machine in self.machines]
            self.check_known("machine, machine class or cluster", missing, known)
        return found

    def new_names(self, base: str, count: int) -> list[str]:
        taken = {machine.name for machine in self.machines}
        names: list[str] = []
        number = 0
        while len(names) < count:
            number += 1
            if (name := f"{base.replace(' ', '-')}-{number}") not in taken:
                names.append(name)
        return names

    def check_known(self, what: str, name: str, known: Iterable[str]) -> None:
        known = list(known)
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"it has {', '.join(known[:8]) or 'none'}"
            raise CannotImagine(f"the site has no {what} '{name}'; {hint}")
