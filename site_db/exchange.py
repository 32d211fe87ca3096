"""The site file: a whole site in one TOML file, for people to read, write and keep under version control."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PositiveFloat

from site_db import hostlist, toml_file
from site_db.toml_file import Location, Table

Problem = tuple[Location, str]


def _nonempty(name: str) -> str:
    if not name.strip():
        raise ValueError("a name cannot be empty")
    return name


Name = Annotated[str, AfterValidator(_nonempty)]
Names = Annotated[tuple[Name, ...], AfterValidator(lambda names: tuple(hostlist.expand(names)))]


class MachineClassTable(Table):
    name: Name
    architecture: str = ""


class MachinesTable(Table):
    """Machines of one class, by name or by ranges like "node[01-08]"."""

    names: Names
    machine_class: Name


class InterconnectTable(Table):
    name: Name
    bandwidth_mbit_per_s: PositiveFloat
    latency_us: float = Field(default=0.0, ge=0)


class ClusterTable(Table):
    name: Name
    members: Names
    interconnects: Names = ()
    least_share: float = Field(default=1.0, gt=0, le=1)


class JobClassTable(Table):
    """A class may run where it has a time: seconds on a machine of a class, or on a whole cluster."""

    name: Name
    description: str = ""
    sequential_s: dict[Name, PositiveFloat] = Field(default_factory=dict)
    parallel_s: dict[Name, PositiveFloat] = Field(default_factory=dict)
    preferred: Names = ()


class QueueTable(Table):
    name: Name
    priority: int = 0
    scheduler: str | None = None
    mapping: Literal["commit", "remap"] = "commit"
    users: tuple[Name, ...] | None = None
    displaces: tuple[Name, ...] = ()


class SiteFile(Table):
    """A site as its file says it; `problems` tells what does not fit together."""

    name: Name
    description: str = ""
    machine_classes: tuple[MachineClassTable, ...]
    machines: tuple[MachinesTable, ...]
    interconnects: tuple[InterconnectTable, ...] = ()
    clusters: tuple[ClusterTable, ...] = ()
    job_classes: tuple[JobClassTable, ...]
    queues: tuple[QueueTable, ...] = ()

    @property
    def machine_names(self) -> list[str]:
        return [name for group in self.machines for name in group.names]

    def problems(self) -> Iterator[Problem]:
        """Where names are doubled or lead nowhere, and what cannot run: (place in the file, sentence)."""
        for kind in ("machine_classes", "interconnects", "clusters", "job_classes", "queues"):
            names = [table.name for table in getattr(self, kind)]
            yield from _twice((kind,), _SINGULAR[kind], names)
        yield from _twice(("machines",), "machine", self.machine_names)
        yield from self._problems_of_machines()
        yield from self._problems_of_clusters()
        yield from self._problems_of_job_classes()
        for k, queue in enumerate(self.queues):
            place, who = ("queues", k, "displaces"), f"queue '{queue.name}'"
            yield from _unknown(place, who, queue.displaces, "queue", [q.name for q in self.queues])
            if queue.name in queue.displaces:
                yield place, f"{who} cannot displace itself"

    def _problems_of_machines(self) -> Iterator[Problem]:
        machine_classes = [table.name for table in self.machine_classes]
        for k, group in enumerate(self.machines):
            place, who = ("machines", k, "machine_class"), f"the group of machines {k + 1}"
            yield from _unknown(place, who, [group.machine_class], "machine class", machine_classes)
        if not self.machine_names:
            yield ("machines",), "the site has no machines"

    def _problems_of_clusters(self) -> Iterator[Problem]:
        machines, interconnects = self.machine_names, [table.name for table in self.interconnects]
        for k, cluster in enumerate(self.clusters):
            place, who = ("clusters", k), f"cluster '{cluster.name}'"
            if cluster.name in machines:
                yield (*place, "name"), f"'{cluster.name}' is the name of a machine and of a cluster"
            if not cluster.members:
                yield (*place, "members"), f"{who} has no members"
            yield from _twice((*place, "members"), f"member of {who},", cluster.members)
            yield from _unknown((*place, "members"), who, cluster.members, "machine", machines)
            yield from _unknown(
                (*place, "interconnects"), who, cluster.interconnects, "interconnect", interconnects
            )

    def _problems_of_job_classes(self) -> Iterator[Problem]:
        machine_classes = [table.name for table in self.machine_classes]
        with_machines = {group.machine_class for group in self.machines if group.names}
        clusters = [table.name for table in self.clusters]
        for k, job_class in enumerate(self.job_classes):
            place, who = ("job_classes", k), f"job class '{job_class.name}'"
            for key, names, what, known in (
                ("sequential_s", job_class.sequential_s, "machine class", machine_classes),
                ("parallel_s", job_class.parallel_s, "cluster", clusters),
                ("preferred", job_class.preferred, "machine class", machine_classes),
            ):
                yield from _unknown((*place, key), who, names, what, known)
            if not job_class.parallel_s and with_machines.isdisjoint(job_class.sequential_s):
                yield (
                    (*place, "sequential_s"),
                    f"{who} has no machine that can run it; give it a time in sequential_s for a class that "
                    f"has machines ({', '.join(sorted(with_machines))}), or in parallel_s for a cluster",
                )


_SINGULAR = {
    "machine_classes": "machine class",
    "interconnects": "interconnect",
    "clusters": "cluster",
    "job_classes": "job class",
    "queues": "queue",
}


def _twice(place: Location, what: str, names: Iterable[str]) -> Iterator[Problem]:
    seen: set[str] = set()
    for k, name in enumerate(names):
        if name in seen:
            yield (*place, k), f"{what} '{name}' is named twice"
        seen.add(name)


def _unknown(
    place: Location, who: str, names: Iterable[str], what: str, known: Sequence[str]
) -> Iterator[Problem]:
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            few = ", ".join(known[:5]) + (", ..." if len(known) > 5 else "")
            hint = f"did you mean '{close[0]}'?" if close else f"the site has {few or 'none'}"
            yield (*place, name), f"{who} names the {what} '{name}', which does not exist; {hint}"


def read_site_file(path: Path) -> SiteFile:
    """The site in a TOML file. Raises InvalidFile with one sentence for the first thing that is wrong."""
    text = toml_file.read_text(path)
    site = toml_file.validate(toml_file.parse(text, path), SiteFile, text, path)
    for place, sentence in site.problems():
        raise toml_file.invalid(text, path, place, sentence)
    return site
