"""The site file: a whole site in one TOML file, for people to read, write and keep under version control."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

import tomlkit
from pydantic import AfterValidator, Field

from site_db import hostlist, toml_file
from site_db.toml_file import Location, NotNegative, Positive, Table

Problem = tuple[Location, str]


def _checked(name: str) -> str:
    if not name.strip():
        raise ValueError("a name cannot be empty")
    if name != name.strip():
        raise ValueError(f"the name '{name}' has spaces around it")
    if not name.isprintable():
        raise ValueError(f"the name '{name}' has a character that cannot be printed")
    return name


Name = Annotated[str, AfterValidator(_checked)]
Names = Annotated[tuple[Name, ...], AfterValidator(lambda names: tuple(hostlist.expand(names)))]


def _text(text: str) -> str:
    if "\0" in text:
        raise ValueError("the text has a NUL character, which no database keeps")
    return text


Text = Annotated[str, AfterValidator(_text)]

# Strict: neither true nor "10" is a number here.
Priority = Annotated[int, Field(ge=-(2**31), lt=2**31, strict=True)]
"""As wide as an integer column of every database is."""

WholeNumber = Annotated[int, Field(ge=1, lt=2**31, strict=True)]


class MachineClassTable(Table):
    name: Name
    architecture: Text = ""


class MachinesTable(Table):
    """Machines of one class and one specification, by name or by ranges like "node[01-08]".

    With twice the `rating`, half the time is expected. Notional machines are not there: experiments and plans
    may use them.
    """

    names: Names
    machine_class: Name
    processors: WholeNumber = 1
    memory_mb: Positive | None = None
    storage_gb: NotNegative | None = None
    os: Text = ""
    rating: Positive | None = None
    interconnects: Names = ()
    notional: bool = Field(default=False, strict=True)


class InterconnectTable(Table):
    name: Name
    bandwidth_mbit_per_s: Positive
    latency_us: NotNegative = 0.0


class ClusterTable(Table):
    name: Name
    members: Names
    interconnects: Names = ()
    least_share: float = Field(default=1.0, gt=0, le=1, strict=True)


class JobClassTable(Table):
    """A class may run where it has a time (seconds on a machine of a class, or on a whole cluster) or a
    command line. `size` names the parameter on which its time depends."""

    name: Name
    description: Text = ""
    size: Text = ""
    network_mbit_per_s: NotNegative | None = None
    sequential_s: dict[Name, Positive] = Field(default_factory=dict)
    parallel_s: dict[Name, Positive] = Field(default_factory=dict)
    commands: dict[Name, Text] = Field(default_factory=dict)
    parallel_commands: dict[Name, Text] = Field(default_factory=dict)
    preferred: Names = ()


class QueueTable(Table):
    name: Name
    priority: Priority = 0
    scheduler: Name | None = None
    mapping: Literal["commit", "remap"] = "commit"
    users: tuple[Name, ...] | None = None
    displaces: tuple[Name, ...] = ()


class SubmissionRightTable(Table):
    """In whose name a user may submit, and to which queues; without `queues`, to all."""

    user: Name
    queues: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None


class UserTable(Table):
    """What the site allows one user; without a key there is no limit."""

    name: Name
    queues: tuple[Name, ...] | None = None
    most_jobs: WholeNumber | None = None
    highest_priority: Priority | None = None
    may_submit_as: tuple[SubmissionRightTable, ...] = ()


class SiteFile(Table):
    """A site as its file says it; `problems` tells what does not fit together."""

    name: Name
    description: Text = ""
    only_listed_users: bool = Field(default=False, strict=True)
    machine_classes: tuple[MachineClassTable, ...]
    machines: tuple[MachinesTable, ...] = ()
    interconnects: tuple[InterconnectTable, ...] = ()
    clusters: tuple[ClusterTable, ...] = ()
    job_classes: tuple[JobClassTable, ...]
    queues: tuple[QueueTable, ...] = ()
    users: tuple[UserTable, ...] = ()

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
        yield from self._problems_of_users()

    def in_site_order(self) -> SiteFile:
        """The same site, written in one way only: what the file may say in any order is in site order, and
        neighbouring groups of machines with one specification are one group."""
        at = {name: k for k, name in enumerate(self.machine_names)}
        lines = {table.name: k for k, table in enumerate(self.interconnects)}
        queues = {table.name: k for k, table in enumerate(self.queues)}

        def ordered(names: tuple[str, ...], known: Mapping[str, int]) -> tuple[str, ...]:
            return tuple(sorted(names, key=known.__getitem__))

        groups: list[MachinesTable] = []
        for group in self.machines:
            group = group.model_copy(update={"interconnects": ordered(group.interconnects, lines)})
            if groups and _specification(groups[-1]) == _specification(group):
                groups[-1] = group.model_copy(update={"names": groups[-1].names + group.names})
            elif group.names:
                groups.append(group)
        clusters = [
            table.model_copy(
                update={
                    "members": ordered(table.members, at),
                    "interconnects": ordered(table.interconnects, lines),
                }
            )
            for table in self.clusters
        ]
        of_queues = [
            table.model_copy(
                update={
                    "users": None if table.users is None else tuple(sorted(table.users)),
                    "displaces": ordered(table.displaces, queues),
                }
            )
            for table in self.queues
        ]
        people = [
            table.model_copy(
                update={
                    "queues": None if table.queues is None else ordered(table.queues, queues),
                    "may_submit_as": tuple(
                        right.model_copy(
                            update={"queues": None if right.queues is None else ordered(right.queues, queues)}
                        )
                        for right in sorted(table.may_submit_as, key=lambda right: right.user)
                    ),
                }
            )
            for table in self.users
        ]
        return self.model_copy(
            update={
                "machines": tuple(groups),
                "clusters": tuple(clusters),
                "queues": tuple(of_queues),
                "users": tuple(people),
            }
        )

    def _problems_of_machines(self) -> Iterator[Problem]:
        machine_classes = _known(table.name for table in self.machine_classes)
        interconnects = _known(table.name for table in self.interconnects)
        yield from _twice(
            "machine",
            (
                (("machines", k, "names", name), name)
                for k, group in enumerate(self.machines)
                for name in group.names
            ),
        )
        for k, group in enumerate(self.machines):
            place, who = ("machines", k), f"the group of machines {k + 1}"
            kind = [group.machine_class]
            yield from _unknown((*place, "machine_class"), who, kind, "machine class", machine_classes)
            at = (*place, "interconnects")
            yield from _named_twice(at, who, group.interconnects, "interconnect")
            yield from _unknown(at, who, group.interconnects, "interconnect", interconnects)
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
                ("commands", job_class.commands, "machine class", machine_classes),
                ("parallel_commands", job_class.parallel_commands, "cluster", clusters),
                ("preferred", job_class.preferred, "machine class", machine_classes),
            ):
                yield from _named_twice((*place, key), who, names, what)
                yield from _unknown((*place, key), who, names, what, known)
            parallel = job_class.parallel_s or job_class.parallel_commands
            sequential = job_class.sequential_s.keys() | job_class.commands.keys()
            if not parallel and with_machines.isdisjoint(sequential):
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
            # The jobs of displaced runs rejoin their queue in the same round.
            before = {q.name for n, q in enumerate(self.queues) if (-q.priority, n) < (-queue.priority, k)}
            for name in queue.displaces:
                if name in before:
                    yield (
                        (*place, "displaces", name),
                        f"{who} displaces '{name}', which is served before it; give it a higher priority",
                    )

    def _problems_of_users(self) -> Iterator[Problem]:
        queues, users = _known(q.name for q in self.queues), _known(u.name for u in self.users)
        for k, user in enumerate(self.users):
            place, who = ("users", k), f"user '{user.name}'"
            yield from _named_twice((*place, "queues"), who, user.queues or (), "queue")
            yield from _unknown((*place, "queues"), who, user.queues or (), "queue", queues)
            at = (*place, "may_submit_as")
            yield from _named_twice(at, who, [right.user for right in user.may_submit_as], "user")
            for n, right in enumerate(user.may_submit_as):
                yield from _unknown((*at, n, "user"), who, [right.user], "user", users)
                yield from _named_twice((*at, n, "queues"), who, right.queues or (), "queue")
                yield from _unknown((*at, n, "queues"), who, right.queues or (), "queue", queues)
                if right.user == user.name:
                    yield (*at, n, "user"), f"{who} may submit as themselves without being told so"


_SINGULAR = {
    "machine_classes": "machine class",
    "interconnects": "interconnect",
    "clusters": "cluster",
    "job_classes": "job class",
    "queues": "queue",
    "users": "user",
}


def _specification(group: MachinesTable) -> MachinesTable:
    """All that the machines of a group have in common."""
    return group.model_copy(update={"names": ()})


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
    """The site in a TOML file, in site order. Raises InvalidFile with a sentence for the first mistake."""
    text = toml_file.read_text(path)
    site = toml_file.validate(toml_file.parse(text, path), SiteFile, text, path)
    for place, sentence in site.problems():
        raise toml_file.invalid(text, path, place, sentence)
    return site.in_site_order()


def site_text(site: SiteFile) -> str:
    """The site as the text of a site file: reading it again gives an equal site."""
    data = site.model_dump(mode="json", exclude_defaults=True)
    for table, group in zip(data.get("machines", ()), site.machines, strict=True):
        table["names"] = hostlist.fold(group.names)
    for table, cluster in zip(data.get("clusters", ()), site.clusters, strict=True):
        table["members"] = hostlist.fold(cluster.members)
    return tomlkit.dumps(data)
