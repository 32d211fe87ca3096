"""The site file: a whole site in one TOML file, for people to read, write and keep under version control."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from site_db import hostlist, toml_file
from site_db.toml_file import Location, Positive, Table

Problem = tuple[Location, str]


def _checked(name: str) -> str:
    if not name.strip():
        raise ValueError("a name cannot be empty")
    if not name.isprintable():
        raise ValueError(f"the name '{name}' has a character that cannot be printed")
    return name


Name = Annotated[str, AfterValidator(_checked)]
Names = Annotated[tuple[Name, ...], AfterValidator(lambda names: tuple(hostlist.expand(names)))]

# Strict: neither true nor "10" is a number here.
Priority = Annotated[int, Field(ge=-(2**31), lt=2**31, strict=True)]
"""As wide as an integer column of every database is."""


class MachineClassTable(Table):
    name: Name
    architecture: str = ""


class MachinesTable(Table):
    """Machines of one class, by name or by ranges like "node[01-08]"."""

    names: Names
    machine_class: Name


class InterconnectTable(Table):
    name: Name
    bandwidth_mbit_per_s: Positive
    latency_us: float = Field(default=0.0, ge=0, strict=True)


class ClusterTable(Table):
    name: Name
    members: Names
    interconnects: Names = ()
    least_share: float = Field(default=1.0, gt=0, le=1, strict=True)


class JobClassTable(Table):
    """A class may run where it has a time: seconds on a machine of a class, or on a whole cluster."""

    name: Name
    description: str = ""
    sequential_s: dict[Name, Positive] = Field(default_factory=dict)
    parallel_s: dict[Name, Positive] = Field(default_factory=dict)
    preferred: Names = ()


class QueueTable(Table):
    name: Name
    priority: Priority = 0
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
        for kind, singular in _SINGULAR.items():
            tables = getattr(self, kind)
            yield from _twice(singular, (((kind, k, "name"), table.name) for k, table in enumerate(tables)))
        yield from self._problems_of_machines()
        yield from self._problems_of_clusters()
        yield from self._problems_of_job_classes()
        yield from self._problems_of_queues()

    def _problems_of_machines(self) -> Iterator[Problem]:
        machine_classes = _known(table.name for table in self.machine_classes)
        yield from _twice(
            "machine",
            (
                (("machines", k, "names", name), name)
                for k, group in enumerate(self.machines)
                for name in group.names
            ),
        )
        for k, group in enumerate(self.machines):
            place, who = ("machines", k, "machine_class"), f"the group of machines {k + 1}"
            yield from _unknown(place, who, [group.machine_class], "machine class", machine_classes)
        if not self.machine_names:
            yield ("machines",), "the site has no machines"

    def _problems_of_clusters(self) -> Iterator[Problem]:
        machines, interconnects = (
            _known(self.machine_names),
            _known(table.name for table in self.interconnects),
        )
        for k, cluster in enumerate(self.clusters):
            place, who = ("clusters", k), f"cluster '{cluster.name}'"
            if cluster.name in machines:
                yield (*place, "name"), f"'{cluster.name}' is the name of a machine and of a cluster"
            if not cluster.members:
                yield (*place, "members"), f"{who} has no members"
            for key, names, what, known in (
                ("members", cluster.members, "machine", machines),
                ("interconnects", cluster.interconnects, "interconnect", interconnects),
            ):
                yield from _named_twice((*place, key), who, names, what)
                yield from _unknown((*place, key), who, names, what, known)

    def _problems_of_job_classes(self) -> Iterator[Problem]:
        machine_classes = _known(table.name for table in self.machine_classes)
        with_machines = {group.machine_class for group in self.machines if group.names}
        clusters = _known(table.name for table in self.clusters)
        for k, job_class in enumerate(self.job_classes):
            place, who = ("job_classes", k), f"job class '{job_class.name}'"
            for key, names, what, known in (
                ("sequential_s", job_class.sequential_s, "machine class", machine_classes),
                ("parallel_s", job_class.parallel_s, "cluster", clusters),
                ("preferred", job_class.preferred, "machine class", machine_classes),
            ):
                yield from _named_twice((*place, key), who, names, what)
                yield from _unknown((*place, key), who, names, what, known)
            if not job_class.parallel_s and with_machines.isdisjoint(job_class.sequential_s):
                yield (
                    (*place, "sequential_s"),
                    f"{who} has no machine that can run it; give it a time in sequential_s for a class that "
                    f"has machines ({', '.join(sorted(with_machines))}), or in parallel_s for a cluster",
                )

    def _problems_of_queues(self) -> Iterator[Problem]:
        queues = _known(table.name for table in self.queues)
        for k, queue in enumerate(self.queues):
            place, who = ("queues", k), f"queue '{queue.name}'"
            yield from _named_twice((*place, "users"), who, queue.users or (), "user")
            yield from _named_twice((*place, "displaces"), who, queue.displaces, "queue")
            yield from _unknown((*place, "displaces"), who, queue.displaces, "queue", queues)
            if queue.name in queue.displaces:
                yield (*place, "displaces", queue.name), f"{who} cannot displace itself"


_SINGULAR = {
    "machine_classes": "machine class",
    "interconnects": "interconnect",
    "clusters": "cluster",
    "job_classes": "job class",
    "queues": "queue",
}


Known = Mapping[str, None]
"""Names in the order of the file, found at once: a site may have 100,000 machines."""


def _known(names: Iterable[str]) -> Known:
    return dict.fromkeys(names)


def _twice(what: str, named: Iterable[tuple[Location, str]]) -> Iterator[Problem]:
    seen: set[str] = set()
    for place, name in named:
        if name in seen:
            yield place, f"{what} '{name}' is named twice"
        seen.add(name)


def _named_twice(place: Location, who: str, names: Iterable[str], what: str) -> Iterator[Problem]:
    for at, sentence in _twice(what, (((*place, name), name) for name in names)):
        yield at, f"{who}: {sentence}"


def _unknown(place: Location, who: str, names: Iterable[str], what: str, known: Known) -> Iterator[Problem]:
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            few = ", ".join(islice(known, 5)) + (", ..." if len(known) > 5 else "")
            hint = f"did you mean '{close[0]}'?" if close else f"the site has {few or 'none'}"
            yield (*place, name), f"{who} names the {what} '{name}', which does not exist; {hint}"


def read_site_file(path: Path) -> SiteFile:
    """The site in a TOML file. Raises InvalidFile with one sentence for the first thing that is wrong."""
    text = toml_file.read_text(path)
    site = toml_file.validate(toml_file.parse(text, path), SiteFile, text, path)
    for place, sentence in site.problems():
        raise toml_file.invalid(text, path, place, sentence)
    return site
